#pragma once
#include <cstdint>
#include <optional>

#include <nlohmann/json_fwd.hpp>

#include "plan/assessment.hpp"

namespace rehearsal::cli {

/// How much training is asked about: steps of the batch.
struct Extent {
  std::optional<std::int64_t> steps;
  std::optional<double> epochs, tokens;
  std::optional<std::int64_t> dataset;  ///< samples of an epoch
  std::int64_t tokens_per_sample = 1;
};
/// Steps of the extent; 1 when nothing is given. Throws BadInput for --epochs without --dataset.
[[nodiscard]] double steps_of(const Extent&, std::int64_t batch);

[[nodiscard]] nlohmann::ordered_json interval_json(double value, double log_error);
[[nodiscard]] nlohmann::ordered_json to_json(const costmodel::Interval&);
/// The keys of `estimate` (docs/cli.md).
[[nodiscard]] nlohmann::ordered_json to_json(const plan::Assessment&, double steps);

}  // namespace rehearsal::cli
