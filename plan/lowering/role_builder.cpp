#include "plan/lowering/role_builder.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "plan/lowering/apart.hpp"
#include "plan/lowering/dealt_gradients.hpp"
#include "plan/lowering/deferral.hpp"
#include "plan/lowering/gathered_parameters.hpp"
#include "plan/lowering/prefetch.hpp"
#include "plan/memory/planner.hpp"
#include "plan/sharding/copies.hpp"

namespace rehearsal::plan {

using graph::NodeId;
using graph::Phase;
using graph::TensorId;

RoleBuilder::RoleBuilder(const LoweringContext& context, const Place& place)
    : c_(context),
      g_(context.training.graph),
      stage_(place.copy == 0 ? place.stage : context.plan.pp - 1 - place.stage),
      direction_(place.copy == 0 ? 1 : -1),
      dealt_gradients_(std::make_unique<DealtGradients>(*this)),
      gathered_parameters_(std::make_unique<GatheredParameters>(*this)) {
  role_.stage = place.stage;
  const auto& program = c_.program;
  const int rank = place.rank;
  for (int m = 0; m < micro_batches_of(program, rank); ++m) {
    const auto count = samples(program, rank, m).count;
    auto known = std::find(role_.variant_samples.begin(), role_.variant_samples.end(), count);
    if (known == role_.variant_samples.end()) {
      at_.push_back(position(program, rank, m));
      role_.variant_samples.push_back(count);
      known = role_.variant_samples.end() - 1;
    }
    role_.variant_of.push_back(static_cast<std::uint8_t>(known - role_.variant_samples.begin()));
  }
}

RoleBuilder::~RoleBuilder() = default;

Role RoleBuilder::build() && {
  open_bodies();
  for (std::size_t i = 0; i < c_.sharding.conversions.size(); ++i) {
    const auto& conversion = c_.sharding.conversions[i];
    if (g_[conversion.tensor].role == graph::Role::Updated && conversion.consumers.empty())
      into_storage_[conversion.tensor] = static_cast<int>(i);
  }
  plan_buckets();
  for (const auto& conversion : c_.sharding.conversions)
    for (const auto& step : conversion.steps)
      if (step.axis == c_.time_axis && step.kind == ConversionKind::AllReduce) time_summed_.insert(conversion.tensor);
  lower_nodes();
  exchange_updated_parameters();
  emit_report();
  gathered_parameters_->close();
  if (c_.plan.overlap) {
    prefetch_parameters(role_, c_.options.bucket_bytes);
    defer_sums(role_, c_.options.bucket_bytes);
  } else {
    hold_sums_back();
    keep_collectives_apart(role_);
  }
  return std::move(role_);
}

/// In the order in which a micro-batch passes them.
void RoleBuilder::open_bodies() {
  const int chunks = c_.pipeline.shape.chunks;
  const auto open = [&](BodyKind kind, int chunk) {
    role_.bodies.push_back({kind, static_cast<std::uint16_t>(chunk), {}});
    return static_cast<std::uint16_t>(role_.bodies.size() - 1);
  };
  prologue_ = open(BodyKind::Prologue, 0);
  forward_.resize(static_cast<std::size_t>(chunks));
  backward_ = forward_;
  for (int c = 0; c < chunks; ++c) forward_[static_cast<std::size_t>(c)] = open(BodyKind::Forward, c);
  for (int c = chunks - 1; c >= 0; --c) backward_[static_cast<std::size_t>(c)] = open(BodyKind::Backward, c);
  if (c_.pipeline.schedule->splits_backward) weights_ = forward_;
  for (auto c = static_cast<int>(weights_.size()) - 1; c >= 0; --c) weights_[static_cast<std::size_t>(c)] = open(BodyKind::Backward, c);
  if (has_twin()) exchange_ = open(BodyKind::Update, 0);
  update_ = open(BodyKind::Update, 0);
}

/// A body of the gradients that nobody waits for.
bool RoleBuilder::runs_late(std::uint16_t body) const { return std::find(weights_.begin(), weights_.end(), body) != weights_.end(); }

/// Is a buffer of a micro-batch there when this body runs? Late gradients of a chunk may run before earlier chunks' backward passes.
bool RoleBuilder::is_written_before(BufferIndex b, std::uint16_t body) const {
  const auto home = home_[base(b)];
  if (home > body) return false;
  if (!runs_late(body) || kind(home) != BodyKind::Backward) return true;
  const auto chunk = role_.bodies[body].chunk, written = role_.bodies[home].chunk;
  return runs_late(home) ? written == chunk : written >= chunk;
}

bool RoleBuilder::runs_here(NodeId n) const { return c_.stages[n] == stage_; }

std::uint16_t RoleBuilder::body_of(NodeId n) const {
  const auto part = c_.sharding.parts[graph::index(n)];
  const bool as_weights = !c_.of_weights.empty() && c_.of_weights[graph::index(n)];
  if (part == LoopPart::Before && !as_weights) return prologue_;
  if (part == LoopPart::After || g_[n].phase == Phase::Update) return update_;
  const auto chunk = static_cast<std::size_t>(c_.pipeline.chunk(n));
  if (g_[n].phase == Phase::Forward) return forward_[chunk];
  return !weights_.empty() && c_.pipeline.can_wait[graph::index(n)] ? weights_[chunk] : backward_[chunk];
}

int RoleBuilder::conversion_into_storage(TensorId t) const {
  const auto at = into_storage_.find(t);
  return at == into_storage_.end() ? -1 : at->second;
}

/// What is run late may use what is not, and the update what both made, whatever the order of the nodes.
void RoleBuilder::lower_nodes() {
  const auto turn = [&](std::uint16_t body) { return body == update_ ? 2 : runs_late(body) ? 1 : 0; };
  bool in_backward = false;
  for (int now = 0; now < 3; ++now) {
    if (now == 2 && has_twin()) add_up_with_twin();
    for (std::size_t n = 0; n < g_.nodes().size(); ++n) {
      const auto id = static_cast<NodeId>(n);
      if (g_[id].phase == Phase::Backward && !in_backward) forget_for_backward();
      in_backward = in_backward || g_[id].phase == Phase::Backward;
      const bool everywhere = c_.stages[id] == kAnyStage && g_[id].phase == Phase::Update;
      if (!runs_here(id) && !everywhere) continue;
      const auto body = everywhere ? update_ : body_of(id);
      if (turn(body) == now) lower_node(id, body);
    }
  }
}

void RoleBuilder::lower_node(NodeId n, std::uint16_t body) {
  if (lower_in_ring(n, body) || lower_in_kernel(n, body)) {
    // with all of its ring, or of its kernel
  } else if (graph::has(graph::schema(g_[n]).traits, graph::Trait::View))
    lower_view(n, body);
  else
    lower_kernel(n, body);
  after_production(n, body);
  stash_results(n, body);
}

void RoleBuilder::lower_view(NodeId n, std::uint16_t body) {
  const auto out = g_[n].outputs.front();
  const Key key{g_[n].inputs.front(), -1, Format::Plain, false};
  const auto source = in_format(operand(n, 0, body), key, Format::Plain, body);
  auto buffer = describe(out, c_.sharding.layout(out), shapes_of(out, c_.sharding.layout(out)), body);
  buffer.part_of = source;
  buffer.category = role_.buffers[base(source)].category;
  const Key out_key{out, -1, Format::Plain, false};
  new_buffer(std::move(buffer), &out_key);
}

namespace {

std::vector<std::optional<graph::TensorType>> types_of(const Role& role, const std::vector<BufferIndex>& buffers, std::size_t variant) {
  std::vector<std::optional<graph::TensorType>> types;
  for (auto b : buffers) {
    if (b == kNoBuffer)
      types.emplace_back();
    else
      types.push_back(
          graph::TensorType{role.buffers[b].dtype, role.buffers[b].shapes[std::min(variant, role.buffers[b].shapes.size() - 1)]});
  }
  return types;
}

std::vector<Format> formats_of(const Role& role, const std::vector<BufferIndex>& buffers) {
  std::vector<Format> formats;
  for (auto b : buffers) formats.push_back(b == kNoBuffer ? Format::Plain : role.buffers[b].format);
  return formats;
}

}  // namespace

KernelOffer RoleBuilder::offer_for(const KernelCall& call, const std::vector<const Buffer*>& results) const {
  const auto now = formats_of(role_, call.inputs);
  std::vector<std::vector<std::optional<graph::TensorType>>> inputs, outputs;
  for (std::size_t v = 0; v < at_.size(); ++v) {
    inputs.push_back(types_of(role_, call.inputs, v));
    auto& types = outputs.emplace_back();
    for (const Buffer* result : results)
      types.push_back(result == nullptr ? std::nullopt : std::optional(graph::TensorType{result->dtype, result->shapes[v]}));
  }
  std::vector<LocalTypes> others;
  for (std::size_t v = 1; v < at_.size(); ++v) others.push_back({inputs[v], outputs[v]});
  return c_.backend.offer({call.schema, call.attributes, inputs.front(), outputs.front(), now, c_.options.threads, others});
}

void RoleBuilder::lower_kernel(NodeId n, std::uint16_t body) {
  const auto& node = g_[n];
  Instruction instruction;
  instruction.kind = InstructionKind::Kernel;
  instruction.phase = again_ ? Phase::Backward : node.phase;
  instruction.node = n;
  for (std::size_t i = 0; i < node.inputs.size(); ++i)
    instruction.inputs.push_back(node.inputs[i] == TensorId::None ? kNoBuffer : operand(n, i, body));
  std::vector<Buffer> results;
  for (auto t : node.outputs)
    if (t != TensorId::None) results.push_back(describe(t, c_.sharding.layout(t), shapes_of(t, c_.sharding.layout(t)), body));

  if (auto changed = c_.sharding.attributes_on(n, at_.front())) {
    instruction.attributes = static_cast<std::int32_t>(role_.attributes.size());
    role_.attributes.push_back(std::move(*changed));
  }
  std::vector<const Buffer*> wanted;
  for (std::size_t i = 0, r = 0; i < node.outputs.size(); ++i)
    wanted.push_back(node.outputs[i] == TensorId::None ? nullptr : &results[r++]);
  const auto offer = offer_for({graph::schema(node), attributes_of(role_, instruction, node), instruction.inputs}, wanted);
  bring_into_formats(n, instruction.inputs, offer.input_formats, body);
  for (std::size_t i = 0, r = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i] == TensorId::None) {
      instruction.outputs.push_back(kNoBuffer);
      continue;
    }
    auto& buffer = results[r++];
    buffer.format = offer.output_formats[i];
    instruction.outputs.push_back(place_result(node.outputs[i], std::move(buffer)));
  }
  if (offer.workspace.value() > 0) instruction.workspace = new_workspace(node.name, offer.workspace);
  instruction.kernel = static_cast<std::int32_t>(role_.kernels.size());
  role_.kernels.push_back(
      {offer.implementation, offer.input_formats, offer.output_formats, static_cast<std::int64_t>(offer.workspace.value()), {}});
  emit(body, std::move(instruction));
}

