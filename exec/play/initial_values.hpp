#pragma once
#include <cstdint>

#include "exec/play/executor.hpp"
#include "exec/play/local_memory.hpp"

namespace rehearsal::exec {

/// Sets all that this rank stores to what it is before the first step, in every version.
void set_initial_values(const Training&, std::uint64_t seed, const LocalMemory&, ComputeDevice&);

}  // namespace rehearsal::exec
