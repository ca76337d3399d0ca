#pragma once
#include <vector>

#include "costmodel/calibration.hpp"
#include "exec/comm/communicator.hpp"

namespace rehearsal::exec::bench {

/// Seconds of one way of messages between ranks 0 and 1, on those two; empty on the others. Collective over `world`.
[[nodiscard]] std::vector<double> message_times(Communicator& world, std::size_t bytes);

/// Messages between ranks 0 and 1, and our ring all-reduce over all ranks, from 8 bytes to 16 MB, within about `seconds`.
/// Collective over `world`; only rank 0's result is complete. Empty for one rank.
[[nodiscard]] std::vector<costmodel::LinkSample> measure_links(Communicator& world, double seconds);

}  // namespace rehearsal::exec::bench
