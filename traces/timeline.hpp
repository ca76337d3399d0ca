#pragma once
// Where the steps of a Trace went: computing, waiting for messages, doing nothing. What compare and learn start from.

#include <cstdint>
#include <vector>

#include "traces/trace.hpp"

namespace rehearsal::traces {

/// True of messages and collectives.
[[nodiscard]] bool communicates(const EventKind&);

/// The steps in which compare() looks for where the time goes: no warm-up, and without the shortest and the longest quarter (rounded down),
/// in order of time. Throws BadInput when the trace holds no step.
[[nodiscard]] std::vector<StepRecord> central_steps(const Trace&);
/// The steps that are no warm-up; all of them when nothing else is there.
[[nodiscard]] std::vector<StepRecord> counted_steps(const Trace&);
/// What a step of the trace took, wherever one number stands for all: the median of counted_steps().
[[nodiscard]] double median_step_seconds(const Trace&);
/// Whether nothing else is there: the first steps of a training say little of those behind them.
[[nodiscard]] bool only_warms_up(const Trace&);

/// A computing event and the time until the next one can begin, as far as no message was under way: what the executor adds to a kernel.
struct ChargedEvent {
  std::uint32_t kind = 0;
  double seconds = 0;  ///< with that dispatch
  double busy = 0;     ///< thread CPU seconds of the kernel alone
};

/// One rank's step. compute + exposed + idle = seconds.
struct StepAccount {
  double seconds = 0;
  double compute = 0;  ///< at least one event computes
  double exposed = 0;  ///< nothing computes and a message is under way
  double idle = 0;     ///< neither
  std::vector<ChargedEvent> charged;
};

/// Accounts of one rank, one for each of `steps`.
[[nodiscard]] std::vector<StepAccount> accounts(const RankTrace&, const std::vector<StepRecord>& steps);

/// Share of the time of all kernels in the counted steps in which their thread did not run: it waited for a core that something else had.
[[nodiscard]] double share_waiting_for_cores(const Trace&);

}  // namespace rehearsal::traces
