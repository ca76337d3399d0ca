#pragma once
// What pods of Kubernetes see: the volume, and nothing of the machine on which the manifest is written.

#include "cli/launch/launched_job.hpp"
#include "cli/terminal.hpp"

namespace rehearsal::cli {

inline constexpr const char* kVolumePlace = "/training";  ///< where it is mounted, and the job works

/// Throws BadInput for a claim that Kubernetes would not take for a name.
void require_claim_name(const std::string& volume);
/// A plan file that lies elsewhere is named as it is to be copied to the top of the volume, which a warning says; another one names what
/// else of the job lies elsewhere.
void name_in_volume(LaunchJob&, const Terminal&);

}  // namespace rehearsal::cli
