#pragma once
#include "platforms/topology.hpp"

namespace rehearsal::platforms {

extern const TopologyRow kSingle;
extern const TopologyRow kSwitch;
extern const TopologyRow kFatTree;
extern const TopologyRow kDragonfly;
extern const TopologyRow kTorus;
extern const TopologyRow kLinks;

/// In the order of topology_rows().
inline constexpr const TopologyRow* kTopologies[] = {&kSingle, &kSwitch, &kFatTree, &kDragonfly, &kTorus, &kLinks};

}  // namespace rehearsal::platforms
