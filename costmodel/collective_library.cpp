#include "costmodel/collective_library.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <tuple>

#include "costmodel/accelerator.hpp"
#include "costmodel/wire_rings.hpp"

namespace rehearsal::costmodel {
namespace {

using C = Coefficient;

constexpr double kProtocolSwitchBytes = 8e6;  // NVSwitch: LL128 hands over to the simple protocol
constexpr double kProtocolSwitchCost = 1.5;   // of latency, above it
constexpr double kMeshMemoryShare = 0.65;     // rings on meshes pass memory less often than switched ones
constexpr double kSlowNetwork = 8e9;          // bytes/s of a node: Ethernet below, RDMA above
constexpr double kEthernetLatencyFactor = 3;
constexpr double kPcieLatencyFactor = 2;
constexpr double kUsualEthernetCard = 25;  // us, of catalogue machines whose steps the factor above is for
constexpr double kUsualSwitches = 2;       // us; three switches of a fat tree take less than half of it
constexpr double kMicro = 1e-6;
constexpr double kMeshSendShare = 0.3;  // of a device's wires that join two neighbours of a cube

/// Nodes before Ampere ran NCCL versions that used flat rings across nodes.
bool uses_trees(std::string_view generation) {
  return generation == "ampere" || generation == "ada" || is_hopper_or_newer(generation) || generation == "cdna3" || generation.empty();
}

}  // namespace

std::string_view name(CollectiveKind kind) {
  static constexpr std::array<std::string_view, kCollectiveKinds> kNames{"all-reduce", "all-gather", "reduce-scatter", "all-to-all",
                                                                         "broadcast",  "reduce",     "halo",           "shift"};
  return kNames[static_cast<std::size_t>(kind)];
}

namespace {

double card_share_of(const platforms::NodeGroup& node) {
  return node.nic.count * node.nic.bandwidth.value.value() / std::max(1, node.devices);
}

/// Whichever order kinds of nodes are written down in: a collective waits for those whose links are slowest.
const platforms::NodeGroup& slowest_links(const platforms::Platform& platform, std::span<const std::size_t> kinds) {
  return platform.nodes[*std::ranges::min_element(kinds, {}, [&](std::size_t kind) {
    const auto& node = platform.nodes[kind];
    return std::tuple(card_share_of(node), node.intra.bandwidth.value.value(), node.device.memory_bandwidth.value.value(), node.devices);
  })];
}

std::vector<std::size_t> all_kinds(const platforms::Platform& platform) {
  std::vector<std::size_t> kinds(platform.nodes.size());
  std::iota(kinds.begin(), kinds.end(), std::size_t{0});
  return kinds;
}

/// Where no ring closes, sums go up a chain of all ranks and come down again: every wire of it carries the vector once either way, which
/// is what 2(n-1)/n rings would move. (Five V100 of a DGX-1 measure 37 GB/s by nccl-tests' count: 1.6 wires of 25 GB/s, less protocol.)
double chain_of(int ranks) { return 2.0 * (ranks - 1) / ranks; }

}  // namespace

CollectiveLibrary::CollectiveLibrary(const platforms::Platform& platform) : CollectiveLibrary(platform, all_kinds(platform)) {}

CollectiveLibrary::CollectiveLibrary(const platforms::Platform& platform, std::span<const std::size_t> kinds)
    : card_share_(card_share_of(slowest_links(platform, kinds))), network_(platform, kinds, card_share_) {
  const auto& node = slowest_links(platform, kinds);
  intra_ = node.intra;
  devices_ = node.devices;
  memory_rate_ = node.device.memory_bandwidth.value.value();
  switched_ = intra_.kind == platforms::IntraKind::Nvswitch;
  nvlink_ = switched_ || intra_.kind == platforms::IntraKind::NvlinkMesh;
  trees_ = uses_trees(node.device.generation);
  ethernet_ = platform.topology.kind != "single" && node.nic.kind == platforms::NicKind::Ethernet && card_share_ * devices_ < kSlowNetwork;
  fabric_ = &collective_table().fabric(nvlink_ ? LinkFamily::Nvlink : LinkFamily::Pcie, node.device.generation);
  if (const auto dims = platform.topology.parameters.find("dims"); dims != platform.topology.parameters.end())
    torus_dims_ = static_cast<double>(dims->second.size());
  if (const auto adds = platform.topology.parameters.find("adds"); adds != platform.topology.parameters.end())
    adds_ = !adds->second.empty() && adds->second.front() > 0;
  card_latency_ = node.nic.latency.value.value() / kMicro;
  if (intra_.total_bandwidth) node_limit_ = intra_.total_bandwidth->value.value();
  const double port = intra_.bandwidth.value.value();
  for (int ranks = 1; ranks <= devices_; ++ranks) {
    const bool mesh = intra_.kind == platforms::IntraKind::NvlinkMesh && ranks > 1;
    const int rings = mesh ? ring_count(intra_, ranks) : 1;
    closes_.push_back(rings > 0);
    bus_.push_back(port * (rings > 0 ? rings : chain_of(ranks)));
  }
}

double CollectiveLibrary::bus_bandwidth(int ranks) const { return bus_[static_cast<std::size_t>(std::clamp(ranks, 1, devices_) - 1)]; }

double CollectiveLibrary::card_rate(const Constants& c) const {
  return std::max(1e7, card_share_) * c[ethernet_ ? C::LinkEthernet : C::LinkInfiniband];
}

double CollectiveLibrary::shift_rate(Group group, const Constants& c) const {
  return card_rate(c) * network_.shifts(shape_of(group).spaced());
}

double CollectiveLibrary::inside_rate(int ranks, const Constants& c) const {
  return within_node_limit(bus_bandwidth(ranks) * c[nvlink_ ? C::LinkNvlink : C::LinkPcie], ranks);
}

double CollectiveLibrary::within_node_limit(double rate, int ranks) const {
  return node_limit_ > 0 ? std::min(rate, node_limit_ / std::clamp(ranks, 1, devices_)) : rate;
}

CollectiveLibrary::Farther CollectiveLibrary::farther(int nodes) const {
  if (nodes < 2 || card_latency_ <= 0) return {};  // platforms of records may not say
  const double usual = ethernet_ ? kUsualEthernetCard : collective_table().cards.usual_latency;
  const double switches = std::max(0.0, network_.crossing(nodes).value() / kMicro - 2 * card_latency_ - kUsualSwitches);
  return {2 * std::max(0.0, card_latency_ - usual) + switches, switches};
}

namespace {
/// Hops of a ring round `ranks` devices of one fabric; more than any switch joins are a torus, which has a ring along either axis.
double hops_of(int ranks) {
  constexpr int kLargestSwitch = 128;
  return ranks <= kLargestSwitch ? ranks - 1 : 2 * (std::sqrt(ranks) - 1);
}
}  // namespace

double CollectiveLibrary::latency(CollectiveKind kind, double bytes, const GroupShape& s, bool adds, const Constants& c) const {
  const int nodes = s.nodes;
  const double f = kind == CollectiveKind::AllReduce ? 1.0 : 0.5;
  double us = c[C::CollectiveLaunch] + f * 2 * hops_of(s.inside) * c[C::CollectiveStep] * (nvlink_ ? 1.0 : kPcieLatencyFactor);
  if (switched_ && bytes >= kProtocolSwitchBytes) us *= kProtocolSwitchCost;
  if (nodes > 1) {
    // Trees exist for all-reduce only; gather and scatter pass every node in turn, on a torus along one dimension after the other.
    const double along = torus_dims_ > 0 ? torus_dims_ * (std::pow(nodes, 1.0 / torus_dims_) - 1) : nodes - 1;
    const double steps = adds ? 2 : kind == CollectiveKind::AllReduce ? 2 * std::log2(nodes) : along;
    us += steps * (c[C::CollectiveNodeStep] * (ethernet_ ? kEthernetLatencyFactor : 1.0) + farther(nodes).all);
  }
  return us * 1e-6;
}

double CollectiveLibrary::seconds(CollectiveKind kind, double bytes, Group group, const Constants& c) const {
  const int n = group.ranks;
  if (n <= 1 || bytes <= 0) return 0;
  // Experts' tokens travel by kernels of their own (DeepEP and its like), which the library's pairs do not stand for.
  if (by_table() && kind != CollectiveKind::AllToAll) return library(kind, bytes, group, c).seconds;
  const auto shape = shape_of(group);
  const int g = shape.inside, nodes = shape.nodes;
  if (kind == CollectiveKind::AllToAll) {
    // What stays in the node takes its links while the rest takes the cards.
    const double inside = bytes * (g - 1) / n / inside_rate(g, c),
                 between = bytes * (n - g) / n / (card_rate(c) * network_.pairs(shape.spaced()));
    return std::max(inside, between) + kMicro * (c[C::CollectiveLaunch] * (1 + std::log2(n)) + farther(nodes).all);
  }
  const double seconds = form_seconds(kind, bytes, shape, false, c);
  const bool may_add = adds_ && nodes > 1 && kind == CollectiveKind::AllReduce;
  return may_add ? std::min(seconds, form_seconds(kind, bytes, shape, true, c)) : seconds;
}

double CollectiveLibrary::form_seconds(CollectiveKind kind, double bytes, const GroupShape& s, bool adds, const Constants& c) const {
  const int n = s.ranks, g = s.inside, nodes = s.nodes;
  const double f = kind == CollectiveKind::AllReduce ? 1.0 : 0.5;
  const double pass = f * c[C::CollectiveMemoryPasses] * (switched_ ? 1.0 : kMeshMemoryShare) * bytes / memory_rate_;
  const double inside = g > 1 ? f * 2 * (g - 1) / g * bytes / inside_rate(g, c) : 0;
  const double wait = latency(kind, bytes, s, adds, c);
  if (nodes == 1) return inside + pass + wait;
  const double share = adds ? 0.5 : trees_ ? (nodes - 1.0) / nodes : (n - 1.0) / n;
  const double rate = card_rate(c) * network_.neighbours(s.spaced());
  const double between = f * 2 * share * bytes / (g * rate) * (1 + c[C::Congestion] * std::log2(nodes));
  return std::max(inside, between) + std::min(inside, between) / 4 + pass + wait;
}

CollectiveLibrary::GroupShape CollectiveLibrary::shape_of(Group group) const {
  const int inside = std::clamp(group.per_node > 0 ? group.per_node : devices_, 1, std::min(group.ranks, devices_));
  return {group.ranks, inside, (group.ranks + inside - 1) / inside, group.apart};
}

NotOffered CollectiveLibrary::missing_in_links(const ProtocolRow& row, CollectiveKind kind, const GroupShape& s) const {
  if (row.inside == Inside::Switch && !switched_) return NotOffered::NoSwitch;
  if (row.inside == Inside::Switch && fabric_->nvls == 0) return NotOffered::SwitchAddsNot;
  if (row.between == Between::Switch && !adds_) return NotOffered::NetworkAddsNot;
  const bool closes = closes_[static_cast<std::size_t>(s.inside) - 1];
  const bool ring = row.inside == Inside::Ring && row.between == Between::Ring && kind == CollectiveKind::AllReduce;
  if (ring && !closes) return NotOffered::OpenRing;
  if (row.where == Reach::Node && s.nodes > 1) return NotOffered::SeveralNodes;
  // A tree is a chain in one node whose wires close no ring.
  if (row.where == Reach::Nodes && s.nodes == 1 && (closes || row.between != Between::Tree)) return NotOffered::OneNode;
  return row.where == Reach::LoneRanks && s.inside > 1 ? NotOffered::SharedNode : NotOffered::No;
}

NotOffered CollectiveLibrary::why_not(const ProtocolRow& row, CollectiveKind kind, const GroupShape& s, LibraryRelease release) const {
  if (row.links != fabric_->links) return NotOffered::Links;
  if (!row.kinds[static_cast<std::size_t>(kind)]) return NotOffered::Kind;
  if (const auto missing = missing_in_links(row, kind, s); missing != NotOffered::No) return missing;
  if (s.inside < row.least_ranks) return NotOffered::FewRanks;
  return row.since > release ? NotOffered::Release : NotOffered::No;
}

/// How much longer a vector takes that does not fill the links: `ramp` at most, half of it for what they carry in `ramp_us`.
double filling(double ramp, double ramp_us, double rate, double bytes) {
  const double filled = ramp_us * kMicro * rate;
  return 1 + ramp * filled / (bytes + filled);
}

/// Seconds in which the vector passes the busiest port inside a node.
double CollectiveLibrary::inside_seconds(const ProtocolRow& row, CollectiveKind kind, double bytes, const GroupShape& s) const {
  if (s.inside == 1) return 0;
  const double g = s.inside, turn = intra_.kind == platforms::IntraKind::NvlinkMesh ? 0 : fabric_->turn;
  double rate = bus_bandwidth(s.inside) * fabric_->nvls, bytes_passing = (g + 1) / g * bytes;
  if (row.inside != Inside::Switch) {
    rate = bus_bandwidth(s.inside) * row.share * fabric_->share * (s.inside > 2 ? fabric_->beyond_pair : 1);
    const double round = passes_whole(kind) ? 1 : (rounds(kind) * (g - 1) + turn) / g;
    bytes_passing = (row.inside == Inside::Ring ? round : (g - 1) / s.ranks) * bytes;
  }
  rate = within_node_limit(rate, s.inside);
  return bytes_passing / rate * filling(row.ramp, row.ramp_time, rate, bytes);
}

/// Seconds in which a node's share of the vector passes its cards.
double CollectiveLibrary::card_seconds(const ProtocolRow& row, CollectiveKind kind, double bytes, const GroupShape& s,
                                       const Constants& c) const {
  if (s.nodes == 1) return 0;
  const auto& cards = collective_table().cards;
  const double n = s.ranks, nodes = s.nodes;
  const double left = row.inside == Inside::Pairs ? network_.pairs(s.spaced()) : network_.neighbours(s.spaced());
  const double rate = std::max(1e7, card_share_) * row.card_share * (ethernet_ ? c[C::LinkEthernet] : cards.share) * left;
  const double ramp = filling(cards.ramp, cards.ramp_time, s.inside * rate, bytes);
  if (row.inside == Inside::Pairs) return (n - s.inside) / n * bytes / rate * ramp;
  const double share = passes_whole(kind)               ? 1
                       : row.between == Between::Switch ? 1 / rounds(kind)
                       : row.between == Between::Tree   ? (nodes - 1) / nodes
                                                        : (n - 1) / n;
  return rounds(kind) * share * bytes / (s.inside * rate) * ramp * (1 + c[C::Congestion] * std::log2(nodes));
}

double CollectiveLibrary::seconds_of(const ProtocolRow& row, CollectiveKind kind, double bytes, const GroupShape& s,
                                     const Constants& c) const {
  const auto& cards = collective_table().cards;
  const double f = rounds(kind), each = bytes / s.ranks;
  double us = fabric_->start + row.start + row.knee * each / (each + row.knee_bytes);
  // A ring enters every node and leaves it again, a tree goes through all of them at the same time.
  const double crossed = row.between == Between::Ring ? s.nodes : 1;
  us += fabric_->hop * row.hop * (row.inside == Inside::Ring ? f * crossed * hops_of(s.inside) : s.ranks - 1);
  if (s.nodes > 1) {
    const double steps = row.between == Between::Switch ? 2 : row.between == Between::Tree ? f * std::log2(s.nodes) : f * (s.nodes - 1);
    const double cards_wait = card_latency_ > 0 ? card_latency_ / cards.usual_latency : 1;  // platforms of records may not say
    const auto farther = this->farther(s.nodes);
    // Messages of pairs are under way at the same time, and their start is measured over the usual way.
    us += row.inside == Inside::Pairs
              ? farther.all
              : steps * (row.node_step * cards_wait * (ethernet_ ? kEthernetLatencyFactor : 1.0) + farther.of_switches);
  }
  const double inside = inside_seconds(row, kind, bytes, s), between = card_seconds(row, kind, bytes, s, c);
  return us * kMicro + std::max(inside, between) + cards.rest * std::min(inside, between);
}

std::vector<LibraryOffer> CollectiveLibrary::offers(CollectiveKind kind, double bytes, Group group, const Constants& c,
                                                    LibraryRelease release) const {
  std::vector<LibraryOffer> offers;
  const auto shape = shape_of(group);
  const auto& rows = collective_table().rows;
  const auto of_these_links = [&](const ProtocolRow& other) {
    return std::ranges::any_of(rows, [&](const ProtocolRow& row) {
      return row.links == fabric_->links && row.algorithm == other.algorithm && row.protocol == other.protocol;
    });
  };
  for (const auto& row : rows) {
    const auto reason = why_not(row, kind, shape, release);
    if (reason == NotOffered::Links && of_these_links(row)) continue;
    offers.push_back({&row, reason, reason == NotOffered::No ? seconds_of(row, kind, bytes, shape, c) : 0});
  }
  return offers;
}

LibraryTime CollectiveLibrary::library(CollectiveKind kind, double bytes, Group group, const Constants& c, LibraryRelease release) const {
  if (group.ranks <= 1 || bytes <= 0) return {};
  const auto shape = shape_of(group);
  LibraryTime best{std::numeric_limits<double>::infinity(), {}, {}};
  for (const auto& row : collective_table().rows) {
    if (why_not(row, kind, shape, release) != NotOffered::No) continue;
    const double seconds = seconds_of(row, kind, bytes, shape, c);
    if (seconds < best.seconds) best = {seconds, row.algorithm, row.protocol};
  }
  return best;
}

double CollectiveLibrary::send(double bytes, bool between_nodes, const Constants& c, NodesSending nodes) const {
  if (bytes <= 0) return 0;
  if (between_nodes)
    return bytes / (card_rate(c) * network_.sends(nodes)) + kMicro * (c[C::CollectiveNodeStep] + farther(std::max(2, nodes.all)).all);
  const bool mesh = intra_.kind == platforms::IntraKind::NvlinkMesh;
  const double rate = inside_rate(devices_, c) * (mesh ? kMeshSendShare : 1.0);
  return bytes / rate + c[C::CollectiveStep] * 1e-6;
}

}  // namespace rehearsal::costmodel
