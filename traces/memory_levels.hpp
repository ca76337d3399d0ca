#pragma once
// How much of a rank's memory is in use over a step.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "traces/trace.hpp"

namespace rehearsal::traces {

/// From `begin`, in seconds on the trace's clock, until the next level.
struct MemoryLevel {
  double begin = 0;
  std::int64_t bytes = 0;
};

/// In order of time, where it changes; empty where the trace does not say. Where there are more than `most`, so many equal parts of the
/// step have their largest level each.
[[nodiscard]] std::vector<MemoryLevel> memory_levels(const RankTrace&, const StepRecord&, std::size_t most);

}  // namespace rehearsal::traces
