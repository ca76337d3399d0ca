#pragma once
// What the nodes of a step take, so that a pipeline is cut into stages that take equally long.

#include "graph/training.hpp"
#include "plan/lowering/lowering.hpp"
#include "plan/schedules/stages.hpp"
#include "plan/sharding/sharding.hpp"

namespace rehearsal::plan {

/// How a step goes through the model.
struct StepPasses {
  int micro_batches = 1;
  std::vector<StageSpeed> speeds = {};  ///< of every part of the model; empty: all alike
};

/// By the local shapes of one rank. Without speeds times are in FLOPs of products, and what moves memory counts as the products that
/// devices do meanwhile: one number for all of them, so that a plan's stages are the same wherever it is lowered.
[[nodiscard]] StageBalance work_of_stages(const graph::TrainingGraph&, const Sharding&, const StepPasses&);

/// The stages of a pipeline with as many stages as the program's plan cuts the model into parts.
[[nodiscard]] StageAssignment cut_into_parts(const graph::TrainingGraph&, const Sharding&, const Program&, const LoweringOptions&);

}  // namespace rehearsal::plan
