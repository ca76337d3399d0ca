#pragma once
#include "platforms/platform.hpp"

namespace rehearsal::platforms {

/// Throws BadInput naming the key when the parts of a platform contradict each other: more nodes than the topology
/// holds, nodes without a network card, wires to devices that are not there, cables that are no tree, a parameter
/// that its topology does not have. Whether single figures are plausible is the reader's matter (platforms/json.hpp).
void check(const Platform&);

}  // namespace rehearsal::platforms
