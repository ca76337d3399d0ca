#pragma once
// Traces and searches as one self-contained HTML page: timelines of steps that can be zoomed, where the time goes, and the plans of a
// search.

#include <span>
#include <string>
#include <vector>

#include "traces/trace.hpp"

namespace rehearsal::traces {

/// The page shows, of every trace, the step of median duration, all on one clock, ranks that are alike once (see rank_roles); of several a
/// summary side by side; and seconds per phase and operator kind: of two traces of one program under one framework beside each other (see
/// compare), else of each trace alone. Tables have means over the central steps and over ranks.
/// Throws BadInput without a step or a trace.
[[nodiscard]] std::string to_page(std::span<const Trace> traces);

/// A plan that a search found.
struct FoundPlan {
  std::string plan, why_not;
  double step_seconds = 0, low = 0, high = 0;                   ///< with the 90 % interval
  double compute = 0, communication = 0, bubble = 0, rest = 0;  ///< seconds of the step
  double memory_bytes = 0, cost_dollars = 0;                    ///< the money with what failures add, where that is known
  double stretch = 1;  ///< the training with failures and checkpoints over that without, where it is known: what plans are ranked by
  [[nodiscard]] double compared_seconds() const { return step_seconds * stretch; }
};
/// What was searched, and the plans, best first; of a front (objective pareto) the quickest first.
struct FoundPlans {
  std::string model, platform, dtype, framework, objective;
  std::int64_t batch = 0;
  std::vector<FoundPlan> plans;
  std::string price_basis = {};  ///< of all platforms
};
/// The result of `rehearse search --format json`. Throws BadInput naming file and key when it is something else.
[[nodiscard]] FoundPlans read_search(const std::string& path);

/// Part of a page: time and memory of every plan, those that nothing beats in both, and what each gains and gives up.
[[nodiscard]] std::string plans_section(const FoundPlans&);

/// The same page, with a search before the traces; with one there may be no trace.
[[nodiscard]] std::string to_page(const FoundPlans* found, std::span<const Trace> traces);

}  // namespace rehearsal::traces
