#pragma once
#include "platforms/topology.hpp"

namespace rehearsal::platforms {

extern const TopologyRow kSingle;
extern const TopologyRow kSwitch;
extern const TopologyRow kFatTree;
extern const TopologyRow kDragonfly;
extern const TopologyRow kTorus;
extern const TopologyRow kLinks;

}  // namespace rehearsal::platforms
