#pragma once
// What figures of a platform usually are: what stands for one that is not said, and which no machine has, since a unit or a digit was
// mistyped.

#include <string>
#include <vector>

#include "platforms/platform.hpp"

namespace rehearsal::platforms {

/// A sentence for each: "nic.latency: 3 s; machines have 100 ns to 100 ms". What it is compared with is a row of usual_figures.cpp.
[[nodiscard]] std::vector<std::string> unusual_figures(const Platform&);

/// Platform::restart_time, or what is usual where the platform does not say it.
[[nodiscard]] Sourced<Seconds> restart_time_of(const Platform&);

}  // namespace rehearsal::platforms
