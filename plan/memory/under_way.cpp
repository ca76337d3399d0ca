#include "plan/memory/under_way.hpp"

namespace rehearsal::plan {

bool communicates(const Instruction& i) {
  return i.kind == InstructionKind::Send || i.kind == InstructionKind::Receive || i.kind == InstructionKind::Collective;
}

bool awaited_by_slot(const Program& program, const Role& role, const Slot& slot, std::int64_t step, const UnderWay& message) {
  const auto kind = role.bodies[slot.body].kind;
  if (per_micro_batch(role.bodies[message.body].kind)) {
    const auto earlier = number_of(program, step, slot.micro_batch) - role.memory.in_flight;
    return kind == BodyKind::Forward && number_of(program, message.step, message.micro_batch) == earlier;
  }
  const bool updates = kind == BodyKind::Update;
  return message.step < (updates ? step : step + slot.micro_batch / program.micro_batches - role.delay);
}

bool awaited_behind_step(const Program& program, bool last_of_row) { return last_of_row || !crosses_steps(program); }

}  // namespace rehearsal::plan
