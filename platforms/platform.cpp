#include "platforms/platform.hpp"

#include <algorithm>
#include <functional>
#include <limits>

#include "base/error.hpp"
#include "platforms/topology.hpp"

namespace rehearsal::platforms {
namespace {

std::int64_t node_capacity(const Platform& platform) {
  if (platform.nodes.size() > 1) return node_count(platform);
  return topology_row(platform.topology.kind).capacity(platform.topology);
}

/// Of the first nodes, as many as may be used.
std::int64_t devices_of(const std::vector<NodeGroup>& groups, const std::optional<int>& node_limit) {
  std::int64_t devices = 0, nodes = node_limit.value_or(std::numeric_limits<int>::max());
  for (const auto& group : groups) {
    const auto used = std::min<std::int64_t>(nodes, group.count);
    devices += used * group.devices;
    nodes -= used;
  }
  return devices;
}

std::int64_t device_capacity(const Platform& platform) {
  if (platform.nodes.size() == 1) return node_capacity(platform) * platform.nodes.front().devices;
  return devices_of(platform.nodes, {});
}

void check_wanted(const Platform& platform, std::int64_t wanted, std::int64_t capacity, const std::string& what) {
  if (wanted >= 1 && wanted <= capacity) return;
  throw BadInput("platform " + platform.name, std::to_string(wanted) + " " + what + " asked for; it can have 1 to " +
                                                  std::to_string(capacity) + " (topology " + platform.topology.kind + ")");
}

}  // namespace

std::string to_text(const PriceBasis& basis) {
  std::string text(name(basis.term));
  if (!basis.seller.empty()) text += ", " + basis.seller;
  if (!basis.date.empty()) return text + ", " + basis.date;
  return basis.term == PriceTerm::Yours ? text : text + ", undated";
}

std::optional<FlopsPerSecond> Device::peak(std::string_view arithmetic) const {
  const auto found = peaks.find(arithmetic);
  if (found == peaks.end()) return std::nullopt;
  return found->second.value;
}

bool Device::on_matrix_units(std::string_view arithmetic) const {
  return std::find(matrix_units.begin(), matrix_units.end(), arithmetic) != matrix_units.end();
}

std::string_view intra_topology(const IntraLink& intra, int devices) {
  if (devices == 1) return "single";
  switch (intra.kind) {
    case IntraKind::SharedMemory:
      return "memory";
    case IntraKind::Pcie:
      return "pcie";
    case IntraKind::Nvswitch:
      return "switch";
    case IntraKind::NvlinkMesh:
      break;
  }
  const auto pairs = static_cast<std::size_t>(devices) * (static_cast<std::size_t>(devices) - 1) / 2;
  const auto is_alike = [&](const Wire& wire) { return wire.count == intra.wires.front().count; };
  if (intra.wires.size() == pairs && std::all_of(intra.wires.begin(), intra.wires.end(), is_alike)) return "mesh";
  constexpr int kCorners = 8;
  constexpr std::size_t kCubeWires = 16;  // two fully joined quads (6 each) and a wire from corner to corner (4)
  return devices == kCorners && intra.wires.size() == kCubeWires ? "cube" : "wires";
}

int node_count(const Platform& platform) {
  int nodes = 0;
  for (const auto& group : platform.nodes) nodes += group.count;
  return std::min(nodes, platform.node_limit.value_or(nodes));
}

int device_count(const Platform& platform) {
  const auto devices = static_cast<int>(devices_of(platform.nodes, platform.node_limit));
  return std::min(devices, platform.device_limit.value_or(devices));
}

int most_devices(const Platform& platform) {
  if (!platform.node_limit) return device_count(platform);
  auto largest = platform;
  std::ranges::stable_sort(largest.nodes, std::greater(), &NodeGroup::devices);
  return device_count(largest);
}

Placement place(const Platform& platform, int rank) {
  ensure(rank >= 0 && rank < device_count(platform), "a rank is placed beyond the devices of its platform");
  int first_node = 0;
  for (int group = 0;; ++group) {
    const auto& nodes = platform.nodes[static_cast<std::size_t>(group)];
    if (rank < nodes.count * nodes.devices) return {group, first_node + rank / nodes.devices, rank % nodes.devices};
    rank -= nodes.count * nodes.devices;
    first_node += nodes.count;
  }
}

const NodeGroup& node_of(const Platform& platform, int rank) {
  return platform.nodes[static_cast<std::size_t>(place(platform, rank).group)];
}
const Device& device_of(const Platform& platform, int rank) { return node_of(platform, rank).device; }

Platform with_nodes(const Platform& platform, std::int64_t nodes) {
  check_wanted(platform, nodes, node_capacity(platform), "nodes");
  Platform result = platform;
  result.device_limit.reset();
  result.node_limit.reset();
  if (result.nodes.size() == 1) {
    result.nodes.front().count = static_cast<int>(nodes);
    return result;
  }
  for (auto& group : result.nodes) {
    group.count = static_cast<int>(std::min<std::int64_t>(group.count, nodes));
    nodes -= group.count;
  }
  std::erase_if(result.nodes, [](const NodeGroup& group) { return group.count == 0; });
  return result;
}

Platform with_devices(const Platform& platform, std::int64_t devices) {
  check_wanted(platform, devices, device_capacity(platform), "devices");
  std::int64_t nodes = 0;
  std::int64_t left = devices;
  if (platform.nodes.size() == 1) {
    nodes = (devices + platform.nodes.front().devices - 1) / platform.nodes.front().devices;
  } else {
    for (const auto& group : platform.nodes) {
      const auto used = std::min<std::int64_t>(group.count, (left + group.devices - 1) / group.devices);
      nodes += used;
      left -= std::min(left, used * group.devices);
    }
  }
  Platform result = with_nodes(platform, nodes);
  if (device_count(result) != devices) result.device_limit = static_cast<int>(devices);
  return result;
}

Platform with_limits(const Platform& platform, std::optional<std::int64_t> nodes, std::optional<std::int64_t> devices) {
  if (platform.nodes.size() == 1) {
    const auto smaller = nodes ? with_nodes(platform, *nodes) : platform;
    return devices ? with_devices(smaller, *devices) : smaller;
  }
  Platform result = platform;
  if (nodes) {
    check_wanted(platform, *nodes, node_capacity(platform), "nodes");
    result.node_limit = static_cast<int>(*nodes);
  }
  if (devices) {
    check_wanted(platform, *devices, most_devices(result), "devices");
    result.device_limit = static_cast<int>(*devices);
  }
  return result;
}

}  // namespace rehearsal::platforms
