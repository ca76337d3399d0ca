#include "plan/lowering/role_draft.hpp"

#include <algorithm>

#include "plan/memory/under_way.hpp"
#include "plan/sharding/copies.hpp"

namespace rehearsal::plan {

using graph::NodeId;
using graph::Phase;
using graph::TensorId;

namespace {

MemoryCategory category_of(graph::TensorRole role) {
  switch (role) {
    case graph::TensorRole::Parameter:
    case graph::TensorRole::Frozen:
    case graph::TensorRole::Constant:
      return MemoryCategory::Parameters;
    case graph::TensorRole::Slot:
      return MemoryCategory::OptimizerState;
    case graph::TensorRole::State:
      return MemoryCategory::Statistics;
    case graph::TensorRole::Input:
      return MemoryCategory::Inputs;
    case graph::TensorRole::Gradient:
      return MemoryCategory::Gradients;
    default:
      return MemoryCategory::Activations;
  }
}

}  // namespace

RoleDraft::RoleDraft(const LoweringContext& context, const RolePlace& place)
    : c_(context),
      g_(context.training.graph),
      stage_(place.copy == 0 ? place.stage : context.plan.pp - 1 - place.stage),
      direction_(place.copy == 0 ? 1 : -1) {
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

/// In the order in which a micro-batch passes them.
void RoleDraft::open_bodies() {
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
  if (is_bidirectional()) exchange_ = open(BodyKind::Update, 0);
  update_ = open(BodyKind::Update, 0);
  if (c_.plan.local_steps > 0) meeting_ = open(BodyKind::Update, 0);
}

/// A body of the gradients that nobody waits for.
bool RoleDraft::runs_late(std::uint16_t body) const { return std::find(weights_.begin(), weights_.end(), body) != weights_.end(); }

/// Is a buffer of a micro-batch there when this body runs? Late gradients of a chunk may run before earlier chunks' backward passes.
bool RoleDraft::is_written_before(BufferIndex b, std::uint16_t body) const {
  const auto home = home_[base(b)];
  if (home > body) return false;
  if (!runs_late(body) || kind(home) != BodyKind::Backward) return true;
  const auto chunk = role_.bodies[body].chunk, written = role_.bodies[home].chunk;
  return runs_late(home) ? written == chunk : written >= chunk;
}

bool RoleDraft::runs_here(NodeId n) const { return c_.stages[n] == stage_; }

std::uint16_t RoleDraft::body_of(NodeId n) const {
  const auto part = c_.sharding.parts[graph::index(n)];
  const bool as_weights = !c_.of_weights.empty() && c_.of_weights[graph::index(n)];
  if (part == LoopPart::Before && !as_weights) return prologue_;
  if (part == LoopPart::After || g_[n].phase == Phase::Update) return update_;
  const auto chunk = static_cast<std::size_t>(c_.pipeline.chunk(n));
  if (g_[n].phase == Phase::Forward) return forward_[chunk];
  return !weights_.empty() && c_.pipeline.can_wait[graph::index(n)] ? weights_[chunk] : backward_[chunk];
}

BufferIndex RoleDraft::new_workspace(const std::string& node, Bytes size) {
  return new_vector(node + ":workspace", DType::U8, static_cast<std::int64_t>(size.value()), MemoryCategory::Workspace,
                    Lifetime::Transient);
}

BufferIndex RoleDraft::new_vector(std::string name, DType dtype, std::int64_t elements, MemoryCategory category, Lifetime lifetime) {
  Buffer vector;
  vector.name = std::move(name);
  vector.dtype = dtype;
  vector.shapes = {{elements}};
  vector.category = category;
  vector.lifetime = lifetime;
  set_bytes(vector);
  return new_buffer(std::move(vector), nullptr);
}

Buffer RoleDraft::by_itself(Buffer buffer) {
  buffer.part_of = kNoBuffer;
  buffer.part_offset = 0;
  buffer.offset = -1;
  buffer.sent = false;
  return buffer;
}

void RoleDraft::set_bytes(Buffer& buffer) {
  buffer.bytes = 0;
  for (const auto& shape : buffer.shapes)
    buffer.bytes = std::max(buffer.bytes, graph::element_count(shape) * static_cast<std::int64_t>(size_of(buffer.dtype)));
}

/// On what writes its operands and results, and on what still reads the latter: weights that are on their way to another stage are not
/// overwritten. Readers in the passes of micro-batches have ended where a later body begins, since what follows from them has been read.
void RoleDraft::add_dependencies(Instruction& instruction, std::uint16_t body) const {
  const bool in_order = waits_for_its_stream(instruction);
  const auto depend = [&](const Writer& other) {
    if (!other.known || (in_order && other.stream == instruction.stream)) return;
    const Dependency d{other.body, other.instruction};
    if (std::find(instruction.after.begin(), instruction.after.end(), d) == instruction.after.end()) instruction.after.push_back(d);
  };
  for (auto b : instruction.inputs)
    if (b != kNoBuffer) depend(writers_[base(b)]);
  for (auto b : instruction.outputs) {
    if (b == kNoBuffer) continue;
    depend(writers_[base(b)]);
    for (const auto& reader : readers_[base(b)])
      if (reader.body == body || kind(reader.body) == BodyKind::Update) depend(reader);
  }
}

BufferIndex RoleDraft::new_buffer(Buffer buffer, const Key* key) {
  const auto index = static_cast<BufferIndex>(role_.buffers.size());
  role_.buffers.push_back(std::move(buffer));
  writers_.emplace_back();
  readers_.emplace_back();
  home_.push_back(0xFFFF);
  if (key != nullptr) buffers_[*key] = index;
  return index;
}

BufferIndex RoleDraft::lies_at(TensorId t, int conversion) const {
  for (const auto format : {Format::Plain, Format::ChannelsLast})
    if (const auto at = buffers_.find({t, conversion, format, false}); at != buffers_.end()) return at->second;
  return kNoBuffer;
}

BufferIndex RoleDraft::base(BufferIndex b) const { return base_of(role_, b); }

std::vector<graph::Shape> RoleDraft::shapes_of(TensorId t, const Layout& layout) const {
  std::vector<graph::Shape> shapes;
  for (const auto& at : at_) shapes.push_back(c_.sharding.local_shape(t, layout, at));
  return shapes;
}

Lifetime RoleDraft::lifetime_in(std::uint16_t body) const { return body == prologue_ ? Lifetime::Step : Lifetime::Transient; }

Buffer RoleDraft::describe(TensorId t, const Layout& layout, const std::vector<graph::Shape>& shapes, std::uint16_t body) const {
  Buffer b;
  b.tensor = t;
  b.name = g_[t].name;
  b.dtype = g_[t].type.dtype;
  b.shapes = shapes;
  b.category = category_of(g_[t].role);
  b.lifetime = lifetime_in(body);
  b.layout = layout;
  set_bytes(b);
  return b;
}

Buffer RoleDraft::retyped(Buffer buffer, DType dtype) {
  const auto before = static_cast<std::int64_t>(size_of(buffer.dtype));
  buffer.bytes = buffer.bytes / before * static_cast<std::int64_t>(size_of(dtype));
  buffer.dtype = dtype;
  return buffer;
}

Buffer RoleDraft::describe_operand(NodeId user, std::size_t operand, const Layout& layout, std::uint16_t body) const {
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

void RoleDraft::note_cross_body_use(BufferIndex b, std::uint16_t body) {
  const auto owner = base(b);
  if (home_[owner] == 0xFFFF) home_[owner] = body;
  auto& lifetime = role_.buffers[owner].lifetime;
  if (home_[owner] == body || lifetime != Lifetime::Transient) return;
  // From forward to backward of the same micro-batch, or (with a single micro-batch) from either to the update.
  lifetime = Lifetime::Saved;
}

/// Of several chunks, and of both parts of a backward pass, the body that runs last: they are opened in that order.
std::uint16_t RoleDraft::last_of_backward(std::uint16_t body) const { return weights_.empty() ? body : weights_.front(); }

Phase RoleDraft::phase_in(std::uint16_t body) const {
  if (kind(body) == BodyKind::Backward) return Phase::Backward;
  return kind(body) == BodyKind::Update ? Phase::Update : Phase::Forward;
}

Instruction RoleDraft::instruction(InstructionKind kind, TensorId tensor, std::uint16_t body, std::vector<BufferIndex> inputs,
                                   std::vector<BufferIndex> outputs) const {
  Instruction i;
  i.kind = kind;
  i.phase = phase_in(body);
  i.tensor = tensor;
  i.inputs = std::move(inputs);
  i.outputs = std::move(outputs);
  return i;
}

std::uint32_t RoleDraft::append(std::uint16_t body, Instruction instruction) {
  add_dependencies(instruction, body);
  auto& list = role_.bodies[body].instructions;
  const auto at = static_cast<std::uint32_t>(list.size());
  for (auto b : instruction.inputs)
    if (b != kNoBuffer) {
      note_cross_body_use(b, body);
      readers_[base(b)].push_back({body, at, instruction.stream, true});
    }
  for (auto b : instruction.outputs)
    if (b != kNoBuffer) {
      note_cross_body_use(b, body);
      writers_[base(b)] = {body, at, instruction.stream, true};
      readers_[base(b)].clear();
    }
  list.push_back(std::move(instruction));
  return at;
}

}  // namespace rehearsal::plan
