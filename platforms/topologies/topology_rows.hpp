#pragma once
#include "platforms/topology.hpp"

namespace rehearsal::platforms {

extern const TopologyRow kSingle;
extern const TopologyRow kSwitch;
extern const TopologyRow kFatTree;
extern const TopologyRow kDragonfly;
extern const TopologyRow kTorus;
extern const TopologyRow kHyperX;
extern const TopologyRow kLinks;

/// Of switches that reduce what passes them (SHARP: Graham et al., "Scalable hierarchical aggregation protocol", COMHPC 2016).
inline constexpr ParameterRow kAddingSwitches{
    .key = "adds", .meaning = "1: switches add what passes them; 0: they do not", .low = 0, .high = 1, .fallback = 0};

/// Of links between switches, or between nodes of a torus.
inline constexpr ParameterRow kOtherTraffic{
    .key = "background", .meaning = "per cent of every link that other jobs' traffic takes", .low = 0, .high = 95, .fallback = 0};

/// In the order of topology_rows().
inline constexpr const TopologyRow* kTopologies[] = {&kSingle, &kSwitch, &kFatTree, &kDragonfly, &kTorus, &kHyperX, &kLinks};

}  // namespace rehearsal::platforms
