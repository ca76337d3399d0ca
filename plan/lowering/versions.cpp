// Weights of different ages: steps that follow each other without a flush.

#include "base/error.hpp"
#include "plan/lowering/role_builder.hpp"

namespace rehearsal::plan {

using graph::NodeId;
using graph::TensorId;

std::vector<bool> nodes_of_weights(const graph::TrainingGraph& training, const Sharding& sharding) {
  const auto& g = training.graph;
  std::vector<bool> trained(g.tensors().size(), false), found(g.nodes().size(), false);
  for (const auto& p : training.parameters) trained[graph::index(p.value)] = p.update != NodeId::None;
  for (std::size_t n = 0; n < found.size(); ++n) {
    const auto& node = g.nodes()[n];
    if (node.phase == graph::Phase::Update || sharding.parts[n] != LoopPart::Before) continue;
    for (const TensorId t : node.inputs) found[n] = found[n] || (t != TensorId::None && trained[graph::index(t)]);
    for (const TensorId t : node.outputs)
      if (t != TensorId::None && found[n]) trained[graph::index(t)] = true;
  }
  return found;
}

/// A view of weights in another version than the one that passes compute with.
BufferIndex RoleBuilder::version_of(BufferIndex stored, WeightVersion version) {
  if (role_.buffers[stored].versions == 1) return stored;
  const auto [at, fresh] = versions_.try_emplace({stored, version}, kNoBuffer);
  if (!fresh) return at->second;
  Buffer view = role_.buffers[stored];
  view.part_of = stored;
  view.part_offset = 0;
  view.versions = 1;
  view.version = version;
  return at->second = new_buffer(std::move(view), nullptr);
}

/// A stage that runs ahead of its own updates has the passes of two steps at once: what it has once a step would be of one of them.
void RoleBuilder::refuse_crossing(const Instruction& i, std::uint16_t body) const {
  if (ahead() == 0) return;
  const bool of_samples = i.kind == InstructionKind::Load || i.kind == InstructionKind::Receive;
  const bool sums = i.kind == InstructionKind::Accumulate && kind(body) == BodyKind::Forward;
  if (!sums && !(of_samples && body == prologue_)) return;
  throw Refusal("plan: schedule=" + std::string(c_.pipeline.schedule->name) + ": stage " + std::to_string(stage_) + " needs " +
                g_[i.tensor].name +
                " once for all micro-batches of a step, while it runs ahead into the next one; use a schedule with a flush");
}

/// Of a weight that two stages use, the second one's gradient would be of another age than the first one's.
void RoleBuilder::refuse_ages(TensorId shared, int stage, int other) const {
  const auto& row = *c_.pipeline.schedule;
  if (row.weight_versions(stage, c_.pipeline.shape) == row.weight_versions(other, c_.pipeline.shape)) return;
  throw Refusal("plan: schedule=" + std::string(row.name) + ": stages " + std::to_string(stage) + " and " + std::to_string(other) +
                " share " + g_[shared].name + ", and use weights of different ages; use pipedream-2bw, or a schedule with a flush");
}

}  // namespace rehearsal::plan
