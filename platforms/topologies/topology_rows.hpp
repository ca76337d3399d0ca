#pragma once
#include "platforms/topology.hpp"

namespace rehearsal::platforms {

extern const TopologyRow kSingle;
extern const TopologyRow kSwitch;
extern const TopologyRow kFatTree;
extern const TopologyRow kDragonfly;
extern const TopologyRow kTorus;
extern const TopologyRow kHyperX;
extern const TopologyRow kRails;
extern const TopologyRow kLinks;

/// Of switches that reduce what passes them (SHARP: Graham et al., "Scalable hierarchical aggregation protocol", COMHPC 2016).
inline constexpr ParameterRow kAddingSwitches{
    .key = "adds", .meaning = "1: switches add what passes them; 0: they do not", .low = 0, .high = 1, .fallback = 0};

/// Of links between switches, or between nodes of a torus.
inline constexpr ParameterRow kOtherTraffic{
    .key = "background", .meaning = "per cent of every link that other jobs' traffic takes", .low = 0, .high = 95, .fallback = 0};

inline constexpr ParameterRow kAdaptiveRouting{.key = "adaptive",
                                               .meaning = "1: messages go round where links are busy; 0: by the shortest way alone",
                                               .low = 0,
                                               .high = 1,
                                               .fallback = 0};

/// With how many links one of `count` equals sends and receives, whoever it talks to, when each two are joined by `width` and messages go
/// round by a third where links are busy. A way round takes two links in place of one, so it is half of all (Valiant, SIAM J. Comput. 11,
/// 1982), and no less than those between two.
[[nodiscard]] constexpr double links_with_detours(std::int64_t count, std::int64_t width) {
  const double half = 0.5 * static_cast<double>(count - 1) * static_cast<double>(width);
  return half > static_cast<double>(width) ? half : static_cast<double>(width);
}

/// In the order of topology_rows().
inline constexpr const TopologyRow* kTopologies[] = {&kSingle, &kSwitch, &kFatTree, &kDragonfly, &kTorus, &kHyperX, &kRails, &kLinks};

}  // namespace rehearsal::platforms
