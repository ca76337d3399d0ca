#pragma once
// Figures of a platform that no machine has: a unit or a digit that was mistyped.

#include <string>
#include <vector>

#include "platforms/platform.hpp"

namespace rehearsal::platforms {

/// A sentence for each: "nic.latency: 3 s; machines have 100 ns to 100 ms". What it is compared with is a row of usual_figures.cpp.
[[nodiscard]] std::vector<std::string> unusual_figures(const Platform&);

}  // namespace rehearsal::platforms
