#pragma once
// Parameters that are stored in parts are gathered before they are used: ahead of time, so that kernels hide the messages.

#include <cstdint>

#include "plan/program/program.hpp"

namespace rehearsal::plan {

/// Moves every gather of a stored parameter up within its body, past kernels, while at most `bytes_ahead` more than the largest gather
/// has are gathered that nobody has used yet (as DeepSpeed's stage3_prefetch_bucket_size). What stays until the backward pass has used it
/// counts nothing. The order of gathers, of kernels and of other messages stays.
void prefetch_parameters(Role& role, std::int64_t bytes_ahead);

}  // namespace rehearsal::plan
