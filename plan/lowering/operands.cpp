// Operands of a node in the layout and format that it wants: stored tensors, samples, results of other nodes and stages.

#include <algorithm>

#include "base/error.hpp"
#include "plan/lowering/role_builder.hpp"

namespace rehearsal::plan {

using graph::NodeId;
using graph::Phase;
using graph::TensorId;

namespace {

bool is_stored(graph::Role role) {
  return role == graph::Role::Parameter || role == graph::Role::Constant || role == graph::Role::State || role == graph::Role::Slot;
}

/// Both formats put the elements in the same order.
bool same_order(const graph::Shape& shape, Format a, Format b) {
  if (a == b) return true;
  if (a == Format::Packed || b == Format::Packed || shape.size() < 3) return false;
  const auto spatial = graph::element_count(graph::Shape(shape.begin() + 2, shape.end()));
  return shape[1] == 1 || spatial == 1;
}

}  // namespace

BufferIndex RoleBuilder::operand(NodeId n, std::size_t index, std::uint16_t body) {
  const auto t = g_[n].inputs[index];
  const auto& tensor = g_[t];
  if (tensor.role == graph::Role::Input) return input_block(t, n, index, body);
  const int conversion = c_.sharding.fed_by[graph::index(n)][index];
  const auto find_any = [&](int wanted) {
    for (auto format : {Format::Plain, Format::ChannelsLast})
      if (const auto at = buffers_.find({t, wanted, format, false}); at != buffers_.end()) return at->second;
    return kNoBuffer;
  };
  if (conversion >= 0)
    if (const auto known = find_any(conversion); known != kNoBuffer) return known;
  BufferIndex source = find_any(-1);
  if (source == kNoBuffer && is_stored(tensor.role)) source = stored_buffer(t);
  if (source == kNoBuffer && c_.stages[tensor.producer] == kAnyStage && lowered_.insert(static_cast<int>(tensor.producer)).second) {
    // Computed from constants alone: every stage has its own, once a step when all micro-batches share it.
    const bool in_loop = c_.time_axis < c_.sharding.axes.size();
    const bool varies = in_loop && c_.sharding.layout(t)[c_.time_axis].split();
    lower_node(tensor.producer, in_loop && !varies ? prologue_ : body);
    source = find_any(-1);
  }
  if (source == kNoBuffer) source = receive(t, body);
  return conversion < 0 ? source : converted(conversion, source, body);
}

BufferIndex RoleBuilder::input_block(TensorId t, NodeId user, std::size_t index, std::uint16_t body) {
  const bool whole = !per_micro_batch(role_.bodies[body].kind) && c_.program.micro_batches > 1;
  const Key key{t, -1, Format::Plain, whole};
  if (const auto known = buffers_.find(key); known != buffers_.end()) return known->second;
  std::vector<graph::Shape> shapes;
  for (const auto& at : at_) shapes.push_back(c_.sharding.operand_shape(user, index, at));
  auto layout = c_.sharding.wanted[graph::index(user)][index];
  auto buffer = describe(t, layout, shapes, body);
  if (!per_micro_batch(role_.bodies[body].kind)) buffer.lifetime = Lifetime::Step;
  const auto b = new_buffer(std::move(buffer), &key);
  Instruction load;
  load.kind = InstructionKind::Load;
  load.phase = Phase::Forward;
  load.tensor = t;
  load.outputs = {b};
  emit(body, std::move(load));
  return b;
}

BufferIndex RoleBuilder::in_format(BufferIndex source, const Key& key, Format format, std::uint16_t body) {
  const auto from = role_.buffers[source].format;
  bool same = true;
  for (const auto& shape : role_.buffers[source].shapes) same = same && same_order(shape, from, format);
  if (from == format) return source;
  const Key wanted{key.tensor, key.conversion, format, key.whole};
  if (const auto known = buffers_.find(wanted); known != buffers_.end() && home_[base(known->second)] <= body && format != Format::Packed)
    return known->second;
  Buffer copy = role_.buffers[source];
  copy.format = format;
  copy.offset = -1;
  copy.part_of = same ? source : kNoBuffer;
  copy.part_offset = 0;
  copy.lifetime = body == prologue_ ? Lifetime::Step : Lifetime::Transient;
  copy.sent = false;
  if (!same) copy.category = copy.category == MemoryCategory::Inputs ? MemoryCategory::Activations : copy.category;
  const auto b = new_buffer(std::move(copy), &wanted);
  if (same) return b;
  Instruction reorder;
  reorder.kind = InstructionKind::Reorder;
  reorder.phase = body == forward_ ? Phase::Forward : body == backward_ ? Phase::Backward : Phase::Update;
  reorder.tensor = key.tensor;
  reorder.inputs = {source};
  reorder.outputs = {b};
  reorder.kernel = static_cast<std::int32_t>(role_.kernels.size());
  role_.kernels.push_back({"reorder", {from}, {format}, 0});
  emit(body, std::move(reorder));
  return b;
}

BufferIndex RoleBuilder::converted(int index, BufferIndex source, std::uint16_t body) {
  const auto& conversion = c_.sharding.conversions[static_cast<std::size_t>(index)];
  // Micro-batches are summed before ranks: one message a step instead of one a micro-batch.
  auto steps = conversion.steps;
  std::stable_partition(steps.begin(), steps.end(), [&](const ConversionStep& step) { return step.axis == c_.time_axis; });
  BufferIndex b = source;
  for (const auto& step : steps) b = apply_step(conversion, step, b, body);
  const Key key{conversion.tensor, index, role_.buffers[b].format, false};
  buffers_[key] = b;
  return b;
}

BufferIndex RoleBuilder::apply_step(const Conversion& conversion, const ConversionStep& step, BufferIndex source, std::uint16_t body) {
  const auto t = conversion.tensor;
  const auto bucketed = part_of_bucket_.find(t);
  if (step.kind == ConversionKind::AllReduce && bucketed != part_of_bucket_.end())
    return bucketed->second;  // gradients: done by their bucket
  if (step.kind == ConversionKind::AllReduce && step.axis == c_.time_axis) {
    const auto sum = accumulators_.find(t);
    ensure(sum != accumulators_.end(), "a sum over micro-batches is accumulated where it is produced");
    return sum->second;
  }
  if (step.kind == ConversionKind::AllReduce) {
    // What is computed once before the loop is summed there, whoever asks first: nodes before the loop may ask later.
    all_reduce(source, t, home_[base(source)] == prologue_ ? prologue_ : body, When::Always);
    return source;
  }
  if (step.kind == ConversionKind::Slice) {
    auto buffer = describe(t, conversion.to, shapes_of(t, conversion.to), body);
    // Constants have dimensions of their own at every use: the shape comes from the consumer.
    for (std::size_t v = 0; v < at_.size() && !conversion.consumers.empty(); ++v)
      buffer.shapes[v] = c_.sharding.operand_shape(conversion.consumers.front().node, conversion.consumers.front().operand, at_[v]);
    buffer.bytes = 0;
    for (const auto& s : buffer.shapes)
      buffer.bytes = std::max(buffer.bytes, graph::element_count(s) * static_cast<std::int64_t>(size_of(buffer.dtype)));
    const auto b = new_buffer(std::move(buffer), nullptr);
    Instruction slice;
    slice.kind = InstructionKind::Slice;
    slice.phase = conversion.phase;
    slice.tensor = t;
    slice.inputs = {source};
    slice.outputs = {b};
    emit(body, std::move(slice));
    return b;
  }
  const auto user = conversion.consumers.empty() ? std::string("the result") : "node " + g_[conversion.consumers.front().node].name;
  throw Refusal("plan: " + user + " needs tensor " + g_[t].name + " by " + std::string(name(step.kind)) + " along " +
                c_.sharding.axes[step.axis].name +
                ", which this version cannot run; use dp=1 for this model, or a batch that its operators can split");
}

void RoleBuilder::all_reduce(BufferIndex buffer, TensorId t, std::uint16_t body, When when) {
  Instruction collective;
  collective.kind = InstructionKind::Collective;
  collective.stream = Stream::Collective;
  collective.when = when;
  collective.phase = body == forward_ ? Phase::Forward : Phase::Backward;
  collective.tensor = t;
  collective.inputs = {buffer};
  collective.outputs = {buffer};
  collective.collective = static_cast<std::int32_t>(role_.collectives.size());
  role_.collectives.push_back(
      {CollectiveKind::AllReduce, allreduce_algorithm(role_.buffers[buffer].bytes), static_cast<std::uint8_t>(c_.data_mesh_axis)});
  emit(body, std::move(collective));
}

BufferIndex RoleBuilder::accumulated(TensorId t, BufferIndex source, std::uint16_t body) {
  const auto part = part_of_bucket_.find(t);
  BufferIndex sum = kNoBuffer;
  if (part != part_of_bucket_.end()) {
    sum = part->second;
  } else {
    Buffer buffer = role_.buffers[source];
    buffer.part_of = kNoBuffer;
    buffer.part_offset = 0;
    buffer.lifetime = Lifetime::Step;
    sum = new_buffer(std::move(buffer), nullptr);
  }
  accumulators_[t] = sum;
  Instruction add;
  add.kind = InstructionKind::Accumulate;
  add.phase = body == forward_ ? Phase::Forward : Phase::Backward;
  add.tensor = t;
  add.inputs = {source};
  add.outputs = {sum};
  emit(body, std::move(add));
  return sum;
}

void RoleBuilder::after_production(NodeId n, std::uint16_t body) {
  for (auto t : g_[n].outputs) {
    if (t == TensorId::None) continue;
    BufferIndex b = kNoBuffer;
    Key found{t};
    for (auto format : {Format::Plain, Format::ChannelsLast})
      if (const auto at = buffers_.find({t, -1, format, false}); at != buffers_.end()) b = at->second, found.format = format;
    if (b == kNoBuffer) continue;
    if (is_bucketed(t))
      gradient_produced(t, in_format(b, found, Format::Plain, body), body);
    else if (per_micro_batch(role_.bodies[body].kind) && time_summed_.contains(t))
      accumulated(t, b, body);
  }
  send_results(n, body);
}

}  // namespace rehearsal::plan
