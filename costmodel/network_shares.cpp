#include "costmodel/network_shares.hpp"

#include <algorithm>

#include "platforms/topology.hpp"
#include "platforms/traffic.hpp"

namespace rehearsal::costmodel {
namespace {

template <class Key, class Make>
double looked_up(std::map<Key, double>& known, const Key& key, const Make& make) {
  const auto at = known.find(key);
  return at != known.end() ? at->second : known.emplace(key, make()).first->second;
}

/// All distances round so many nodes, or as many of them as are looked at.
std::vector<int> distances_round(int nodes) {
  constexpr int kAll = 64, kSome = 31;
  const int all = nodes - 1, some = nodes <= kAll ? all : kSome;
  std::vector<int> distances;
  for (int i = 0; i < some; ++i) distances.push_back(1 + static_cast<int>(std::int64_t{i} * all / some));
  return distances;
}

}  // namespace

NetworkShares::NetworkShares(const platforms::Platform& platform, std::span<const std::size_t> kinds, double card_rate)
    : card_rate_(card_rate) {
  const auto& row = platforms::topology_row(platform.topology.kind);
  int first = 0;
  for (std::size_t kind = 0; kind < platform.nodes.size(); ++kind) {
    const auto& group = platform.nodes[kind];
    const bool looked_at = std::ranges::find(kinds, kind) != kinds.end();
    for (int n = 0; n < group.count; ++n, first += group.devices)
      if (looked_at) nodes_.push_back({first, group.devices});
  }
  if ((!row.has_links && !row.has_cables) || nodes_.size() < 2) return;
  fabric_.emplace(platform);
  crosses_switches_ = !row.cards_are_links;
  const auto links = [&](std::size_t kind) { return platforms::links_at_a_time(platform, platform.nodes[kind]); };
  links_at_a_time_ = links(std::ranges::min(kinds, {}, links));  // the ring is as quick as its slowest node
}

int NetworkShares::known(int nodes) const { return std::min(nodes, static_cast<int>(nodes_.size())); }

SpacedNodes NetworkShares::known(SpacedNodes nodes) const {
  const int count = known(nodes.count);
  return {count, std::clamp(nodes.apart, 1, std::max(1, static_cast<int>(nodes_.size()) / std::max(1, count)))};
}

double NetworkShares::left(const Pattern& pattern, std::span<const int> distances) const {
  return std::min(1.0, rate(pattern, distances) / card_rate_);
}

double NetworkShares::rate(const Pattern& pattern, std::span<const int> distances) const {
  const auto at = [&](int node) { return nodes_[static_cast<std::size_t>(node)]; };
  platforms::Traffic traffic(*fabric_);
  for (const int distance : distances)
    for (int node = pattern.first; node < pattern.end; ++node) {
      const auto from = at(node), to = at((node + distance) % pattern.nodes);
      for (int device = 0; device < std::min(from.count, to.count); ++device)
        traffic.send(from.first + device, to.first + device, 1.0 / static_cast<double>(distances.size()));
    }
  return traffic.slowest().bandwidth.value();
}

double NetworkShares::rate_round(SpacedNodes nodes) const {
  const int all = nodes.count * nodes.apart;
  return looked_up(rounds_, nodes, [&] { return rate({0, all, all}, std::vector{nodes.apart}); });
}

double NetworkShares::neighbours(SpacedNodes nodes) const {
  if (!fabric_ || known(nodes.count) < 2) return 1;
  return std::min(1.0, links_at_a_time_ * rate_round(known(nodes)) / card_rate_);
}

double NetworkShares::shifts(SpacedNodes nodes) const {
  if (!fabric_ || known(nodes.count) < 2) return 1;
  return std::min(1.0, rate_round(known(nodes)) / card_rate_);
}

double NetworkShares::pairs(SpacedNodes nodes) const {
  if (!fabric_ || known(nodes.count) < 2) return 1;
  const auto spaced = known(nodes);
  return looked_up(pairs_, spaced, [&] {
    auto distances = distances_round(spaced.count);
    for (auto& distance : distances) distance *= spaced.apart;
    const int all = spaced.count * spaced.apart;
    return left({0, all, all}, distances);
  });
}

Seconds NetworkShares::crossing(int nodes) const {
  if (!fabric_ || !crosses_switches_ || known(nodes) < 2) return Seconds(0);
  const auto path = [&] {
    return fabric_->path(nodes_.front().first, nodes_[static_cast<std::size_t>(known(nodes)) - 1].first).latency.value();
  };
  return Seconds(looked_up(crossings_, known(nodes), path));
}

double NetworkShares::sends(NodesSending nodes) const {
  const int all = known(std::max(2, nodes.all)), together = std::clamp(nodes.together, 1, all);
  if (!fabric_ || all < 2) return 1;
  return looked_up(sends_, std::pair{together, all}, [&] {
    double least = 1;
    for (int first = 0; first < all; first += together)
      least = std::min(least, left({first, std::min(first + together, all), all}, std::vector{together % all == 0 ? 1 : together}));
    return least;
  });
}

}  // namespace rehearsal::costmodel
