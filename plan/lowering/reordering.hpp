#pragma once
// Instructions of bodies in another order, with what refers to them.

#include <numeric>
#include <utility>
#include <vector>

#include "plan/program.hpp"

namespace rehearsal::plan {

[[nodiscard]] inline std::vector<std::size_t> same_order(const Body& body) {
  std::vector<std::size_t> order(body.instructions.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  return order;
}

/// `orders`: by body, each instruction's present place in the order that is wanted.
inline void reorder(Role& role, const std::vector<std::vector<std::size_t>>& orders) {
  std::vector<std::vector<std::uint32_t>> moved(role.bodies.size());
  for (std::size_t b = 0; b < role.bodies.size(); ++b) {
    Body& body = role.bodies[b];
    moved[b].resize(orders[b].size());
    std::vector<Instruction> instructions;
    for (std::size_t i = 0; i < orders[b].size(); ++i) {
      moved[b][orders[b][i]] = static_cast<std::uint32_t>(i);
      instructions.push_back(std::move(body.instructions[orders[b][i]]));
    }
    body.instructions = std::move(instructions);
  }
  for (Body& body : role.bodies)
    for (Instruction& i : body.instructions)
      for (Dependency& d : i.after) d.instruction = moved[d.body][d.instruction];
}

}  // namespace rehearsal::plan
