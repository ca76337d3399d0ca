#include "platforms/fabric.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>

#include "base/error.hpp"
#include "platforms/mesh.hpp"
#include "platforms/platform_check.hpp"
#include "platforms/topology.hpp"

namespace rehearsal::platforms {
/// The links of one node, in this order: ports of devices (out, in) or wires (both ways); the bus; cards (out, in).
struct NodeLayout {
  const NodeGroup* group = nullptr;
  std::int64_t first_node = 0, first_device = 0;
  std::uint64_t first_link = 0;
  std::uint64_t bus = 0, nics = 0, size = 0;  ///< offsets inside a node, and the number of its links
  std::optional<BytesPerSecond> bus_bandwidth;
  int lanes = 0;  ///< cards as ranks see them: bundled where there are more than devices
  std::optional<Mesh> mesh;
};

namespace {

constexpr std::array kRoles{std::string_view("device-out"), std::string_view("device-in"), std::string_view("bus"),
                            std::string_view("wire"),       std::string_view("nic-out"),   std::string_view("nic-in"),
                            std::string_view("network")};

NodeLayout layout_of(const NodeGroup& group) {
  NodeLayout layout;
  layout.group = &group;
  const auto& intra = group.intra;
  if (intra.kind == IntraKind::NvlinkMesh) {
    layout.mesh.emplace(intra.wires, group.devices);
    layout.bus = 2 * intra.wires.size();
  } else {
    layout.bus = 2 * static_cast<std::uint64_t>(group.devices);
    if (intra.total_bandwidth)
      layout.bus_bandwidth = intra.total_bandwidth->value;
    else if (intra.kind == IntraKind::SharedMemory)
      layout.bus_bandwidth = *intra.bandwidth;
  }
  layout.nics = layout.bus + (layout.bus_bandwidth ? 1 : 0);
  layout.lanes = std::min(group.nic.count, group.devices);
  layout.size = layout.nics + 2 * static_cast<std::uint64_t>(layout.lanes);
  return layout;
}

}  // namespace

std::string_view name(LinkRole role) { return kRoles[static_cast<std::size_t>(role)]; }

struct Fabric::Layout {
  std::vector<NodeGroup> nodes;
  std::vector<NodeLayout> groups;
  std::vector<int> slots;  ///< Platform::slots
  std::unique_ptr<Network> network;
  std::uint64_t first_network_link = 0;
  std::uint64_t count = 0;

  struct DevicePosition {
    const NodeLayout* group;
    std::int64_t node;   ///< over all groups
    std::uint64_t base;  ///< first link of the node
    int device;
  };

  [[nodiscard]] DevicePosition place(int rank) const {
    for (auto group = groups.rbegin(); group != groups.rend(); ++group) {
      if (rank < group->first_device) continue;
      const auto local = rank - group->first_device;
      const auto node = local / group->group->devices;
      ensure(node < group->group->count, "a route is asked for a rank beyond the platform");
      return {&*group, group->first_node + node, group->first_link + static_cast<std::uint64_t>(node) * group->size,
              static_cast<int>(local % group->group->devices)};
    }
    throw InternalError("a route is asked for a negative rank");
  }

  /// The first device of the node that sends over this card.
  [[nodiscard]] static DevicePosition with_lane(DevicePosition at, std::int64_t lane) {
    at.device = static_cast<int>((lane * at.group->group->devices + at.group->lanes - 1) / at.group->lanes);
    return at;
  }
  [[nodiscard]] static std::int64_t lane(const DevicePosition& at) {
    return std::int64_t{at.device} * at.group->lanes / at.group->group->devices;
  }

