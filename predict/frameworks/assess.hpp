#pragma once
#include <cstdint>

#include "predict/assessment.hpp"
#include "predict/frameworks/job.hpp"

namespace rehearsal::predict::frameworks {

/// A plan in the terms of the closed form, for `batch` samples of one step. Throws Refusal naming the key that it cannot express.
[[nodiscard]] ParallelPlan parallel_plan(const plan::Plan&, std::int64_t batch, const costmodel::FrameworkProfile&);

/// What a step of the job takes. `micro_batch` is the forward graph of one micro-batch.
[[nodiscard]] Assessment assess_analytic(const graph::Graph& micro_batch, const AnalyticJob&, const plan::Plan&);

}  // namespace rehearsal::predict::frameworks
