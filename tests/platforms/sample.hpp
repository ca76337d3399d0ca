#pragma once
// Small platforms with round figures, for hand calculations.

#include <string>
#include <vector>

#include "platforms/fabric.hpp"
#include "platforms/platform.hpp"

namespace rehearsal::platforms::sample {

inline constexpr double kPort = 100e9;         // B/s, a device's port inside its node
inline constexpr double kInside = 2e-6;        // s, device to device inside a node
inline constexpr double kCard = 10e9;          // B/s, a network card
inline constexpr double kCardTime = 1e-6;      // s, memory to wire
inline constexpr double kTrunk = 40e9;         // B/s, between switches
inline constexpr double kSwitchTime = 0.5e-6;  // s

inline NodeGroup group(int nodes, int devices, int cards) {
  NodeGroup group;
  group.name = "box";
  group.count = nodes;
  group.devices = devices;
  group.device.name = "chip";
  group.device.peaks.emplace("f32", FlopsPerSecond(1e12));
  group.device.memory = Bytes(16e9);
  group.device.memory_bandwidth = BytesPerSecond(1e12);
  group.device.idle_power = Watts(50);
  group.device.busy_power = Watts(300);
  group.device.launch_overhead = Seconds(5e-6);
  group.intra.kind = IntraKind::Nvswitch;
  group.intra.bandwidth = BytesPerSecond(kPort);
  group.intra.latency = Seconds(kInside);
  group.nic.count = cards;
  group.nic.bandwidth = BytesPerSecond(cards > 0 ? kCard : 0);
  group.nic.latency = Seconds(cards > 0 ? kCardTime : 0);
  group.host_memory = Bytes(256e9);
  return group;
}

/// `nodes` boxes of `devices` chips and `cards` cards on a topology with the given whole-number parameters.
inline Platform cluster(int nodes, int devices, int cards, std::string kind, decltype(Topology::parameters) parameters) {
  Platform platform;
  platform.name = "sample";
  platform.nodes = {group(nodes, devices, cards)};
  platform.topology.kind = std::move(kind);
  platform.topology.parameters = std::move(parameters);
  platform.topology.bandwidth = BytesPerSecond(kTrunk);
  platform.topology.latency = Seconds(kSwitchTime);
  return platform;
}

inline Cable cable(std::string from, std::string to, double bandwidth, double latency) {
  return {std::move(from), std::move(to), BytesPerSecond(bandwidth), Seconds(latency)};
}

inline Platform tree(int nodes, int devices, std::vector<Cable> cables) {
  auto platform = cluster(nodes, devices, 1, "links", {});
  platform.topology.bandwidth = {};
  platform.topology.latency = {};
  platform.topology.cables = std::move(cables);
  return platform;
}

/// Names of the links between two ranks.
inline std::vector<std::string> way(const Fabric& fabric, int a, int b) {
  std::vector<std::string> names;
  for (const auto link : fabric.route(a, b).links) names.push_back(fabric.link_name(link));
  return names;
}

using Way = std::vector<std::string>;

}  // namespace rehearsal::platforms::sample
