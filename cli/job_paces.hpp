#pragma once
// How jobs of a file go on: predicted where they do not say it themselves.

#include <vector>

#include "cli/platform_options.hpp"
#include "jobs/job.hpp"

namespace rehearsal::cli {

/// The jobs with their paces, steps and checkpoints. `sizes`: also on the devices that they may be resized to, by doubling. Throws what
/// predictions of them throw, with the job's name before it.
[[nodiscard]] std::vector<jobs::Job> with_paces(const std::vector<jobs::JobEntry>&, const PlatformOptions&, bool sizes, Progress&);

}  // namespace rehearsal::cli
