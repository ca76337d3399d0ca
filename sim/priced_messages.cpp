#include "sim/priced_messages.hpp"

#include <algorithm>

#include "platforms/traffic.hpp"
#include "sim/messages.hpp"

namespace rehearsal::sim {
namespace {

using costmodel::CollectiveKind;

/// Bytes that every link of a group carries, between ranks of one node and between nodes.
struct CalledTraffic {
  double inside = 0, between = 0;
};

CalledTraffic traffic_of(const PricedCall& call, int per_node, int nodes) {
  const double g = per_node, n = static_cast<double>(per_node) * nodes, among = (nodes - 1.0) / nodes;
  switch (call.kind) {
    case CollectiveKind::AllReduce:
      return {2 * (g - 1) / g * call.bytes, 2 * among / g * call.bytes};
    case CollectiveKind::AllGather:
    case CollectiveKind::ReduceScatter:
      return {(g - 1) / g * call.bytes, among / g * call.bytes};
    case CollectiveKind::AllToAll:
      return {(g - 1) / n * call.bytes, (n - g) / n * call.bytes};
    case CollectiveKind::Shift:
      return {(n - 1) * call.bytes, (n - 1) * call.bytes};
    default:
      return {};
  }
}

}  // namespace

std::uint64_t PricedMessages::open() {
  if (unused_.empty()) {
    unused_.push_back(active_.size());
    active_.emplace_back();
  }
  const auto number = unused_.back();
  unused_.pop_back();
  active_[number] = {};
  return number;
}

void PricedMessages::add_route(GroupRoute& links, int from, int to, bool between) {
  for (const auto link : routes_.between(from, to).links) {
    if (std::find(links.route.links.begin(), links.route.links.end(), link) != links.route.links.end()) continue;
    links.route.links.push_back(link);
    links.between.push_back(between);
    const bool one_of_many = routes_.links()[link].role == platforms::LinkRole::Network;
    links.parts.push_back(one_of_many ? 1 / platforms::links_at_a_time(platform_, platforms::node_of(platform_, from)) : 1);
  }
}

const PricedMessages::GroupRoute& PricedMessages::links_of(std::size_t axis, const std::vector<int>& group) {
  const auto [at, fresh] = groups_.try_emplace({axis, group.front()});
  auto& links = at->second;
  if (!fresh) return links;
  std::vector<std::vector<int>> nodes;  // the group's ranks by node
  int last = -1;
  for (const int rank : group) {
    const int node = platforms::place(platform_, rank).node;
    if (node != last) nodes.emplace_back();
    last = node;
    nodes.back().push_back(rank);
  }
  links.nodes = static_cast<int>(nodes.size());
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    const auto& own = nodes[n];
    const auto& next = nodes[(n + 1) % nodes.size()];
    links.per_node = std::max(links.per_node, static_cast<int>(own.size()));
    for (std::size_t i = 0; i < own.size(); ++i) {
      if (own.size() > 1) add_route(links, own[i], own[(i + 1) % own.size()], false);
      if (nodes.size() > 1) add_route(links, own[i], next[std::min(i, next.size() - 1)], true);
    }
  }
  return links;
}

void PricedMessages::join(const PricedCall& call, const std::vector<int>& group, WaitingStream waiting) {
  const auto [at, fresh] = open_.try_emplace({call.axis, group.front(), call.run}, 0);
  if (fresh) {
    at->second = open();
    active_[at->second].call = call;
    active_[at->second].missing = group.size();
  }
  const auto number = at->second;
  auto& active = active_[number];
  active.waiting.push_back(waiting);
  active.call.seconds = std::max(active.call.seconds, call.seconds);  // the slowest of unlike devices
  if (--active.missing > 0) return;
  open_.erase(at);
  const auto& links = links_of(call.axis, group);
  const auto traffic = traffic_of(call, links.per_node, links.nodes);
  for (std::size_t l = 0; l < links.between.size(); ++l) {
    const double part = call.kind == CollectiveKind::Shift ? 1 : links.parts[l];  // a shift's message goes one way
    active.loads.push_back((links.between[l] ? traffic.between : traffic.inside) * part / active.call.seconds);
  }
  start(number, links.route);
}

void PricedMessages::send(int from, int to, double bytes, double seconds, WaitingStream waiting) {
  const auto number = open();
  auto& active = active_[number];
  active.call.seconds = seconds;
  active.waiting.push_back(waiting);
  const auto& route = routes_.between(from, to);
  active.loads.assign(route.links.size(), seconds > 0 ? bytes / seconds : 0);
  start(number, route);
}

/// No link may be too slow for what its library moves over it alone.
void PricedMessages::start(std::uint64_t number, const KnownRoute& route) {
  auto& active = active_[number];
  bool loaded = false;
  for (std::size_t i = 0; i < active.loads.size(); ++i) {
    active.loads[i] = std::min(active.loads[i], routes_.links()[route.links[i]].bandwidth.value());
    loaded = loaded || active.loads[i] > 0;
  }
  ++count_;
  const auto token = token_of(Occasion::PricedEnded, number);
  if (loaded && active.call.seconds > 0)
    network_.start({0, 0, &route, active.call.seconds, &active.loads}, token);
  else
    network_.alarm(network_.now() + active.call.seconds, token);
}

std::vector<WaitingStream> PricedMessages::ended(std::uint64_t number) {
  unused_.push_back(number);
  return std::move(active_[number].waiting);
}

}  // namespace rehearsal::sim
