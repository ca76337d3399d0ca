#pragma once
// Steps that follow each other without a flush: one takes what n + 1 of them take longer than n.

#include <functional>

#include "predict/step_cost.hpp"

namespace rehearsal::predict {

/// The Program of so many steps, one after the other. Micro-batches are numbered on from step to step, bodies that run once a step have
/// the number of its first one; what would run ahead of the last step is left out.
[[nodiscard]] plan::Program unrolled(const plan::Program&, int steps);

/// One more than the highest number of a micro-batch in the slots.
[[nodiscard]] int numbered_micro_batches(const plan::Program&);

using Play = std::function<StepCost(const EvaluationRequest&)>;

/// What a request asks for: one step as it stands where steps end before the next begin and samples are there when they are wanted,
/// steady_step() where steps run into each other, else the second of two steps, for whose samples the first one may have been too short.
/// Where replicas meet every few steps, the mean of these.
[[nodiscard]] StepCost step_among_steps(const EvaluationRequest& request, const Play& play);

/// The cost of a step in the middle of many, with the timeline of one such step. `play` evaluates a Program of several steps.
[[nodiscard]] StepCost steady_step(const EvaluationRequest&, const Play& play);

}  // namespace rehearsal::predict
