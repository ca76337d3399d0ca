#pragma once
// How a plan's pipeline cuts the model: which part of it lies on which stage, in which chunk.

#include <vector>

#include "plan/plan.hpp"
#include "plan/schedules/schedule.hpp"

namespace rehearsal::plan {

/// The schedule that a plan means: one stage needs none, and interleaved 1F1B is 1F1B with `interleave`.
[[nodiscard]] const ScheduleRow& schedule_of(const Plan&);
[[nodiscard]] PipelineShape pipeline_shape(const Plan&, int micro_batches);
/// Why the plan's schedule cannot be lowered with so many micro-batches; empty when it can.
[[nodiscard]] std::vector<Violation> schedule_violations(const Plan&, int micro_batches);

/// In what a training by the plan's schedule differs from that of one process: a sentence, empty where it does not.
[[nodiscard]] std::string other_mathematics(const Plan&);

struct PartPlace {
  int stage = 0, chunk = 0;
};
/// By part of the model, counted from the input.
[[nodiscard]] std::vector<PartPlace> places_of_parts(const ScheduleRow&, const PipelineShape&);

}  // namespace rehearsal::plan
