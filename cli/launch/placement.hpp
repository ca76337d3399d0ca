#pragma once
// Where a job runs: on which nodes of a platform, with which kernels, and for how long.

#include "cli/launch/launched_job.hpp"
#include "cli/platform_options.hpp"

namespace rehearsal::cli {

/// The nodes that the ranks fill, in the platform's order, and kernels for their devices: where they are GPUs, --backend cuda, unless
/// another one was named. Throws Refusal where it has too few devices, and where there are no kernels for them.
void place(LaunchJob&, const platforms::Platform&);
/// Throws Refusal where nodes differ, for a launcher that asks a queue for so many equal ones.
void require_equal_nodes(const LaunchJob&, const std::string& launcher);
/// How long steps and the job take. Warns where the plan was made for another machine, or needs more memory than this one has, and where
/// the kernels are not those of the platform's devices.
void take_times(LaunchJob&, const JobSetup&, const Terminal&);

}  // namespace rehearsal::cli
