#pragma once
// What a GPU did while it was profiled, whoever wrote it down, and how its time divides.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace rehearsal::exchange {

/// Other: a stream waits for an event or for another stream.
enum class GpuWork : std::uint8_t { Compute, Communication, Memory, Other };

struct GpuEvent {
  std::string name;
  GpuWork work = GpuWork::Compute;
  std::int64_t begin = 0, end = 0;  ///< whole microseconds: begins rounded up, ends rounded down; end may be begin - 1
  /// Of communication, where the profiler wrote it; empty and 0 otherwise.
  std::string collective;
  std::string unreadable;  ///< why it is not known, where it was written in another way
  std::int64_t bytes = 0;  ///< of the larger of what a rank gives and gets
  int group = 0;           ///< ranks
};

/// Of one rank.
struct GpuProfile {
  std::optional<int> rank, ranks;  ///< where the file says them
  std::vector<GpuEvent> events;
  bool has_begins = true;  ///< false: events say how long they took, and not when they began
  /// Of the steps whose work is in `events`: from one step's mark to that of the next, or the only step's length. Empty: nothing is marked.
  std::vector<double> step_seconds;
};

/// From the first kernel to the end of the last, in microseconds: nothing runs, something computes, only others run.
struct TimeBreakdown {
  std::int64_t idle = 0, compute = 0, non_compute = 0;
  std::int64_t communication = 0;  ///< something communicates
  std::int64_t overlap = 0;        ///< of it, beside something that computes
  [[nodiscard]] std::int64_t total() const { return idle + compute + non_compute; }
};
/// Throws Refusal where events do not say when they began.
[[nodiscard]] TimeBreakdown breakdown(const GpuProfile&);

/// Microseconds of events, whether or not they ran beside each other.
struct WorkSums {
  std::int64_t compute = 0, communication = 0, memory = 0;
};
[[nodiscard]] WorkSums work_sums(const GpuProfile&);

struct CollectiveSum {
  std::string name;
  int group = 0;
  std::int64_t bytes = 0;  ///< of each
  std::int64_t count = 0;
  std::int64_t microseconds = 0;  ///< of all together
};
/// By name, ranks and size, longest first. Throws Refusal naming the first kernel of communication about which the trace says
/// nothing, or nothing that is understood.
[[nodiscard]] std::vector<CollectiveSum> collectives(const GpuProfile&);

}  // namespace rehearsal::exchange
