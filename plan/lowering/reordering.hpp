#pragma once
// Instructions of bodies in another order, with what refers to them.

#include <numeric>
#include <utility>
#include <vector>

#include "plan/program/program.hpp"

namespace rehearsal::plan {

[[nodiscard]] inline std::vector<std::size_t> same_order(const Body& body) {
  std::vector<std::size_t> order(body.instructions.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  return order;
}

/// What was moved ahead of an instruction that it waited for has no more reason to: the next one of its stream behind that has, which
/// stands where it stood.
inline void hand_on_waiting(Body& body, std::uint16_t number) {
  auto& list = body.instructions;
  for (std::size_t at = 0; at < list.size(); ++at) {
    const auto is_ahead = [&](const Dependency& d) { return d.body == number && d.instruction >= at; };
    for (const Dependency& d : std::vector<Dependency>(list[at].after)) {
      if (!is_ahead(d)) continue;
      for (std::size_t next = d.instruction + std::size_t{1}; next < list.size(); ++next) {
        if (list[next].stream != list[at].stream) continue;
        list[next].after.push_back(d);
        break;
      }
    }
    std::erase_if(list[at].after, is_ahead);
  }
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
  for (std::size_t b = 0; b < role.bodies.size(); ++b) hand_on_waiting(role.bodies[b], static_cast<std::uint16_t>(b));
}

}  // namespace rehearsal::plan
