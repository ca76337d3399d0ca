#pragma once
// Schedules as a picture: devices from top to bottom, node by node, time from left to right, a colour for every job.

#include <span>
#include <string>

#include "jobs/play.hpp"

namespace rehearsal::jobs {

/// An SVG of one panel for every outcome, on one clock. What is hatched starts again.
[[nodiscard]] std::string to_svg(std::span<const Job>, std::span<const ScheduleOutcome>, const platforms::Platform&);

}  // namespace rehearsal::jobs
