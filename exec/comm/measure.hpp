#pragma once
// Our collectives against MPI's own, in the same run.

#include <cstddef>
#include <vector>

#include "exec/comm/communicator.hpp"
#include "plan/collectives/collective.hpp"

namespace rehearsal::exec {

/// Seconds of each repetition, of the slowest rank.
struct CollectiveTimes {
  std::vector<double> ours, mpi;
};

/// A collective of `bytes` bytes of f32 over all ranks by a row of plan's table, and by MPI's own of that kind, in turn so that both meet
/// the same machine. The bytes are those of the whole vector, of an all-to-all what one rank sends. Collective over `world`.
[[nodiscard]] CollectiveTimes measure_collective(Communicator& world, const plan::CollectiveRow&, std::size_t bytes, int repetitions);

}  // namespace rehearsal::exec
