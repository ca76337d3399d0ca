#pragma once
// Every row of the collective table over sizes: against MPI's own, against its closed form, and against what no algorithm can beat.

#include <string>
#include <vector>

#include "base/progress.hpp"
#include "base/units.hpp"
#include "exec/comm/communicator.hpp"
#include "plan/collectives/collective.hpp"

namespace rehearsal::exec::bench {

/// Of the link between ranks 0 and 1, and of a core that adds: measured in the same run as the collectives.
struct MeasuredLinks {
  Seconds latency;           ///< half a round trip of 8 bytes
  BytesPerSecond bandwidth;  ///< of one direction, from half a round trip of 4 MB
  BytesPerSecond reduction;
};

/// No algorithm is faster on ports that send and receive one message at a time (Chan et al.: Collective communication: theory, practice,
/// and experience, 2007, table 2): the larger of ceil(log2 P) latencies and the bytes that some rank must send, receive or add.
[[nodiscard]] Seconds lower_bound(plan::CollectiveKind, int ranks, Bytes size, const MeasuredLinks&);

struct CollectiveResult {
  plan::CollectiveKind kind;
  std::string algorithm;
  Bytes size;
  Seconds ours, mpi;           ///< lower quartiles of the slowest rank's time
  Seconds closed_form, bound;  ///< on the links as measured
};

struct CollectiveBench {
  MeasuredLinks links;
  std::vector<CollectiveResult> results;
};

struct CollectiveBenchOptions {
  std::vector<std::size_t> sizes;  ///< bytes
  int repetitions = 9;
};

/// Collective over `world`, of two ranks or more; every rank gets the result. Throws Refusal for one rank.
[[nodiscard]] CollectiveBench measure_collectives(Communicator& world, const CollectiveBenchOptions&, Progress&);

}  // namespace rehearsal::exec::bench