void RoleBuilder::bring_into_formats(NodeId n, std::vector<BufferIndex>& inputs, const std::vector<Format>& formats, std::uint16_t body) {
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i] != kNoBuffer) inputs[i] = in_format_of({n, i}, inputs[i], formats[i], body);
}

BufferIndex RoleBuilder::in_format_of(Use use, BufferIndex b, Format format, std::uint16_t body) {
  const TensorId t = g_[use.node].inputs[use.operand];
  const bool whole = g_[t].role == graph::Role::Input && !per_micro_batch(role_.bodies[body].kind) && c_.program.micro_batches > 1;
  const Key key{t, c_.sharding.fed_by[graph::index(use.node)][use.operand], format, whole};
  return in_format(b, key, format, body);
}

/// Where a kernel writes `t`: an updated parameter over the old one, a gradient straight into its bucket unless micro-batches are summed.
BufferIndex RoleBuilder::place_result(TensorId t, Buffer buffer) {
  const Key key{t, -1, buffer.format, false};
  // Made on the way to something else: what is kept stays what readers get, and running statistics are updated once.
  if (again_ && (g_[t].role == graph::Role::Updated || buffers_.contains(key))) return new_buffer(std::move(buffer), nullptr);
  if (g_[t].role == graph::Role::Updated) {
    if (const auto at = at_work_.find(g_[t].stored_in); at != at_work_.end()) return buffers_[key] = at->second;
    if (conversion_into_storage(t) < 0) return buffers_[key] = version_of(stored_buffer(g_[t].stored_in), WeightVersion::Next);
    buffer.category = MemoryCategory::Communication;
    return new_buffer(std::move(buffer), &key);
  }
  const auto part = part_of_bucket_.find(t);
  const bool in_bucket = part != part_of_bucket_.end() && c_.program.micro_batches == 1;
  const auto place = in_bucket ? part->second : dealt_gradients_->place_of(t);
  if (place == kNoBuffer || buffer.format != Format::Plain) return new_buffer(std::move(buffer), &key);
  return buffers_[key] = place;
}

