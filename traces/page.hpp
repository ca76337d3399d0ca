#pragma once
// Traces as one self-contained HTML page: a timeline of one step per rank and stream, and where the time goes.

#include <span>
#include <string>
#include <vector>

#include "traces/trace.hpp"

namespace rehearsal::traces {

/// The page shows, of every trace, the step of median duration, all on one scale of time; and seconds per phase and operator kind: of two
/// traces of one program predicted beside measured (see compare), else of each trace alone. Throws BadInput without a step or a trace.
[[nodiscard]] std::string to_page(std::span<const Trace> traces);

/// A plan that a search found.
struct FoundPlan {
  std::string plan, why_not;
  double step_seconds = 0, low = 0, high = 0;                   ///< with the 90 % interval
  double compute = 0, communication = 0, bubble = 0, rest = 0;  ///< seconds of the step
  double memory_bytes = 0;
};
/// The result of `rehearse search --format json`. Throws BadInput naming file and key when it is something else.
[[nodiscard]] std::vector<FoundPlan> read_search(const std::string& path);

/// The same page, with the plans of a search, best first, before the traces; with plans there may be no trace.
[[nodiscard]] std::string to_page(std::span<const FoundPlan> plans, std::span<const Trace> traces);

}  // namespace rehearsal::traces
