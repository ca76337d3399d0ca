#pragma once
// What every rank of a role does in a step, in order, unrolled over its slots: one list that all of them share.

#include <array>
#include <span>

#include "predict/step_cost.hpp"

namespace rehearsal::sim {

inline constexpr std::size_t kStreams = static_cast<std::size_t>(plan::Stream::Count);

/// One run of an instruction.
struct InstructionRun {
  std::uint32_t slot = 0, instruction = 0;
  std::uint32_t first_dependency = 0, dependencies = 0;  ///< into Timetable::dependencies
  plan::Stream stream = plan::Stream::Compute;
  bool communicates = false;
  bool awaited = false;         ///< another stream, or a message after it, begins when this has ended
  costmodel::LaunchQueue cost;  ///< of runs that compute, and of messages where their costs are known: of host and device
};

struct Timetable {
  const plan::Role* role = nullptr;
  std::vector<InstructionRun> runs;                          ///< in order of slots
  std::vector<std::uint32_t> dependencies;                   ///< runs on other streams
  std::array<std::vector<std::uint32_t>, kStreams> streams;  ///< runs by stream, in order

  [[nodiscard]] const plan::Slot& slot(const InstructionRun& r) const { return role->slots[r.slot]; }
  [[nodiscard]] const plan::Instruction& instruction(const InstructionRun& r) const {
    return role->bodies[slot(r).body].instructions[r.instruction];
  }
  [[nodiscard]] std::span<const std::uint32_t> needs(const InstructionRun& r) const {
    return {dependencies.data() + r.first_dependency, r.dependencies};
  }
};

[[nodiscard]] Timetable timetable_of(const predict::EvaluationRequest&, std::size_t role);

}  // namespace rehearsal::sim