BufferIndex RoleBuilder::new_workspace(const std::string& node, Bytes size) {
  Buffer workspace;
  workspace.name = node + ":workspace";
  workspace.dtype = DType::U8;
  workspace.bytes = static_cast<std::int64_t>(size.value());
  workspace.shapes = {{workspace.bytes}};
  workspace.category = MemoryCategory::Workspace;
  return new_buffer(std::move(workspace), nullptr);
}

std::uint32_t RoleBuilder::emit(std::uint16_t body, Instruction instruction) {
  instruction.again = again_;
  if (once_a_step_ && per_micro_batch(kind(body))) instruction.when = When::FirstMicroBatch;
  refuse_crossing(instruction, body);
  if (!stash_awaited_ && instruction.stream == Stream::Compute) instruction.after.push_back(awaited_stash_), stash_awaited_ = true;
  add_dependencies(instruction);
  auto& list = role_.bodies[body].instructions;
  const auto at = static_cast<std::uint32_t>(list.size());
  for (auto b : instruction.inputs)
    if (b != kNoBuffer) note_cross_body_use(b, body);
  for (auto b : instruction.outputs)
    if (b != kNoBuffer) {
      note_cross_body_use(b, body);
      writers_[base(b)] = {body, at, instruction.stream, true};
    }
  list.push_back(std::move(instruction));
  return at;
}

