#pragma once
// How many rings point-to-point wires can hold, as NCCL's search finds them.

#include "platforms/platform.hpp"

namespace rehearsal::costmodel {

/// Rings of one wire each, in one direction each, over the first `ranks` devices that no wire is shared by: two (one either way) for
/// every cycle through all of them. A pair has one ring a wire. 0: no cycle closes (five of the eight devices of a DGX-1: the fifth hangs
/// on one other). More than twelve devices: the least number of wires of a device.
[[nodiscard]] int ring_count(const platforms::IntraLink&, int ranks);

}  // namespace rehearsal::costmodel
