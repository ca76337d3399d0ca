#pragma once
// What plans are ranked by, and what they may not exceed.

#include <span>
#include <string>
#include <string_view>

#include "predict/predictor.hpp"

namespace rehearsal::search {

/// One row per objective: what a smaller value of is better.
struct ObjectiveRow {
  std::string_view name;  ///< as in --objective
  std::string_view description;
  double (*value)(const predict::Assessment&);
  double (*least)(const predict::Outlook&);  ///< the value is not less
  std::string_view noun;                     ///< of the sentence that says why a plan lost: "time", "money"
  bool hurt_by_recomputing = true;           ///< what computes again is never better
};
/// time, energy, cost, memory.
[[nodiscard]] std::span<const ObjectiveRow> objective_table();
/// The name of one of them, or "pareto", in whatever spelling. Throws BadInput for any other.
[[nodiscard]] std::string_view objective_name(const std::string& text);
/// nullptr for "pareto": all of them at once. Throws BadInput as objective_name() does.
[[nodiscard]] const ObjectiveRow* objective(const std::string& name);

/// What plans are put in order by: the objective, or time on a front.
[[nodiscard]] double value_of(const ObjectiveRow* by, const predict::Assessment&);

/// One row per quantity that can be limited. Total, cost and energy are of the whole training, what failures add to it included.
struct LimitRow {
  std::string_view name;     ///< as in --limit NAME=VALUE
  std::string_view example;  ///< "2s"
  double (*parse)(const std::string&);
  double (*value)(const predict::Assessment&, double steps);
  double (*least)(const predict::Outlook&, double steps);
  std::string (*print)(double);
  bool of_training = false;  ///< of all steps of a training, not of one
};

/// step, total, cost, energy, memory, out-of-memory, devices.
[[nodiscard]] std::span<const LimitRow> limit_table();

struct Limit {
  const LimitRow* row;
  double most;
};
/// "step=2s", "cost=50000". Throws BadInput saying what would be right.
[[nodiscard]] Limit parse_limit(const std::string& text);

/// By how much something is over the limit that it exceeds most: log of the ratio; 0: over none.
[[nodiscard]] double excess(std::span<const Limit>, const predict::Assessment&, double steps);
[[nodiscard]] double least_excess(std::span<const Limit>, const predict::Outlook&, double steps);
/// "step 3.1 s, over the limit of 2 s": every limit that is exceeded.
[[nodiscard]] std::string excess_text(std::span<const Limit>, const predict::Assessment&, double steps);

}  // namespace rehearsal::search