void RoleBuilder::add_dependencies(Instruction& instruction) const {
  const auto depend = [&](BufferIndex b) {
    if (b == kNoBuffer) return;
    const auto& writer = writers_[base(b)];
    if (!writer.known || writer.stream == instruction.stream) return;
    const Dependency d{writer.body, writer.instruction};
    if (std::find(instruction.after.begin(), instruction.after.end(), d) == instruction.after.end()) instruction.after.push_back(d);
  };
  for (auto b : instruction.inputs) depend(b);
  for (auto b : instruction.outputs) depend(b);
}

void RoleBuilder::emit_report() {
  const auto loss = c_.training.loss;
  if (loss == TensorId::None || stage_of_tensor(loss) != stage_) return;
  const auto at = buffers_.find({loss, -1, Format::Plain, false});
  ensure(at != buffers_.end(), "the loss is computed on the stage that owns it");
  BufferIndex result = at->second;
  const auto& conversions = c_.sharding.conversions;
  for (std::size_t i = 0; i < conversions.size(); ++i)
    if (conversions[i].tensor == loss && conversions[i].consumers.empty()) result = converted(static_cast<int>(i), result, update_);
  Instruction report;
  report.kind = InstructionKind::Report;
  report.phase = Phase::Update;
  report.tensor = loss;
  report.inputs = {result};
  emit(update_, std::move(report));
}

