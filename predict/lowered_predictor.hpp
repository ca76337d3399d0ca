#pragma once
#include "predict/predictor.hpp"

namespace rehearsal::predict {

/// Predictions of our own execution: the Program that `run` would play is lowered and priced. What `job` refers to must outlive it.
[[nodiscard]] std::unique_ptr<Predictor> lowered_predictor(const Workload& job);

}  // namespace rehearsal::predict
