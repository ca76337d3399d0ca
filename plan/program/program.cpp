#include "plan/program/program.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

#include "base/error.hpp"
#include "graph/op_schema.hpp"
#include "plan/block.hpp"

namespace rehearsal::plan {

std::string_view name(InstructionKind kind) {
  static constexpr std::array<std::string_view, kInstructionKinds> kNames{
      "kernel",     "reorder", "accumulate", "slice", "mask",    "pack",     "unpack",     "send",      "receive",
      "collective", "load",    "report",     "stash", "restore", "compress", "decompress", "recompress"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::string_view name(Stream stream) {
  static constexpr std::array<std::string_view, 5> kNames{"compute", "collective", "send", "receive", "host"};
  return kNames[static_cast<std::size_t>(stream)];
}

std::string_view name(BodyKind kind) {
  static constexpr std::array<std::string_view, 4> kNames{"prologue", "forward", "backward", "update"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::string_view name(MemoryCategory category) {
  static constexpr std::array<std::string_view, 8> kNames{"parameters",  "gradients", "optimizer_state", "statistics",
                                                          "activations", "inputs",    "workspace",       "communication"};
  return kNames[static_cast<std::size_t>(category)];
}

int coordinate(const Program& program, int rank, std::size_t axis) {
  const auto& a = program.axes[axis];
  return rank / a.stride % a.size;
}

std::vector<int> group(const Program& program, int rank, std::size_t axis) {
  const auto& a = program.axes[axis];
  const int first = rank - coordinate(program, rank, axis) * a.stride;
  std::vector<int> ranks;
  for (int i = 0; i < a.size; ++i) ranks.push_back(first + i * a.stride);
  return ranks;
}

namespace {

/// Size and coordinate of a named axis; {1, 0} when the program does not have it.
std::pair<int, int> axis_position(const Program& program, int rank, std::string_view axis) {
  for (std::size_t i = 0; i < program.axes.size(); ++i)
    if (program.axes[i].name == axis) return {program.axes[i].size, coordinate(program, rank, i)};
  return {1, 0};
}

}  // namespace

namespace {

/// The axis of replicas that take other numbers of samples; nullptr where they do not.
const MeshAxis* uneven_axis(const Program& program) {
  if (!program.sharding) return nullptr;
  const auto& axes = program.sharding->axes;
  const auto at = std::ranges::find_if(axes, [](const MeshAxis& axis) { return !axis.samples.empty(); });
  return at == axes.end() ? nullptr : &*at;
}

Range part(Range whole, std::pair<int, int> share) {
  const auto inside = block(whole.count(), share.first, share.second);
  return {whole.begin + inside.begin, whole.begin + inside.end};
}

Range replica_of(const Program& program, int rank) {
  const auto [replicas, own] = axis_position(program, rank, "dp");
  const auto* uneven = uneven_axis(program);
  if (uneven == nullptr) return part(block(program.batch, replicas, own), axis_position(program, rank, "shard"));
  const auto begin = std::accumulate(uneven->samples.begin(), uneven->samples.begin() + own, std::int64_t{0});
  return {begin, begin + uneven->samples[static_cast<std::size_t>(own)]};
}

}  // namespace

int micro_batches_of(const Program& program, int rank) {
  if (uneven_axis(program) == nullptr) return program.micro_batches;
  for (const auto& axis : program.sharding->axes)
    if (!axis.counts.empty()) return axis.counts[static_cast<std::size_t>(axis_position(program, rank, "dp").second)];
  return program.micro_batches;
}

int micro_batches_of(const Program& program, const Role& role) {
  return role.variant_of.empty() ? program.micro_batches : static_cast<int>(role.variant_of.size());
}

SampleRange samples(const Program& program, int rank, int micro_batch) {
  const Range own =
      part(part(replica_of(program, rank), {micro_batches_of(program, rank), micro_batch}), axis_position(program, rank, "ep"));
  return {own.begin, own.count()};
}

const graph::OpSchema& schema_of(const Role& role, const Instruction& i, const graph::Node& node) {
  const auto& op = role.kernels[static_cast<std::size_t>(i.kernel)].op;
  return op.empty() ? graph::schema(node) : graph::op_table()[graph::op(op)];
}

const graph::Attributes& attributes_of(const Role& role, const Instruction& i, const graph::Node& node) {
  return i.attributes < 0 ? node.attributes : role.attributes[static_cast<std::size_t>(i.attributes)];
}

Coordinates position(const Program& program, int rank, int micro_batch) {
  Coordinates at;
  for (const auto& axis : program.sharding->axes)
    at.push_back(axis.in_time ? std::max(micro_batch, 0) % micro_batches_of(program, rank)
                              : axis_position(program, rank, axis.name).second);
  return at;
}

Region region(const Program& program, const Buffer& buffer, const Coordinates& at) {
  const Sharding& s = *program.sharding;
  const bool own = buffer.user == graph::NodeId::None;
  auto held =
      own ? s.region(s.dims->of(buffer.tensor), buffer.layout, at) : s.operand_region(buffer.user, buffer.operand, buffer.layout, at);
  if (buffer.turn.any()) keep_turn(s, buffer.turn, at, held);
  return held;
}

int peer(const Program& program, int rank, const MessageInfo& message) {
  for (const auto& axis : program.axes)
    if (axis.name == "pp") return rank + message.stage_offset * axis.stride;
  throw InternalError("a message without a pipeline axis");
}

BufferIndex base_of(const Role& role, BufferIndex b) {
  while (role.buffers[b].part_of != kNoBuffer) b = role.buffers[b].part_of;
  return b;
}

bool is_kept_vector(const Buffer& b) {
  return b.lifetime == Lifetime::Persistent && b.category == MemoryCategory::OptimizerState && b.tensor == graph::TensorId::None &&
         b.part_of == kNoBuffer;
}

const Slot* first_update(const Role& role) {
  const auto found = std::ranges::find_if(role.slots, [&](const Slot& s) { return role.bodies[s.body].kind == BodyKind::Update; });
  return found == role.slots.end() ? nullptr : &*found;
}

bool follows_rate(const Role& role, const Instruction& i, const graph::Graph& graph) {
  return i.kind == InstructionKind::Kernel && role.kernels[static_cast<std::size_t>(i.kernel)].op.empty() &&
         graph[i.node].phase == graph::Phase::Update && graph[i.node].attributes.has("lr");
}

bool crosses_to_host(const Role& role, const Instruction& i) {
  if (i.kind != InstructionKind::Stash && i.kind != InstructionKind::Restore) return false;
  return role.buffers[i.inputs.front()].on_host != role.buffers[i.outputs.front()].on_host;
}

std::int64_t message_bytes(const Role& role, const Instruction& instruction, std::size_t variant) {
  const auto index = instruction.outputs.empty() ? instruction.inputs.front() : instruction.outputs.front();
  const auto& buffer = role.buffers[index];
  const auto elements = instruction.kind == InstructionKind::Collective
                            ? elements_of_collective(role, instruction, variant)
                            : graph::element_count(buffer.shapes[std::min(variant, buffer.shapes.size() - 1)]);
  return elements * static_cast<std::int64_t>(size_of(buffer.dtype));
}

std::int64_t elements_of_collective(const Role& role, const Instruction& instruction, std::size_t variant) {
  const auto& buffer = role.buffers[instruction.outputs.empty() ? instruction.inputs.front() : instruction.outputs.front()];
  const auto all = graph::element_count(buffer.shapes[std::min(variant, buffer.shapes.size() - 1)]);
  return role.collectives[static_cast<std::size_t>(instruction.collective)].received_behind ? all / 2 : all;
}

InstructionIdentity identity(const Role& role, std::uint16_t body, std::uint32_t instruction, int micro_batch) {
  const auto& i = role.bodies[body].instructions[instruction];
  return {i.kind,      i.phase,    role.bodies[body].kind, static_cast<std::int32_t>(i.node), static_cast<std::int32_t>(i.tensor),
          micro_batch, instruction};
}

bool crosses_steps(const Program& program) {
  return std::any_of(program.roles.begin(), program.roles.end(), [](const Role& r) { return r.delay > 0 || !r.opening.empty(); });
}

int last_micro_batch(const Program& program, const Role& role, const Body& body) {
  return body.first + (micro_batches_of(program, role) - 1 - body.first) / body.every * body.every;
}

std::size_t variant_of_micro_batch(const Role& role, int micro_batch) {
  return role.variant_of[static_cast<std::size_t>(micro_batch) % role.variant_of.size()];
}

namespace {

/// Of the model: the first micro-batches, and the last, are the first and the last of each.
int copies_of(const Program& program) {
  return program.roles.empty() || program.roles.front().bodies.empty() ? 1 : program.roles.front().bodies.front().every;
}

}  // namespace

std::span<const BufferIndex> gradients_of(const Instruction& i) {
  if (i.kind == InstructionKind::Recompress) return std::span(i.inputs).subspan(1, i.inputs.size() - i.outputs.size());
  if (i.kind == InstructionKind::Decompress)
    return std::span(i.outputs).first(i.inputs.size() > 1 ? i.inputs.size() - 2 : i.outputs.size());
  ensure(i.kind == InstructionKind::Compress, "an instruction about compressed gradients");
  return std::span(i.inputs).first(i.inputs.size() - (i.outputs.size() - 1));
}

namespace {

bool runs_during(During during, const StepKind& kind) {
  switch (during) {
    case During::Training:
      return true;
    case During::Exact:
      return !kind.later;
    case During::Later:
      return kind.later;
    case During::Meetings:
      return kind.meets;
    case During::Partings:
      return kind.parts;
    case During::Renewals:
      return kind.renews;
    case During::Consensus:
      return kind.agrees;
  }
  return true;
}

}  // namespace

StepKind kind_of_step(const Plan& plan, std::int64_t step) {
  const auto apart = step - plan.exact_steps;
  return {apart >= 0, plan.local_steps > 0 && apart >= 0 && (apart + 1) % plan.local_steps == 0, false};
}

bool runs(const Program& program, const Role& role, const Instruction& instruction, int micro_batch, const StepKind& kind) {
  if (!runs_during(instruction.during, kind)) return false;
  const int all = micro_batches_of(program, role);
  switch (instruction.when) {
    case When::Always:
      return true;
    case When::FirstMicroBatch:
      return micro_batch % all < copies_of(program);
    case When::LastMicroBatch:
      return micro_batch % all >= all - copies_of(program);
    case When::AllButLastMicroBatch:
      return micro_batch % all < all - copies_of(program);
  }
  return true;
}

bool takes_part(const Program& program, int rank, const Instruction& i) {
  if (i.kind != InstructionKind::Kernel || i.collective < 0) return true;
  const auto& info = program.role(rank).collectives[static_cast<std::size_t>(i.collective)];
  return coordinate(program, rank, info.axis) == info.root;
}

int steps_between_renewals(const Program& program) {
  int steps = 1;
  for (const auto& role : program.roles)
    for (const auto& info : role.collectives) steps = std::max(steps, info.every);
  return steps;
}

int micro_batch_of(const Program& program, const Role& role, const Slot& slot, const Dependency& d) {
  const auto& body = role.bodies[d.body];
  if (!per_micro_batch(body.kind)) return slot.micro_batch - slot.micro_batch % program.micro_batches;
  return per_micro_batch(role.bodies[slot.body].kind) ? slot.micro_batch : slot.micro_batch + last_micro_batch(program, role, body);
}

namespace {

/// Ranks of a ring have unequal work where blocks are masked: the one that has most keeps the others waiting.
std::size_t instructions_in_rings(const Program& program, const Role& role) {
  std::size_t count = 0;
  if (!program.sharding || program.sharding->rings.empty()) return count;
  for (const Body& body : role.bodies) count += body.instructions.size();
  return count;
}

}  // namespace

std::vector<int> representatives(const Program& program) {
  struct Best {
    /// Samples; instructions where ranks of a ring differ in them; bytes of all local tensors, which grow with the blocks.
    std::tuple<std::int64_t, std::size_t, std::int64_t> size;
    int rank;
  };
  std::vector<std::int64_t> bytes;
  for (const auto& role : program.roles)
    bytes.push_back(std::accumulate(role.buffers.begin(), role.buffers.end(), std::int64_t{0},
                                    [](std::int64_t sum, const Buffer& b) { return sum + b.bytes; }));
  std::map<int, Best> best;
  for (int rank = 0; rank < program.ranks; ++rank) {
    std::int64_t count = 0;
    for (int m = 0; m < micro_batches_of(program, rank); ++m) count += samples(program, rank, m).count;
    const std::tuple own{count, instructions_in_rings(program, program.role(rank)), bytes[program.role_of[static_cast<std::size_t>(rank)]]};
    auto& entry = best.try_emplace(program.role(rank).stage, Best{own, rank}).first->second;
    if (own > entry.size) entry = {own, rank};
  }
  std::vector<int> ranks;
  for (const auto& [stage, entry] : best) ranks.push_back(entry.rank);
  return ranks;
}

}  // namespace rehearsal::plan
