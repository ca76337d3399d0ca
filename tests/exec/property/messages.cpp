#include "tests/exec/property/messages.hpp"

#include <map>
#include <vector>

#include "plan/collectives/exchange.hpp"

namespace rehearsal::property {
namespace {

using plan::Instruction;
using plan::Program;

/// One collective as one rank takes part in it.
struct Part {
  std::string what;
  std::vector<plan::CollectiveStep> steps;
};
/// By ranks of the group: the collectives of one rank, in order.
using Parts = std::map<std::vector<int>, std::vector<Part>>;

Part part_of(const Program& program, const graph::Graph& g, int rank, const Instruction& i, int micro_batch) {
  const auto& role = program.role(rank);
  const auto& info = role.collectives[static_cast<std::size_t>(i.collective)];
  const auto variant = role.variant_of.empty() ? std::size_t{0} : plan::variant_of_micro_batch(role, micro_batch);
  const auto& buffer = role.buffers[i.outputs.front()];
  const auto count = graph::element_count(buffer.shapes[std::min(variant, buffer.shapes.size() - 1)]);
  const auto of = i.tensor == graph::TensorId::None ? std::string() : g[i.tensor].name;
  return {std::string(plan::name(info.kind)) + " over " + program.axes[info.axis].name + " of " + of + ", micro-batch " +
              std::to_string(micro_batch),
          plan::steps_of(program, info, role, {rank, micro_batch, count, static_cast<double>(size_of(buffer.dtype)), 1})};
}

Parts parts_of(const Program& program, const graph::Graph& g, int rank) {
  const auto& role = program.role(rank);
  Parts parts;
  for (const auto& slot : role.slots)
    for (const auto& i : role.bodies[slot.body].instructions) {
      if (i.kind != plan::InstructionKind::Collective || !plan::runs(program, role, i, slot.micro_batch)) continue;
      const auto group = plan::group(program, rank, role.collectives[static_cast<std::size_t>(i.collective)].axis);
      parts[group].push_back(part_of(program, g, rank, i, slot.micro_batch));
    }
  return parts;
}

/// Elements of the messages from one member to another, in order.
std::vector<std::int64_t> sent(const Part& from, int to) {
  std::vector<std::int64_t> counts;
  for (const auto& s : from.steps)
    if (s.send_to == to) counts.push_back(s.send_count);
  return counts;
}
std::vector<std::int64_t> received(const Part& at, int from) {
  std::vector<std::int64_t> counts;
  for (const auto& s : at.steps)
    if (s.receive_from == from) counts.push_back(s.receive_count);
  return counts;
}

std::optional<std::string> mismatch(const std::vector<int>& group, const std::vector<const Part*>& parts) {
  for (std::size_t a = 0; a < group.size(); ++a)
    for (std::size_t b = 0; b < group.size(); ++b) {
      if (parts[a]->what != parts[b]->what)
        return "rank " + std::to_string(group[a]) + ": " + parts[a]->what + ", rank " + std::to_string(group[b]) + ": " + parts[b]->what;
      if (a != b && sent(*parts[a], static_cast<int>(b)) != received(*parts[b], static_cast<int>(a)))
        return parts[a]->what + ": rank " + std::to_string(group[b]) + " awaits other messages than rank " + std::to_string(group[a]) +
               " sends";
    }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> unmatched_message(const Program& program, const graph::Graph& g) {
  std::vector<Parts> all;
  for (int rank = 0; rank < program.ranks; ++rank) all.push_back(parts_of(program, g, rank));
  for (int rank = 0; rank < program.ranks; ++rank)
    for (const auto& [group, own] : all[static_cast<std::size_t>(rank)]) {
      if (group.front() != rank) continue;
      for (std::size_t n = 0; n < own.size(); ++n) {
        std::vector<const Part*> parts;
        for (const int member : group) {
          const auto& others = all[static_cast<std::size_t>(member)][group];
          if (others.size() != own.size())
            return "rank " + std::to_string(member) + " takes part in another number of collectives than rank " + std::to_string(rank);
          parts.push_back(&others[n]);
        }
        if (auto found = mismatch(group, parts)) return found;
      }
    }
  return std::nullopt;
}

}  // namespace rehearsal::property
