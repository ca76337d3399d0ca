#pragma once
// Messages and collectives that go on while a rank computes, and what it waits for before their memory is used again. exec/ waits as this
// file says, and check_messages() holds every Program to it.
// A rank waits for a message in three places: where an instruction names it (Instruction::after), where a slot begins (awaited_by_slot()),
// and at the end of a step, or of several steps in a row without a flush.

#include <cstdint>

#include "plan/program/program.hpp"

namespace rehearsal::plan {

[[nodiscard]] bool communicates(const Instruction&);
/// Whether it begins when what stands before it on its stream has ended. A message between stages that shares the stream of collectives
/// does not: it is on its way at once, and names the collectives that it must wait for.
[[nodiscard]] bool waits_for_its_stream(const Instruction&);

/// What a rank began and may not have ended.
struct UnderWay {
  std::uint16_t body = 0;
  std::uint32_t instruction = 0;
  std::int64_t step = 0;         ///< that began it
  std::int32_t micro_batch = 0;  ///< of the slot that began it: from Program::micro_batches on of a later step
};

/// Micro-batches counted over all steps.
[[nodiscard]] inline std::int64_t number_of(const Program& program, std::int64_t step, int micro_batch) {
  return step * program.micro_batches + micro_batch;
}

/// True for what must have ended before the slot's first instruction: what was sent from the memory of a micro-batch that the slot's
/// takes over, and weights that an earlier step's update sent or received, which the slot computes with or writes over.
[[nodiscard]] bool awaited_by_slot(const Program&, const Role&, const Slot&, std::int64_t step, const UnderWay&);

/// True when all that is under way must have ended behind this step: the last one of a row, and any one of a schedule with a flush.
[[nodiscard]] bool awaited_behind_step(const Program&, bool last_of_row);

}  // namespace rehearsal::plan
