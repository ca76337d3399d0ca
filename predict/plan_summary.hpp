#pragma once
// A plan on one screen: what each of its axes does, and how its schedule compares with the other one.

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
/// Axes of more than one rank, pipelines among them (their messages go from stage to stage). `has_experts`: the model sends tokens to some
/// (frameworks::router_of()); where it has none, our own execution splits groups with ep.
[[nodiscard]] std::vector<AxisRole> axis_roles(const plan::Plan&, const std::vector<StagePlan>&, bool has_experts);

/// Why GPipe and 1F1B differ for this pipeline, in a few sentences: of the one that is used against the other, 1F1B where it is neither.
/// Empty without a pipeline, or where the other one cannot be used.
[[nodiscard]] std::string schedule_comparison(Predictor&, const Assessment&);

}  // namespace rehearsal::predict
