#include "predict/group_links.hpp"

#include <algorithm>
#include <numeric>
#include <set>

#include "plan/collectives/swing.hpp"
#include "platforms/traffic.hpp"

namespace rehearsal::predict {
namespace {

/// What the groups on a rank's node have of the node's cards and of its bus, all of them sending at the same time.
void share_node(const plan::Program& program, const platforms::Platform& platform, int rank, plan::CollectiveLinks& links) {
  const auto& node = platforms::node_of(platform, rank);
  const int first = rank - platforms::place(platform, rank).local;
  const double groups = static_cast<double>(std::min(node.devices, program.ranks - first)) / links.ranks_per_node;
  if (node.nic.count > 0) links.node_outer = *node.nic.bandwidth * (node.nic.count / groups);
  if (node.intra.total_bandwidth)
    links.node_inner = node.intra.total_bandwidth->value / groups;
  else if (node.intra.kind == platforms::IntraKind::SharedMemory)
    links.node_inner = *node.intra.bandwidth / groups;
}

/// A collective ends when its last rank does: where nodes differ all wait for those with the slower links.
void slow_down(plan::CollectiveLinks& links, const plan::CollectiveLinks& others) {
  links.inner_latency = std::max(links.inner_latency, others.inner_latency);
  links.outer_latency = std::max(links.outer_latency, others.outer_latency);
  links.inner_bandwidth = std::min(links.inner_bandwidth, others.inner_bandwidth);
  links.outer_bandwidth = std::min(links.outer_bandwidth, others.outer_bandwidth);
  links.node_inner = std::min(links.node_inner, others.node_inner);
  links.node_outer = std::min(links.node_outer, others.node_outer);
}

/// Every rank sends to the member of its group at another coordinate, `to(coordinate)`; beyond the group's size, or below 0, to nobody.
template <class To>
plan::NetworkPath path_of(const plan::Program& program, const platforms::Fabric& fabric, std::size_t axis, const To& to) {
  platforms::Traffic traffic(fabric);
  const auto& mesh = program.axes[axis];
  for (int rank = 0; rank < program.ranks; ++rank) {
    const int own = plan::coordinate(program, rank, axis), other = to(own);
    if (other >= 0 && other < mesh.size) traffic.send(rank, rank + (other - own) * mesh.stride);
  }
  const auto slowest = traffic.slowest();
  return {slowest.latency, slowest.bandwidth};
}

bool crosses_network(const plan::Program& program, const platforms::Fabric& fabric) {
  const auto route = fabric.route(0, program.ranks - 1);
  return std::ranges::any_of(route.links, [&](auto link) { return fabric.link(link).role == platforms::LinkRole::Network; });
}

}  // namespace

GroupLinks::GroupLinks(const plan::Program& program, const platforms::Platform& platform, const platforms::Fabric& fabric,
                       const costmodel::CostModel& model)
    : program_(program), platform_(platform), fabric_(fabric), model_(model) {}

GroupLinks::Crossings GroupLinks::crossings_of(std::size_t axis, std::span<const int> ranks) const {
  const auto size = static_cast<std::size_t>(program_.axes[axis].size);
  const std::set<int> among(ranks.begin(), ranks.end());
  Crossings crossings;
  platforms::Route route;
  for (const int from : ranks)
    for (const int to : plan::group(program_, from, axis)) {
      if (to == from || !among.contains(to)) continue;
      fabric_.route(from, to, route);
      const auto places = static_cast<std::size_t>(plan::coordinate(program_, from, axis)) * size +
                          static_cast<std::size_t>(plan::coordinate(program_, to, axis));
      for (const auto link : route.links) {
        auto& messages = crossings[link];
        messages.resize(size * size);
        ++messages[places];
      }
    }
  return crossings;
}

/// Of the ranks on the nodes of a group: where nodes share no network nobody else crosses its links.
GroupLinks::Crossings GroupLinks::crossings_near(GroupMember member) const {
  std::set<int> near;
  for (const int rank : plan::group(program_, member.rank, member.axis)) {
    const int first = rank - platforms::place(platform_, rank).local;
    for (int other = first; other < std::min(first + platforms::node_of(platform_, rank).devices, program_.ranks); ++other)
      near.insert(other);
  }
  return crossings_of(member.axis, std::vector(near.begin(), near.end()));
}

plan::MemberWays GroupLinks::ways(GroupMember member) {
  const auto members = plan::group(program_, member.rank, member.axis);
  const bool shared = crosses_network(program_, fabric_);
  if (shared && !crossings_.contains(member.axis)) {
    std::vector<int> all(static_cast<std::size_t>(program_.ranks));
    std::iota(all.begin(), all.end(), 0);
    crossings_.emplace(member.axis, crossings_of(member.axis, all));
  }
  const auto near = shared ? Crossings{} : crossings_near(member);
  const auto& crossings = shared ? crossings_.at(member.axis) : near;
  plan::MemberWays known;
  std::vector<std::uint32_t> links;
  for (const int from : members)
    for (const int to : members) {
      const auto route = fabric_.route(from, to);
      known.ways.push_back({route.latency, {}});
      links.insert(links.end(), route.links.begin(), route.links.end());
    }
  std::ranges::sort(links);
  links.erase(std::unique(links.begin(), links.end()), links.end());
  for (const auto link : links) {
    const auto& messages = crossings.at(link);
    for (std::size_t way = 0; way < messages.size(); ++way)
      if (messages[way] > 0)
        known.ways[way].shares.push_back({static_cast<std::uint32_t>(known.links), fabric_.link(link).bandwidth / messages[way]});
    ++known.links;
  }
  return known;
}

/// Of the group's ranks on other kinds of nodes the first of each.
std::vector<int> GroupLinks::one_of_each_kind(GroupMember member) const {
  std::vector<int> ranks;
  if (platform_.nodes.size() == 1) return ranks;
  std::set<const platforms::NodeGroup*> known{&platforms::node_of(platform_, member.rank)};
  for (const int rank : plan::group(program_, member.rank, member.axis))
    if (known.insert(&platforms::node_of(platform_, rank)).second) ranks.push_back(rank);
  return ranks;
}

const plan::CollectiveLinks& GroupLinks::of(GroupMember member) {
  const std::pair key{member.axis, member.rank};
  if (const auto known = known_.find(key); known != known_.end()) return known->second;
  auto links = measured(member);
  for (const int other : one_of_each_kind(member)) slow_down(links, measured({member.axis, other}));
  if (program_.axes[member.axis].size <= plan::kMostKnownMembers) links.members = ways(member);
  links.wired = platforms::node_of(platform_, member.rank).intra.kind == platforms::IntraKind::NvlinkMesh;
  if (links.ranks_per_node < program_.axes[member.axis].size) {
    const auto& far = distances(member.axis);
    links.around = far.around;
    links.across = far.across;
    links.swinging = far.swinging;
  }
  return known_.emplace(key, std::move(links)).first->second;
}

const GroupLinks::Distances& GroupLinks::distances(std::size_t axis) {
  if (const auto known = distances_.find(axis); known != distances_.end()) return known->second;
  Distances result;
  const int size = program_.axes[axis].size;
  if (crosses_network(program_, fabric_))
    for (int distance = 1, step = 0; distance < size; distance *= 2, ++step) {
      result.around.push_back(path_of(program_, fabric_, axis, [&](int own) { return (own + distance) % size; }));
      result.across.push_back(path_of(program_, fabric_, axis, [&](int own) { return own ^ distance; }));
      if (2 * distance <= size)
        result.swinging.push_back(path_of(program_, fabric_, axis, [&](int own) { return plan::partner_in_swing(own, step, size); }));
    }
  return distances_.emplace(axis, std::move(result)).first->second;
}

plan::CollectiveLinks GroupLinks::measured(GroupMember member) const {
  const int rank = member.rank;
  const auto members = plan::group(program_, rank, member.axis);
  const int home = platforms::place(platform_, rank).node;
  int inside = 0, neighbour = -1, stranger = -1;
  for (const int r : members) {
    const bool near = platforms::place(platform_, r).node == home;
    inside += near ? 1 : 0;
    if (r == rank) continue;
    if (near && neighbour < 0) neighbour = r;
    if (!near && stranger < 0) stranger = r;
  }
  plan::CollectiveLinks links;
  links.ranks_per_node = inside;
  links.reduction = model_.reduction_rate();
  const auto measure = [&](int other, Seconds& latency, BytesPerSecond& bandwidth) {
    const auto path = fabric_.path(rank, other);
    latency = path.latency;
    bandwidth = path.bandwidth;
  };
  if (neighbour >= 0) measure(neighbour, links.inner_latency, links.inner_bandwidth);
  if (stranger >= 0) measure(stranger, links.outer_latency, links.outer_bandwidth);
  if (neighbour < 0) links.inner_latency = links.outer_latency, links.inner_bandwidth = links.outer_bandwidth;
  if (stranger < 0) links.outer_latency = links.inner_latency, links.outer_bandwidth = links.inner_bandwidth;
  share_node(program_, platform_, rank, links);
  return links;
}

const MessageTraffic::LinkCounts& MessageTraffic::of_stage(int stage, const plan::MessageInfo& message) {
  const auto [at, fresh] = stages_.try_emplace({stage, message.stage_offset});
  if (!fresh) return at->second;
  for (int rank = 0; rank < program_.ranks; ++rank) {
    if (program_.role(rank).stage != stage) continue;
    fabric_.route(rank, plan::peer(program_, rank, message), route_);
    for (const auto link : route_.links) ++at->second[link];
  }
  return at->second;
}

const std::vector<int>& MessageTraffic::crossing(int rank, const plan::MessageInfo& message) {
  const auto [at, fresh] = crossing_.try_emplace({rank, message.stage_offset});
  if (!fresh) return at->second;
  const auto& all = of_stage(program_.role(rank).stage, message);
  fabric_.route(rank, plan::peer(program_, rank, message), route_);
  for (const auto link : route_.links) at->second.push_back(all.at(link));
  return at->second;
}

platforms::Path MessageTraffic::path(int rank, const plan::MessageInfo& message) {
  const int other = plan::peer(program_, rank, message);
  auto path = fabric_.path(rank, other);
  const auto& counts = crossing(rank, message);
  fabric_.route(rank, other, route_);
  for (std::size_t l = 0; l < counts.size(); ++l)
    path.bandwidth = std::min(path.bandwidth, fabric_.link(route_.links[l]).bandwidth / counts[l]);
  return path;
}

}  // namespace rehearsal::predict
