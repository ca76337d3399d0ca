#pragma once
// Limits of power as something that is chosen: --recipe power=auto.

#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "cli/platform_options.hpp"

namespace rehearsal::cli {

/// Whether --recipe leaves the limit of a device's power open.
[[nodiscard]] bool leaves_power_open(const PlatformOptions&);

/// The same question once for every limit, from the sustained maximum of its devices down to two fifths of it in tenths, with the platform
/// named after it ("dgx-h100 at 490 W"); the question itself where the recipe does not leave it open.
[[nodiscard]] std::vector<PlatformOptions> with_power_caps(const PlatformOptions&);

/// A plan under every limit.
struct CappedStep {
  double watts = 0;  ///< of a device
  predict::Assessment assessment;
};
/// Rows of `power_caps`: {limit, step, energy and money of a step, and by how much those differ from the highest limit}.
[[nodiscard]] nlohmann::ordered_json caps_json(const std::vector<CappedStep>&);
/// The one of least energy: that a training can have without losing more than time (You et al., "Zeus", NSDI 2023, with eta = 1; found
/// there by trying, here predicted).
[[nodiscard]] std::size_t least_energy(const std::vector<CappedStep>&);

}  // namespace rehearsal::cli
