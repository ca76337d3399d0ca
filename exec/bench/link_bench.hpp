#pragma once
#include <vector>

#include "costmodel/calibration.hpp"
#include "exec/comm/communicator.hpp"

namespace rehearsal::exec::bench {

/// Two ranks that send messages to each other.
struct RankPair {
  int first = 0, second = 1;
};

/// So many measurements of the seconds of one way of a message, on the first rank of the pair; empty on the others. Collective over
/// `world`.
[[nodiscard]] std::vector<double> message_times(Communicator& world, RankPair pair, std::size_t bytes, int repetitions);

/// Messages from 8 bytes to 16 MB within about `seconds`: between two ranks of a node, where a node has two, and between the lowest ranks
/// of every node and the next; on one node our ring all-reduce over all ranks besides. Collective over `world`; every rank gets the
/// messages, rank 0 the all-reduces too. Empty for one rank.
[[nodiscard]] std::vector<costmodel::LinkSample> measure_links(Communicator& world, double seconds);

}  // namespace rehearsal::exec::bench
