#pragma once
#include "predict/predictor.hpp"

namespace rehearsal::predict {

/// By group of nodes of a platform.
using BackendsOfGroups = std::vector<const plan::Backend*>;

/// Predictions of our own execution: the Program that `run` would play is lowered and priced. What `job` refers to must outlive it. A plan
/// is lowered for the backend of the slowest devices that it uses; without `backends` for that of `job`.
[[nodiscard]] std::unique_ptr<Predictor> lowered_predictor(const Workload& job, const BackendsOfGroups& backends = {});

}  // namespace rehearsal::predict
