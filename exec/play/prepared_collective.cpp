#include "exec/play/prepared_collective.hpp"

#include <algorithm>

#include "plan/collectives/meetings.hpp"

namespace rehearsal::exec {

namespace {

SharedCenter::Act act_of(const plan::Instruction& i, plan::CollectiveKind kind) {
  if (kind == plan::CollectiveKind::Broadcast) return SharedCenter::Act::Begin;
  if (kind == plan::CollectiveKind::ReduceScatter) return SharedCenter::Act::Add;
  return i.during == plan::During::Consensus ? SharedCenter::Act::Agree : SharedCenter::Act::Read;
}

}  // namespace

PreparedCollective prepared_collective(const CollectivePlace& at, const plan::Instruction& i, std::size_t variants) {
  const auto& role = at.program.role(at.world.rank());
  const auto& info = role.collectives[static_cast<std::size_t>(i.collective)];
  PreparedCollective p;
  p.group = plan::group(at.program, at.world.rank(), info.axis);
  p.device_group = at.messages.devices().of(info, at.operands.type(i.outputs.front(), 0).dtype);
  p.one_sided = plan::is_one_sided(info);
  if (info.algorithm == plan::kServers) p.at_center = SharedCenter::Call{act_of(i, info.kind), info.center, nullptr};
  for (std::size_t v = 0; v < variants; ++v) {
    const auto micro_batch = static_cast<int>(std::find(role.variant_of.begin(), role.variant_of.end(), v) - role.variant_of.begin());
    const auto count = plan::elements_of_collective(role, i, v);
    const auto bytes = static_cast<double>(size_of(at.operands.type(i.outputs.front(), v).dtype));
    p.steps.push_back(
        plan::steps_of(at.program, info, role, {at.world.rank(), micro_batch, count, bytes, at.world.ranks_per_node(p.group)}));
    if (p.device_group >= 0) p.parts.push_back(plan::begins_of_parts(info.dealt, at.program.axes[info.axis].size, count));
  }
  return p;
}

}  // namespace rehearsal::exec
