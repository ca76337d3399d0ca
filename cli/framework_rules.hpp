#pragma once
// What the framework that a prediction is for can be told, for those who choose plans.

#include "cli/model_options.hpp"
#include "exchange/frameworks/plan_export.hpp"

namespace rehearsal::cli {

/// What is trained, for a configuration of another framework; without a plan.
[[nodiscard]] exchange::TrainingJob training_job(const ModelOptions&, std::int64_t batch);

}  // namespace rehearsal::cli
