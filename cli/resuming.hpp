#pragma once
// What a run that goes on with a checkpoint says of it before it begins.

#include <optional>
#include <string>
#include <vector>

#include "exec/checkpoint/checkpoint.hpp"
#include "exec/play/executor.hpp"

namespace rehearsal::cli {

/// What the checkpoint says that this training goes on with; nothing where `folder` is empty. Warns of what is not as it was:
/// another batch, and what ranks keep for themselves under another plan. Throws BadInput as exec::load_checkpoint() does, Refusal where
/// the plan takes Adam's second moment for settled earlier than the checkpoint's training did.
[[nodiscard]] std::optional<exec::CheckpointHeader> header_to_resume(const std::string& folder, const exec::Training& training,
                                                                     std::vector<std::string>& warnings);

}  // namespace rehearsal::cli
