#pragma once
// A plan on one screen: what each of its axes does, how its schedule compares with the other one, and what would make it quicker.

#include <string>
#include <vector>

#include "predict/explain.hpp"

namespace rehearsal::predict {

/// What one axis of the mesh is for.
struct AxisRole {
  std::string axis;  ///< "dp"
  int degree = 1;
  std::string does;        ///< in words
  std::int64_t bytes = 0;  ///< of vectors that a rank hands to collectives along it in a step (of the stage with most)
  Seconds communication;   ///< of these, as if none ran beside another
};
/// Axes of more than one rank, pipelines among them (their messages go from stage to stage).
[[nodiscard]] std::vector<AxisRole> axis_roles(const plan::Plan&, const std::vector<StagePlan>&);

/// Nothing below this share of a step is worth a word.
inline constexpr double kWorthSaying = 1e-3;

/// The same plan with something changed.
struct Change {
  std::string change;  ///< "overlap=on"
  double quicker = 0;  ///< share of the step that it saves
  std::int64_t memory_bytes = 0;
};
/// Single changes of keys that fit and save at least kWorthSaying of the step, the best first.
[[nodiscard]] std::vector<Change> helpful_changes(Predictor&, const Assessment&);

/// Why GPipe and 1F1B differ for this pipeline, in a few sentences: of the one that is used against the other, 1F1B where it is neither.
/// Empty without a pipeline, or where the other one cannot be used.
[[nodiscard]] std::string schedule_comparison(Predictor&, const Assessment&);

}  // namespace rehearsal::predict
