#include "plan/lowering/slots.hpp"

#include <vector>

namespace rehearsal::plan {
namespace {

/// Where a stage's bodies are among those of its role.
struct Bodies {
  std::vector<std::uint16_t> prologue, forward, backward, weights, update;  ///< the loop's by chunk
};

Bodies bodies_of(const Role& role) {
  Bodies found;
  const auto at_chunk = [](std::vector<std::uint16_t>& list, std::uint16_t chunk, std::uint16_t body) {
    list.resize(std::max<std::size_t>(list.size(), chunk + std::size_t{1}));
    list[chunk] = body;
  };
  std::vector<bool> seen;
  for (std::size_t n = 0; n < role.bodies.size(); ++n) {
    const auto& body = role.bodies[n];
    const auto b = static_cast<std::uint16_t>(n);
    seen.resize(std::max<std::size_t>(seen.size(), body.chunk + std::size_t{1}));
    switch (body.kind) {
      case BodyKind::Prologue:
        found.prologue.push_back(b);
        break;
      case BodyKind::Forward:
        at_chunk(found.forward, body.chunk, b);
        break;
      case BodyKind::Backward:
        at_chunk(seen[body.chunk] ? found.weights : found.backward, body.chunk, b);
        seen[body.chunk] = true;
        break;
      case BodyKind::Update:
        found.update.push_back(b);
        break;
    }
  }
  return found;
}

}  // namespace

void set_slots(Role& role, const ScheduleRow& schedule, const PipelineShape& shape) {
  const auto bodies = bodies_of(role);
  const auto add = [&](std::vector<Slot>& slots, std::uint16_t body, int micro_batch) {
    if (!role.bodies[body].instructions.empty()) slots.push_back({body, micro_batch});
  };
  for (const auto b : bodies.prologue) add(role.slots, b, 0);
  for (int m = 0; m < schedule.ahead(role.stage, shape); ++m) add(role.opening, bodies.forward.front(), m);
  for (const auto& slot : schedule.order(role.stage, shape)) {
    const auto& by_chunk = !slot.backward ? bodies.forward : slot.part == GradientPart::Weights ? bodies.weights : bodies.backward;
    add(role.slots, by_chunk[static_cast<std::size_t>(slot.chunk)], slot.micro_batch);
  }
  for (const auto b : bodies.update) add(role.slots, b, 0);
}

}  // namespace rehearsal::plan
