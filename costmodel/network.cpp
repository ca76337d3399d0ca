#include "costmodel/network.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <tuple>

#include "costmodel/accelerator.hpp"

namespace rehearsal::costmodel {
namespace {

using C = Coefficient;

constexpr double kProtocolSwitchBytes = 8e6;  // NVSwitch: LL128 hands over to the simple protocol
constexpr double kProtocolSwitchCost = 1.5;   // of latency, above it
constexpr double kMeshMemoryShare = 0.65;     // rings on meshes pass memory less often than switched ones
constexpr double kSlowNetwork = 8e9;          // bytes/s of a node: Ethernet below, RDMA above
constexpr double kEthernetLatencyFactor = 3;
constexpr double kPcieLatencyFactor = 2;
constexpr double kMeshSendShare = 0.3;       // of a device's wires that join two neighbours of a cube
constexpr double kCutEnumerationLimit = 12;  // devices; more have their least degree taken

/// Nodes before Ampere ran NCCL versions that used flat rings across nodes.
bool uses_trees(std::string_view generation) {
  return generation == "ampere" || generation == "ada" || is_hopper_or_newer(generation) || generation == "cdna3" || generation.empty();
}

int cut_of(const platforms::IntraLink& intra, int ranks, unsigned side) {
  int wires = 0;
  for (const auto& w : intra.wires)
    if (w.a < ranks && w.b < ranks && ((side >> w.a) & 1U) != ((side >> w.b) & 1U)) wires += w.count;
  return wires;
}

}  // namespace

std::string_view name(CollectiveKind kind) {
  static constexpr std::array<std::string_view, kCollectiveKinds> kNames{"all-reduce", "all-gather", "reduce-scatter", "all-to-all",
                                                                         "broadcast",  "reduce",     "halo",           "shift"};
  return kNames[static_cast<std::size_t>(kind)];
}

int ring_count(const platforms::IntraLink& intra, int ranks) {
  int least = 1 << 20;
  if (ranks <= kCutEnumerationLimit) {
    for (unsigned side = 1; side + 1 < (1U << ranks); ++side) least = std::min(least, cut_of(intra, ranks, side));
    return least;
  }
  for (int d = 0; d < ranks; ++d) {
    int degree = 0;
    for (const auto& w : intra.wires)
      if (w.a < ranks && w.b < ranks && (w.a == d || w.b == d)) degree += w.count;
    least = std::min(least, degree);
  }
  return least;
}

namespace {

double card_share_of(const platforms::NodeGroup& node) {
  return node.nic.count * node.nic.bandwidth.value.value() / std::max(1, node.devices);
}

/// Whichever order kinds of nodes are written down in: a collective waits for those whose links are slowest.
const platforms::NodeGroup& slowest_links(const platforms::Platform& platform) {
  return *std::ranges::min_element(platform.nodes, {}, [](const platforms::NodeGroup& node) {
    return std::tuple(card_share_of(node), node.intra.bandwidth.value.value(), node.device.memory_bandwidth.value.value(), node.devices);
  });
}

}  // namespace

Network::Network(const platforms::Platform& platform) {
  const auto& node = slowest_links(platform);
  intra_ = node.intra;
  devices_ = node.devices;
  memory_rate_ = node.device.memory_bandwidth.value.value();
  card_share_ = card_share_of(node);
  switched_ = intra_.kind == platforms::IntraKind::Nvswitch;
  nvlink_ = switched_ || intra_.kind == platforms::IntraKind::NvlinkMesh;
  trees_ = uses_trees(node.device.generation);
  ethernet_ = platform.topology.kind != "single" && node.nic.kind == platforms::NicKind::Ethernet && card_share_ * devices_ < kSlowNetwork;
  const double port = intra_.bandwidth.value.value();
  for (int ranks = 1; ranks <= devices_; ++ranks) {
    const bool mesh = intra_.kind == platforms::IntraKind::NvlinkMesh && ranks > 1;
    bus_.push_back(mesh ? port * std::max(1, ring_count(intra_, ranks)) : port);
  }
}

double Network::bus_bandwidth(int ranks) const { return bus_[static_cast<std::size_t>(std::clamp(ranks, 1, devices_) - 1)]; }

double Network::card_rate(const Constants& c) const {
  return std::max(1e7, card_share_) * c[ethernet_ ? C::LinkEthernet : C::LinkInfiniband];
}

double Network::inside_rate(int ranks, const Constants& c) const { return bus_bandwidth(ranks) * c[nvlink_ ? C::LinkNvlink : C::LinkPcie]; }

namespace {
/// Hops of a ring round `ranks` devices of one fabric; more than any switch joins are a torus, which has a ring along either axis.
double hops_of(int ranks) {
  constexpr int kLargestSwitch = 128;
  return ranks <= kLargestSwitch ? ranks - 1 : 2 * (std::sqrt(ranks) - 1);
}
}  // namespace

double Network::latency(CollectiveKind kind, double bytes, int inside, int nodes, const Constants& c) const {
  const double f = kind == CollectiveKind::AllReduce ? 1.0 : 0.5;
  double us = c[C::CollectiveLaunch] + f * 2 * hops_of(inside) * c[C::CollectiveStep] * (nvlink_ ? 1.0 : kPcieLatencyFactor);
  if (switched_ && bytes >= kProtocolSwitchBytes) us *= kProtocolSwitchCost;
  if (nodes > 1) {
    // Trees exist for all-reduce only; gather and scatter pass every node in turn.
    const double steps = kind == CollectiveKind::AllReduce ? 2 * std::log2(nodes) : nodes - 1;
    us += steps * c[C::CollectiveNodeStep] * (ethernet_ ? kEthernetLatencyFactor : 1.0);
  }
  return us * 1e-6;
}

double Network::seconds(CollectiveKind kind, double bytes, Group group, const Constants& c) const {
  const int n = group.ranks;
  if (n <= 1 || bytes <= 0) return 0;
  const int g = std::clamp(group.per_node > 0 ? group.per_node : devices_, 1, std::min(n, devices_));
  const int nodes = (n + g - 1) / g;
  if (kind == CollectiveKind::AllToAll) {
    // What stays in the node takes its links while the rest takes the cards.
    const double inside = bytes * (g - 1) / n / inside_rate(g, c), between = bytes * (n - g) / n / card_rate(c);
    return std::max(inside, between) + c[C::CollectiveLaunch] * 1e-6 * (1 + std::log2(n));
  }
  const double f = kind == CollectiveKind::AllReduce ? 1.0 : 0.5;
  const double pass = f * c[C::CollectiveMemoryPasses] * (switched_ ? 1.0 : kMeshMemoryShare) * bytes / memory_rate_;
  const double inside = g > 1 ? f * 2 * (g - 1) / g * bytes / inside_rate(g, c) : 0;
  const double wait = latency(kind, bytes, g, nodes, c);
  if (nodes == 1) return inside + pass + wait;
  const double share = trees_ ? (nodes - 1.0) / nodes : (n - 1.0) / n;
  const double between = f * 2 * share * bytes / (g * card_rate(c)) * (1 + c[C::Congestion] * std::log2(nodes));
  return std::max(inside, between) + std::min(inside, between) / 4 + pass + wait;
}

double Network::send(double bytes, bool between_nodes, const Constants& c) const {
  if (bytes <= 0) return 0;
  if (between_nodes) return bytes / card_rate(c) + c[C::CollectiveNodeStep] * 1e-6;
  const bool mesh = intra_.kind == platforms::IntraKind::NvlinkMesh;
  const double rate = inside_rate(devices_, c) * (mesh ? kMeshSendShare : 1.0);
  return bytes / rate + c[C::CollectiveStep] * 1e-6;
}

}  // namespace rehearsal::costmodel
