#pragma once
// The kernels of a pipeline's passes in the order of its schedule, where messages take no time.

#include <span>
#include <vector>

#include "plan/schedules/schedule.hpp"

namespace rehearsal::predict {

/// Kernels of one micro-batch in one part of the model, seconds.
struct PartPasses {
  double forward = 0, backward = 0;
};

/// When each stage is through with its slots, by stage. `parts`: in the order in which a micro-batch passes them. Where a schedule has
/// gradients of weights in slots of their own, the whole backward pass counts there: no stage is through earlier than that, however the two
/// share it. Of two copies of the model: what each stage computes. Empty for schedules without a flush.
[[nodiscard]] std::vector<double> ends_of_kernels(const plan::ScheduleRow&, const plan::PipelineShape&, std::span<const PartPasses> parts);

}  // namespace rehearsal::predict
