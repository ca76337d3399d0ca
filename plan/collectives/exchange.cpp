#include "plan/collectives/exchange.hpp"

#include <algorithm>

#include "plan/collectives/rows.hpp"

namespace rehearsal::plan {
namespace {

const PackedBlock* block_of(const std::vector<PackedBlock>& blocks, int peer) {
  const auto at = std::find_if(blocks.begin(), blocks.end(), [&](const PackedBlock& b) { return b.peer == peer; });
  return at == blocks.end() ? nullptr : &*at;
}

}  // namespace

std::vector<CollectiveStep> exchange_steps(int me, int ranks, const Packing& packing) {
  std::vector<CollectiveStep> steps;
  for (int s = 1; s < ranks; ++s) {
    CollectiveStep step;
    if (const auto* sent = block_of(packing.packed, (me + s) % ranks)) {
      step.send_to = (me + s) % ranks;
      step.send_first = sent->offset;
      step.send_count = sent->count;
    }
    if (const auto* received = block_of(packing.unpacked, (me - s + ranks) % ranks)) {
      step.receive_from = (me - s + ranks) % ranks;
      step.receive_first = received->offset;
      step.receive_count = received->count;
    }
    add_step(steps, step);
  }
  return steps;
}

Seconds exchange_time(const std::vector<CollectiveStep>& steps, double element_bytes, const CollectiveLinks& links) {
  Seconds total;
  for (const auto& step : steps) {
    const Bytes larger(static_cast<double>(std::max(step.send_count, step.receive_count)) * element_bytes);
    total += message_time(links, links.ranks_per_node == 1, larger);
  }
  return total;
}

std::vector<CollectiveStep> steps_in_units(const CollectiveRow& row, const RowMember& m) {
  if (m.units == 0) return row.steps(m.rank, m.ranks, m.count, m.ranks_per_node);
  auto steps = row.steps(m.rank, m.ranks, m.units, m.ranks_per_node);
  const std::int64_t unit = m.count / m.units;
  for (auto& step : steps) {
    step.send_first *= unit;
    step.send_count *= unit;
    step.receive_first *= unit;
    step.receive_count *= unit;
  }
  return steps;
}

std::vector<CollectiveStep> steps_of(const Program& program, const CollectiveInfo& info, const Role& role, const CollectiveMember& member) {
  const int ranks = program.axes[info.axis].size, me = coordinate(program, member.rank, info.axis);
  if (info.algorithm == kExchange) {
    const auto& r = role.redistributions[static_cast<std::size_t>(info.redistribution)];
    return exchange_steps(me, ranks, packing_of(*program.sharding, r, position(program, member.rank, member.micro_batch)));
  }
  return steps_in_units(collective(info.kind, info.algorithm), {me, ranks, member.count, info.units, member.ranks_per_node});
}

Seconds collective_time(const Program& program, const CollectiveInfo& info, const Role& role, const CollectiveMember& member,
                        const CollectiveLinks& links) {
  if (program.axes[info.axis].size == 1) return Seconds(0);
  const Bytes size(static_cast<double>(member.count) * member.element_bytes);
  if (info.algorithm == kExchange) return exchange_time(steps_of(program, info, role, member), member.element_bytes, links);
  return collective(info.kind, info.algorithm).closed_form(program.axes[info.axis].size, size, links);
}

}  // namespace rehearsal::plan
