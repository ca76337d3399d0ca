#pragma once
#include "predict/predictor.hpp"

namespace rehearsal::predict {

/// Predictions of our own execution: the Program that `run` would play is lowered and priced. What `job` refers to must outlive it.
[[nodiscard]] std::unique_ptr<Predictor> lowered_predictor(const Workload& job);
/// Of Platform::nodes: what the others wait for, whichever order they are written down in.
[[nodiscard]] std::size_t slowest_group(const platforms::Platform&, const std::string& arithmetic);

}  // namespace rehearsal::predict
