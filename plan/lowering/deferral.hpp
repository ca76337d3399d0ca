#pragma once
// Sums of gradients that are sharded are taken in where they are wanted, or where room for their messages ends: meanwhile the backward
// pass goes on.

#include <cstdint>

#include "plan/program/program.hpp"

namespace rehearsal::plan {

/// Moves what unpacks a reduce-scatter in a backward body, and adds up or copies what it unpacked, down past other instructions: to the
/// first that touches the same buffers, or to where messages of more than `bytes_behind` more than the largest has would wait, at the
/// latest to the body's end. The order of kernels and of messages stays.
void defer_sums(Role& role, std::int64_t bytes_behind);

}  // namespace rehearsal::plan