  [[nodiscard]] std::int64_t slot(std::int64_t node) const { return slots.empty() ? node : slots[static_cast<std::size_t>(node)]; }
  [[nodiscard]] Link node_link(const NodeLayout& group, std::uint64_t local) const;
  void route_inside(const DevicePosition& from, const DevicePosition& to, Route& out) const;
  void route_between(const DevicePosition& from, const DevicePosition& to, Route& out) const;
};

Link Fabric::Layout::node_link(const NodeLayout& group, std::uint64_t local) const {
  const auto& intra = group.group->intra;
  const auto& nic = group.group->nic;
  if (local >= group.nics) {
    const bool in = (local - group.nics) % 2 == 1;
    const double cards = static_cast<double>(nic.count) / group.lanes;
    return {*nic.bandwidth * cards, *nic.latency + (in ? network->exit_latency() : Seconds(0)), *nic.idle_power * cards,
            *nic.busy_power * cards, in ? LinkRole::NicIn : LinkRole::NicOut};
  }
  if (local == group.bus) return {*group.bus_bandwidth, Seconds(0), Watts(0), Watts(0), LinkRole::Bus};
  if (group.mesh) {
    const auto wire = local / 2;  // each has two directions
    const double wires = intra.wires[wire].count;
    return {*intra.bandwidth * wires, *intra.latency, *intra.idle_power * wires, *intra.busy_power * wires, LinkRole::Wire};
  }
  return {*intra.bandwidth, *intra.latency / 2.0, *intra.idle_power, *intra.busy_power,
          local % 2 == 0 ? LinkRole::DeviceOut : LinkRole::DeviceIn};
}

void Fabric::Layout::route_inside(const DevicePosition& from, const DevicePosition& to, Route& out) const {
  const auto base = static_cast<std::uint32_t>(from.base);
  if (from.group->mesh) return from.group->mesh->route(from.device, to.device, base, out.links);
  out.links.push_back(base + 2 * static_cast<std::uint32_t>(from.device));
  if (from.group->bus_bandwidth) out.links.push_back(base + static_cast<std::uint32_t>(from.group->bus));
  out.links.push_back(base + 2 * static_cast<std::uint32_t>(to.device) + 1);
}

void Fabric::Layout::route_between(const DevicePosition& from, const DevicePosition& to, Route& out) const {
  ensure(from.group->lanes > 0 && to.group->lanes > 0, "a route leaves a node that has no network card");
  const auto receiving = lane(to);
  auto sending = lane(from);
  if (!network->joins_places() && sending != receiving) {
    route_inside(from, with_lane(from, receiving), out);
    sending = receiving;
  }
  out.links.push_back(static_cast<std::uint32_t>(from.base + from.group->nics + 2 * static_cast<std::uint64_t>(sending)));
  const auto before = static_cast<std::ptrdiff_t>(out.links.size());
  network->route({slot(from.node), sending}, {slot(to.node), receiving}, out.links);
  for (auto link = out.links.begin() + before; link != out.links.end(); ++link) *link += static_cast<std::uint32_t>(first_network_link);
  out.links.push_back(static_cast<std::uint32_t>(to.base + to.group->nics + 2 * static_cast<std::uint64_t>(receiving) + 1));
}

Fabric::Fabric(const Platform& platform) : layout_(std::make_unique<Layout>()) {
  check(platform);
  layout_->nodes = platform.nodes;
  layout_->slots = platform.slots;
  NetworkSize size{.nodes = 0, .ports = 1};
  std::int64_t devices = 0;
  for (const auto& group : layout_->nodes) {
    auto& layout = layout_->groups.emplace_back(layout_of(group));
    layout.first_node = size.nodes;
    layout.first_device = devices;
    layout.first_link = layout_->count;
    layout_->count += layout.size * static_cast<std::uint64_t>(group.count);
    size.nodes += group.count;
    size.ports = std::max<std::int64_t>(size.ports, layout.lanes);
    devices += std::int64_t{group.count} * group.devices;
  }
  for (const auto slot : layout_->slots) size.nodes = std::max<std::int64_t>(size.nodes, slot + 1);
  layout_->network = topology_row(platform.topology.kind).build(platform.topology, size);
  for (const auto& group : layout_->groups)
    if (!layout_->network->joins_places() && group.lanes != size.ports)
      throw BadInput("topology: " + platform.topology.kind + " whose cards of different places do not reach each other need as many in " +
                     "every node, and there are nodes with " + std::to_string(group.lanes) + " and with " + std::to_string(size.ports));
  layout_->first_network_link = layout_->count;
  layout_->count += layout_->network->link_count();
  if (layout_->count > std::numeric_limits<std::uint32_t>::max())
    throw BadInput("topology: " + platform.topology.kind + " has more than 4 billion links with these parameters");
}

Fabric::~Fabric() = default;
Fabric::Fabric(Fabric&&) noexcept = default;
Fabric& Fabric::operator=(Fabric&&) noexcept = default;

std::uint32_t Fabric::link_count() const { return static_cast<std::uint32_t>(layout_->count); }

Link Fabric::link(std::uint32_t link) const {
  ensure(link < layout_->count, "a link is asked for beyond the links of its platform");
  if (link >= layout_->first_network_link) return layout_->network->link(link - layout_->first_network_link);
  auto group = layout_->groups.rbegin();
  while (group->first_link > link) ++group;
  return layout_->node_link(*group, (link - group->first_link) % group->size);
}

std::vector<Link> Fabric::links() const {
  std::vector<Link> all;
  all.reserve(link_count());
  for (std::uint32_t i = 0; i < link_count(); ++i) all.push_back(link(i));
  return all;
}

std::string Fabric::link_name(std::uint32_t link) const {
  ensure(link < layout_->count, "a link is asked for beyond the links of its platform");
  if (link >= layout_->first_network_link) return layout_->network->link_name(link - layout_->first_network_link);
  auto group = layout_->groups.rbegin();
  while (group->first_link > link) ++group;
  const auto local = (link - group->first_link) % group->size;
  const auto node = "node" + std::to_string(group->first_node + static_cast<std::int64_t>((link - group->first_link) / group->size));
  if (local >= group->nics)
    return node + ".nic" + std::to_string((local - group->nics) / 2) + ((local - group->nics) % 2 == 0 ? ".out" : ".in");
  if (local == group->bus) return node + ".bus";
  if (!group->mesh) return node + ".device" + std::to_string(local / 2) + (local % 2 == 0 ? ".out" : ".in");
  const auto& wire = group->group->intra.wires[local / 2];
  const auto [from, to] = local % 2 == 0 ? std::pair(wire.a, wire.b) : std::pair(wire.b, wire.a);
  return node + ".wire" + std::to_string(local / 2) + "." + std::to_string(from) + ".to." + std::to_string(to);
}

void Fabric::route(int a, int b, Route& out) const {
  out.links.clear();
  out.latency = Seconds(0);
  const auto from = layout_->place(a);
  const auto to = layout_->place(b);
  if (a == b) return;
  if (from.node == to.node)
    layout_->route_inside(from, to, out);
  else
    layout_->route_between(from, to, out);
  for (const auto crossed : out.links) out.latency += link(crossed).latency;
}

Route Fabric::route(int a, int b) const {
  Route result;
  route(a, b, result);
  return result;
}

Path Fabric::path(int a, int b) const {
  const auto crossed = route(a, b);
  Path result{BytesPerSecond(std::numeric_limits<double>::infinity()), crossed.latency, static_cast<int>(crossed.links.size())};
  for (const auto i : crossed.links) result.bandwidth = std::min(result.bandwidth, link(i).bandwidth);
  return result;
}

}  // namespace rehearsal::platforms
