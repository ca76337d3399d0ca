// Operands of a node in the layout and format that it wants: stored tensors, samples, results of other nodes and stages.

#include "plan/lowering/sharded_gradients.hpp"

namespace rehearsal::plan {

using graph::NodeId;
using graph::Phase;
using graph::TensorId;

namespace {

bool is_stored(graph::TensorRole role) {
  return graph::is_weight(role) || role == graph::TensorRole::Constant || role == graph::TensorRole::State ||
         role == graph::TensorRole::Slot;
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
  const auto found = converted_operand(n, index, body);
  return is_wide_sum(found) && !reads_sums({n, index}) ? rounded_sum(found, body) : found;
}

BufferIndex RoleBuilder::converted_operand(NodeId n, std::size_t index, std::uint16_t body) {
  const auto t = g_[n].inputs[index];
  const auto& tensor = g_[t];
  if (tensor.role == graph::TensorRole::Input) return input_block(t, n, index, body);
  const int conversion = c_.sharding.fed_by[graph::index(n)][index];
  const bool updates = g_[n].phase == Phase::Update && !c_.of_weights.empty() && tensor.role == graph::TensorRole::Parameter;
  if (conversion >= 0)
    // What a later body converts is not there yet when an earlier one runs.
    if (const auto known = lies_at(t, conversion);
        known != kNoBuffer && is_written_before(known, body) && (!updates || home_[base(known)] == body))
      return known;
  BufferIndex source = lies_at(t);
  if (source == kNoBuffer && is_stored(tensor.role)) source = stored_buffer(t);
  if (source != kNoBuffer && updates) source = version_of(source, WeightVersion::Newest);
  if (source != kNoBuffer && tensor.role == graph::TensorRole::Slot && role_.buffers[source].on_host)
    source = brought_from_host(source, body);
  if (source == kNoBuffer && c_.recomputation.drops(t)) {
    recompute(t, body);
    source = lies_at(t);
  }
  if (source == kNoBuffer && c_.stages[tensor.producer] == kAnyStage && lowered_.insert(static_cast<int>(tensor.producer)).second) {
    // Computed from constants alone: every stage has its own, once a step when all micro-batches share it.
    const bool in_loop = c_.time_axis < c_.sharding.axes.size();
    const bool varies = in_loop && c_.sharding.layout(t)[c_.time_axis].split();
    lower_node(tensor.producer, in_loop && !varies ? prologue_ : body);
    source = lies_at(t);
  }
  if (source == kNoBuffer) source = receive(t, body);
  return conversion < 0 ? source : converted(conversion, source, body);
}

/// The data loader gives any block: every layout that some reader wants is loaded, none is converted.
BufferIndex RoleBuilder::input_block(TensorId t, NodeId user, std::size_t index, std::uint16_t body) {
  const bool whole = !per_micro_batch(role_.bodies[body].kind) && c_.program.micro_batches > 1;
  const Key key{t, c_.sharding.fed_by[graph::index(user)][index], Format::Plain, whole};
  const auto layout = c_.sharding.wanted[graph::index(user)][index];
  if (const auto known = buffers_.find(key); known != buffers_.end()) return known->second;
  auto buffer = describe_operand(user, index, layout, body);
  if (!per_micro_batch(role_.bodies[body].kind)) buffer.lifetime = Lifetime::Step;
  const auto b = new_buffer(std::move(buffer), &key);
  auto load = instruction(InstructionKind::Load, t, body, {}, {b});
  load.phase = Phase::Forward;
  emit(body, std::move(load));
  return b;
}

BufferIndex RoleBuilder::in_format(BufferIndex source, const Key& key, Format format, std::uint16_t body) {
  const auto from = role_.buffers[source].format;
  bool same = true;
  for (const auto& shape : role_.buffers[source].shapes) same = same && same_order(shape, from, format);
  if (from == format) return source;
  const Key wanted{key.tensor, key.conversion, format, key.whole};
  if (const auto known = buffers_.find(wanted); known != buffers_.end() && is_written_before(known->second, body) &&
                                                format != Format::Packed &&
                                                role_.buffers[known->second].dtype == role_.buffers[source].dtype)
    return known->second;
  Buffer copy = by_itself(role_.buffers[source]);
  copy.format = format;
  if (same) copy.part_of = source;
  copy.lifetime = lifetime_in(body);
  if (!same) copy.category = copy.category == MemoryCategory::Inputs ? MemoryCategory::Activations : copy.category;
  const auto b = new_buffer(std::move(copy), &wanted);
  if (same) return b;
  return copy_into(source, b, body);
}

BufferIndex RoleBuilder::accumulated(TensorId t, BufferIndex source, std::uint16_t body) {
  const auto part = part_of_bucket_.find(t);
  BufferIndex sum = kNoBuffer;
  if (part != part_of_bucket_.end()) {
    sum = part->second;
  } else {
    Buffer buffer = by_itself(retyped(role_.buffers[source], sum_type(role_.buffers[source].dtype)));
    buffer.lifetime = Lifetime::Step;
    buffer.layout[c_.time_axis] = {};
    sum = new_buffer(std::move(buffer), nullptr);
  }
  accumulators_[t] = sum;
  auto add = instruction(InstructionKind::Accumulate, t, body, {source}, {sum});
  if (kind(body) != BodyKind::Forward) add.phase = Phase::Backward;
  emit(body, std::move(add));
  return sum;
}

void RoleBuilder::after_production(NodeId n, std::uint16_t body) {
  for (auto t : g_[n].outputs) {
    if (t == TensorId::None) continue;
    const auto b = lies_at(t);
    if (b == kNoBuffer) continue;
    const auto in_plain = [&] { return in_format(b, Key{t}, Format::Plain, body); };
    if (dealt_gradients_->has(t))
      dealt_gradients_->add(t, in_plain(), body);
    else if (conversion_into_storage(t) >= 0)
      store_converted(t, b, body);
    else if (g_[t].role == graph::TensorRole::Updated && at_work_.contains(g_[t].stored_in))
      put_back(t, b, body);
    else if (bucket_of_.contains(t))
      gradient_produced(t, in_plain(), body);
    else if (per_micro_batch(role_.bodies[body].kind) && time_summed_.contains(t))
      accumulated(t, stages_reading(t).empty() ? b : in_plain(), body);
  }
  send_results(n, body);
}

}  // namespace rehearsal::plan
