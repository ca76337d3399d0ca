#pragma once
// How quick the devices of a pipeline's stages are, where they are of several kinds.

#include <vector>

#include "plan/lowering/lowering.hpp"
#include "predict/assessment.hpp"

namespace rehearsal::predict {

/// What operators of a step reach on a device, each alone on the whole batch and beside its launch: in products, and in what only moves
/// memory. Of attention that is one kernel nothing counts.
[[nodiscard]] plan::StageSpeed speed_of_operators(const Workload&, const costmodel::CostModel&);

/// Of the slowest device of every stage.
[[nodiscard]] std::vector<plan::StageSpeed> stage_speeds(const Workload&, const plan::Plan&);

}  // namespace rehearsal::predict
