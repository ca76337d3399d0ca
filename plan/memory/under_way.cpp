#include "plan/memory/under_way.hpp"

namespace rehearsal::plan {

bool communicates(const Instruction& i) {
  return i.kind == InstructionKind::Send || i.kind == InstructionKind::Receive || i.kind == InstructionKind::Collective;
}

bool waits_for_its_stream(const Instruction& i) { return i.stream != Stream::Collective || i.kind == InstructionKind::Collective; }

namespace {

/// The micro-batch of the slot, or of the pass that the message belongs to, takes over the memory that the message is sent from.
bool takes_over(const Program& program, const Role& role, const Slot& slot, std::int64_t step, const UnderWay& message) {
  const auto& i = role.bodies[message.body].instructions[message.instruction];
  const auto& buffer = role.buffers[base_of(role, i.outputs.empty() ? i.inputs.front() : i.outputs.front())];
  const auto apart = number_of(program, step, slot.micro_batch) - number_of(program, message.step, message.micro_batch);
  if (buffer.lifetime == Lifetime::Sent) return slot.body == message.body && apart == buffer.versions;
  return role.bodies[slot.body].kind == BodyKind::Forward && apart == role.memory.in_flight;
}

}  // namespace

bool awaited_by_slot(const Program& program, const Role& role, const Slot& slot, std::int64_t step, const UnderWay& message) {
  if (per_micro_batch(role.bodies[message.body].kind)) return takes_over(program, role, slot, step, message);
  const bool updates = role.bodies[slot.body].kind == BodyKind::Update;
  return message.step < (updates ? step : step + slot.micro_batch / program.micro_batches - role.delay);
}

bool awaited_behind_step(const Program& program, bool last_of_row) { return last_of_row || !crosses_steps(program); }

}  // namespace rehearsal::plan
