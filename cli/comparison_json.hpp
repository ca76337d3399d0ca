#pragma once
// A comparison of two traces as commands print it.

#include <cstddef>

#include <nlohmann/json_fwd.hpp>

#include "traces/compare.hpp"

namespace rehearsal::cli {

/// Keys "step" {predicted_seconds, measured_seconds, error (predicted / measured - 1)}, "rows" and "instructions" (the `top` worst),
/// each with predicted_seconds, measured_seconds and error_seconds (predicted - measured).
[[nodiscard]] nlohmann::ordered_json to_json(const traces::Comparison&, std::size_t top);

}  // namespace rehearsal::cli