// ---- buffers

BufferIndex RoleBuilder::new_buffer(Buffer buffer, const Key* key) {
  const auto index = static_cast<BufferIndex>(role_.buffers.size());
  role_.buffers.push_back(std::move(buffer));
  writers_.emplace_back();
  home_.push_back(0xFFFF);
  if (key != nullptr) buffers_[*key] = index;
  return index;
}

BufferIndex RoleBuilder::base(BufferIndex b) const { return base_of(role_, b); }

std::vector<graph::Shape> RoleBuilder::shapes_of(TensorId t, const Layout& layout) const {
  std::vector<graph::Shape> shapes;
  for (const auto& at : at_) shapes.push_back(c_.sharding.local_shape(t, layout, at));
  return shapes;
}

namespace {

MemoryCategory category_of(graph::Role role) {
  switch (role) {
    case graph::Role::Parameter:
    case graph::Role::Frozen:
    case graph::Role::Constant:
      return MemoryCategory::Parameters;
    case graph::Role::Slot:
      return MemoryCategory::OptimizerState;
    case graph::Role::State:
      return MemoryCategory::Statistics;
    case graph::Role::Input:
      return MemoryCategory::Inputs;
    case graph::Role::Gradient:
      return MemoryCategory::Gradients;
    default:
      return MemoryCategory::Activations;
  }
}

}  // namespace

Lifetime RoleBuilder::lifetime_in(std::uint16_t body) const { return body == prologue_ ? Lifetime::Step : Lifetime::Transient; }

Buffer RoleBuilder::describe(TensorId t, const Layout& layout, const std::vector<graph::Shape>& shapes, std::uint16_t body) const {
  Buffer b;
  b.tensor = t;
  b.name = g_[t].name;
  b.dtype = g_[t].type.dtype;
  b.shapes = shapes;
  b.category = category_of(g_[t].role);
  b.lifetime = lifetime_in(body);
  for (const auto& s : shapes) b.bytes = std::max(b.bytes, graph::element_count(s) * static_cast<std::int64_t>(size_of(b.dtype)));
  b.layout = layout;
  return b;
}

Buffer RoleBuilder::describe_operand(NodeId user, std::size_t operand, const Layout& layout, std::uint16_t body) const {
  std::vector<graph::Shape> shapes;
  for (const auto& at : at_) {
    auto& shape = shapes.emplace_back();
    for (const IndexSet& set : c_.sharding.operand_region(user, operand, layout, at)) shape.push_back(count_of(set));
  }
  auto buffer = describe(g_[user].inputs[operand], layout, shapes, body);
  buffer.user = user;
  buffer.operand = static_cast<std::uint16_t>(operand);
  return buffer;
}

BufferIndex RoleBuilder::stored_buffer(TensorId t) {
  const Key key{t, -1, Format::Plain, false};
  if (const auto known = buffers_.find(key); known != buffers_.end()) return known->second;
  auto buffer = describe(t, c_.sharding.layout(t), shapes_of(t, c_.sharding.layout(t)), prologue_);
  buffer.lifetime = Lifetime::Persistent;
  buffer.on_host = lives_on_host(t);
  const auto& trained = c_.training.parameters;
  if (std::any_of(trained.begin(), trained.end(), [t](const auto& p) { return p.value == t && p.update != NodeId::None; }))
    buffer.versions = delay() + 1;
  return new_buffer(std::move(buffer), &key);
}

void RoleBuilder::note_cross_body_use(BufferIndex b, std::uint16_t body) {
  const auto owner = base(b);
  if (home_[owner] == 0xFFFF) home_[owner] = body;
  auto& lifetime = role_.buffers[owner].lifetime;
  if (home_[owner] == body || lifetime != Lifetime::Transient) return;
  // From forward to backward of the same micro-batch, or (with a single micro-batch) from either to the update.
  lifetime = Lifetime::Saved;
}

}  // namespace rehearsal::plan
