#pragma once
// What a training came to, as `run` prints it.

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "exec/trainer.hpp"

namespace rehearsal::cli {

/// The keys of `run` (docs/cli.md) that say what was done.
[[nodiscard]] nlohmann::ordered_json result_of(const exec::TrainingOutcome&, const plan::Program&);
/// "rank 3 takes 20 % longer than ranks that do the same; rank 0 waited longest for ..."
[[nodiscard]] std::string straggler_text(const exec::Straggler&);

}  // namespace rehearsal::cli
