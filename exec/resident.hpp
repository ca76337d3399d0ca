#pragma once
// The memory of this process that is in RAM.

#include <cstdint>

namespace rehearsal::exec {

/// Bytes resident now (statm, proc(5)): the arena as far as it was touched, the heap, and pages of program and libraries.
[[nodiscard]] std::int64_t resident_bytes();

/// Gives back what only getting ready needed: free blocks of the heap, and unwritten pages of mapped files, which are read again (from the
/// kernel's cache) when someone wants them. Two thirds of a small run's resident memory are code that has run once: linking, MPI's start,
/// reading and lowering the model.
void give_back_idle_memory();

}  // namespace rehearsal::exec
