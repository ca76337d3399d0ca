#pragma once
// How much of a role's memory holds something while an instruction runs: what a timeline of memory shows. The arena is larger by what its
// layout cannot close up.

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "plan/program/program.hpp"

namespace rehearsal::plan {

/// Of the device's memory, in the steps between the first and the last. A buffer counts from the instruction that makes it to the last one
/// that reads it: what a pass saves to the backward pass of its micro-batch, what lives from step to step always.
class BytesInUse {
 public:
  BytesInUse(const Program&, const Role&);
  /// While the instruction runs for the micro-batch (0 for bodies that run once); 0 where the role's timetable has no such slot.
  [[nodiscard]] std::int64_t at(std::uint16_t body, std::uint32_t instruction, std::int32_t micro_batch) const;
  [[nodiscard]] std::int64_t peak() const;

 private:
  std::map<std::pair<std::uint16_t, std::int32_t>, std::size_t> start_;  ///< of a slot, by body and micro-batch: into bytes_
  std::vector<std::int64_t> bytes_;                                      ///< by slot, then by instruction
};

}  // namespace rehearsal::plan
