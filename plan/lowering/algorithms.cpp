#include "plan/lowering/algorithms.hpp"

#include <algorithm>
#include <set>

#include "plan/collectives/meetings.hpp"

namespace rehearsal::plan {
namespace {

std::string beginning(const MessageKind& m) { return std::string(name(m.kind)) + ":" + m.axis + ":" + std::to_string(m.bytes) + ":"; }

}  // namespace

std::string named_algorithm(const Plan& plan, const MessageKind& message) {
  if (plan.algorithms.empty()) return {};
  const auto wanted = beginning(message);
  const auto at = std::ranges::find_if(plan.algorithms, [&](const std::string& one) { return one.starts_with(wanted); });
  return at == plan.algorithms.end() ? std::string() : at->substr(wanted.size());
}

std::vector<std::string> algorithms_of(const Program& program) {
  std::set<std::string> all;
  for (const Role& role : program.roles)
    for (const Body& body : role.bodies)
      for (const Instruction& i : body.instructions) {
        if (i.kind != InstructionKind::Collective) continue;
        const auto& c = role.collectives[static_cast<std::size_t>(i.collective)];
        const bool fixed = c.kind == CollectiveKind::AllReduce && program.plan.allreduce != "auto";
        if (fixed || c.algorithm == kExchange || meeting_row(c.algorithm) != nullptr) continue;  // there is nothing else to take
        all.insert(beginning({c.kind, program.axes[c.axis].name, role.buffers[i.outputs.front()].bytes / (c.received_behind ? 2 : 1)}) +
                   c.algorithm);
      }
  return {all.begin(), all.end()};
}

}  // namespace rehearsal::plan
