#pragma once
// Our collectives against MPI's own, in the same run.

#include <cstddef>
#include <string_view>
#include <vector>

#include "exec/comm/communicator.hpp"

namespace rehearsal::exec {

/// Seconds of each repetition, of the slowest rank.
struct CollectiveTimes {
  std::vector<double> ours, mpi;
};

/// All-reduce of `bytes` bytes of f32 over all ranks by a row of plan's table, and by MPI_Allreduce, in turn so that both meet the same
/// machine. Collective over `world`. Throws BadInput for an unknown algorithm.
[[nodiscard]] CollectiveTimes measure_collective(Communicator& world, std::string_view algorithm, std::size_t bytes, int repetitions);

}  // namespace rehearsal::exec
