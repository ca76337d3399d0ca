#pragma once
// --hours: when and where a training emits and costs least (docs/energy.md).

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "platforms/platform.hpp"
#include "predict/assessment.hpp"

namespace rehearsal::cli {

/// Rows of `hours`: {region, rule, start, waits, finished, pauses, carbon and cost} of a training of so many steps, by a file of hours.
/// Throws BadInput where nothing says how long the training is, and where the file is none.
[[nodiscard]] nlohmann::ordered_json hours_json(const std::string& path, const predict::Assessment&, double steps, const platforms::Platform&);

}  // namespace rehearsal::cli
