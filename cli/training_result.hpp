#pragma once
// What a training came to, as `run` prints it.

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "exec/trainer.hpp"

namespace rehearsal::cli {

/// Of a long training, in JSON and for people: first, last, and evenly spaced ones between.
constexpr std::size_t kMostLosses = 1002, kMostLossesToRead = 12;

/// The keys of `run` (docs/cli-answers.md) that say what was done; at least two losses, or all where there are fewer.
[[nodiscard]] nlohmann::ordered_json result_of(const exec::TrainingOutcome&, const plan::Program&, std::size_t most_losses);
/// "rank 3 takes 20 % longer than ranks that do the same; rank 0 waited longest for ..."
[[nodiscard]] std::string straggler_text(const exec::Straggler&);

}  // namespace rehearsal::cli
