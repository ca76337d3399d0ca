#include "platforms/platform_check.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "base/error.hpp"
#include "platforms/mesh.hpp"
#include "platforms/topology.hpp"

namespace rehearsal::platforms {
namespace {

constexpr int kMostMeshDevices = 256;

void check_wires(const NodeGroup& group, const std::string& key) {
  const auto& wires = group.intra.wires;
  if (group.intra.kind != IntraKind::NvlinkMesh) {
    if (!wires.empty()) throw BadInput(key + ".wires: only nvlink-mesh has wires, not " + std::string(name(group.intra.kind)));
    return;
  }
  if (group.intra.total_bandwidth) throw BadInput(key + ".total_bandwidth: an nvlink-mesh has no common limit; leave it out");
  if (group.devices > kMostMeshDevices)
    throw BadInput(key + ".kind: an nvlink-mesh joins at most " + std::to_string(kMostMeshDevices) + " devices of a node, not " +
                   std::to_string(group.devices));
  std::map<std::pair<int, int>, std::size_t> seen;
  for (std::size_t i = 0; i < wires.size(); ++i) {
    const auto here = key + ".wires[" + std::to_string(i) + "]";
    const int low = std::min(wires[i].a, wires[i].b);
    const int high = std::max(wires[i].a, wires[i].b);
    if (low < 0 || high >= group.devices || low == high)
      throw BadInput(here + ": joins devices " + std::to_string(wires[i].a) + " and " + std::to_string(wires[i].b) +
                     "; it must join two different devices from 0 to " + std::to_string(group.devices - 1));
    const auto [first, is_new] = seen.try_emplace({low, high}, i);
    if (!is_new)
      throw BadInput(here + ": joins the same devices as wires[" + std::to_string(first->second) +
                     "]; give parallel wires as one with their number");
    if (wires[i].count < 1) throw BadInput(here + ": the number of parallel wires must be at least 1");
  }
  try {
    const Mesh connected(wires, group.devices);
  } catch (const BadInput& refusal) {
    throw BadInput(key + "." + refusal.what());
  }
}

void check_parameters(const Topology& topology, const TopologyRow& row) {
  for (const auto& [key, values] : topology.parameters) {
    const auto found =
        std::find_if(row.parameters.begin(), row.parameters.end(), [&, &k = key](const ParameterRow& p) { return p.key == k; });
    const auto here = "topology." + key;
    if (found == row.parameters.end()) throw BadInput(here + ": a " + topology.kind + " has no such parameter");
    if (values.empty() || values.size() > static_cast<std::size_t>(found->most))
      throw BadInput(here + ": must hold 1 to " + std::to_string(found->most) + " numbers");
    for (const auto value : values)
      if (value < found->low || value > found->high)
        throw BadInput(here + ": is " + std::to_string(value) + "; must be from " + std::to_string(found->low) + " to " +
                       std::to_string(found->high));
  }
  if (!row.has_cables && !topology.cables.empty()) throw BadInput("topology.cables: a " + topology.kind + " has no cables of its own");
}

void check_group(const NodeGroup& group, const std::string& key, bool networked) {
  if (group.count < 1) throw BadInput(key + ".count: must be at least 1");
  if (group.devices < 1) throw BadInput(key + ".devices: must be at least 1");
  check_wires(group, key + ".intra");
  if (networked && group.nic.count < 1)
    throw BadInput(key + ".nic: nodes of a network need at least one network card; topology \"single\" needs none");
}

}  // namespace

void check(const Platform& platform) {
  if (platform.nodes.empty()) throw BadInput("nodes: there must be at least one group of nodes");
  const auto& row = topology_row(platform.topology.kind);
  check_parameters(platform.topology, row);
  const auto capacity = row.capacity(platform.topology);
  std::int64_t nodes = 0;
  std::int64_t devices = 0;
  for (std::size_t i = 0; i < platform.nodes.size(); ++i) {
    const auto& group = platform.nodes[i];
    check_group(group, "nodes[" + std::to_string(i) + "]", &row != find_topology("single"));
    nodes += group.count;
    devices += std::int64_t{group.count} * group.devices;
  }
  if (nodes > capacity)
    throw BadInput("nodes.count: " + std::to_string(nodes) + " nodes do not fit; topology " + platform.topology.kind + " holds " +
                   std::to_string(capacity));
  if (devices > kMostDevices)
    throw BadInput("nodes.devices: " + std::to_string(devices) + " devices; a platform has at most " + std::to_string(kMostDevices));
  if (platform.device_limit && (*platform.device_limit < 1 || *platform.device_limit > devices))
    throw BadInput("device_limit: must be from 1 to " + std::to_string(devices));
}

}  // namespace rehearsal::platforms
