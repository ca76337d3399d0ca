#pragma once
#include <cstdint>

#include "plan/analytic/job.hpp"
#include "plan/assessment.hpp"

namespace rehearsal::plan::analytic {

/// A plan in the terms of the closed form, for `batch` samples of one step. Throws Refusal naming the key that it cannot express.
[[nodiscard]] ParallelPlan parallel_plan(const Plan&, std::int64_t batch, const costmodel::FrameworkProfile&);

/// What a step of the job takes. `micro_batch` is the forward graph of one micro-batch.
[[nodiscard]] Assessment assess_analytic(const graph::Graph& micro_batch, const AnalyticJob&, const Plan&);

}  // namespace rehearsal::plan::analytic
