#pragma once
// rehearse bench step: where a real training step of one core goes.

#include <cstdint>

#include <nlohmann/json_fwd.hpp>

#include "cli/model_options.hpp"

namespace rehearsal::cli {

struct StepBenchmark {
  ModelOptions model;
  std::int64_t steps = 5;  ///< at least 1; the fastest counts
  bool roofline = false;
};

/// By operator and implementation, against the peak of one core; with `roofline` also by instruction, against the longer of its operations
/// at the peak of its type and its bytes at the memory's bandwidth, the largest loss first.
[[nodiscard]] nlohmann::ordered_json step_benchmark(const StepBenchmark&);

}  // namespace rehearsal::cli
