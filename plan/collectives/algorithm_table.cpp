#include <algorithm>
#include <bit>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/table.hpp"
#include "plan/collectives/algorithm_rows.hpp"

namespace rehearsal::plan {

void add_step(std::vector<CollectiveStep>& steps, CollectiveStep step) {
  if (step.send_count == 0) step.send_to = -1;
  if (step.receive_count == 0) step.receive_from = -1;
  if (step.send_to >= 0 || step.receive_from >= 0) steps.push_back(step);
}

CollectiveStep sending(int to, Range range) {
  CollectiveStep step;
  step.send_to = to;
  step.send_first = range.begin;
  step.send_count = range.count();
  return step;
}

CollectiveStep receiving(int from, Range range, bool reduce) {
  CollectiveStep step;
  step.receive_from = from;
  step.receive_first = range.begin;
  step.receive_count = range.count();
  step.reduce = reduce;
  return step;
}

CollectiveStep exchange(int to, Range sent, int from, Range received, bool reduce) {
  CollectiveStep step = receiving(from, received, reduce);
  step.send_to = to;
  step.send_first = sent.begin;
  step.send_count = sent.count();
  return step;
}

namespace {

/// Of a step in which every rank sends `distance` far around, over wires that messages share.
Seconds slowest_on_wires(int ranks, Bytes size, const MemberWays& members, int distance) {
  const auto way_of = [&](int rank) -> const MemberWays::Way& {
    return members.ways[static_cast<std::size_t>(rank * ranks + (rank + distance) % ranks)];
  };
  std::vector<int> messages(members.links);
  for (int rank = 0; rank < ranks; ++rank)
    for (const auto& share : way_of(rank).shares) ++messages[share.link];
  Seconds slowest;
  for (int rank = 0; rank < ranks; ++rank) {
    BytesPerSecond rate = CollectiveLinks::kUnlimited;
    for (const auto& share : way_of(rank).shares) rate = std::min(rate, share.bandwidth / messages[share.link]);
    slowest = std::max(slowest, way_of(rank).latency + size / rate);
  }
  return slowest;
}

/// Ranks that leave a node together are neighbours, and so on the same cards: of one message, with the others that have its card.
Seconds beside_on_card(const CollectiveLinks& links, Bytes size, int leaving, const std::optional<NetworkPath>& path) {
  const double of_a_card = std::max(1.0, links.ranks_per_node * (links.outer_bandwidth / links.node_outer));
  const auto own = links.outer_bandwidth / std::min<double>(leaving, of_a_card);
  return message_time(links, true, Bytes(0), 1, path) + size / own;
}

[[nodiscard]] bool on_wires(int ranks, const CollectiveLinks& links) {
  return links.wired && links.members.ways.size() == static_cast<std::size_t>(ranks) * static_cast<std::size_t>(ranks);
}

}  // namespace

Seconds slowest_message(int ranks, Bytes size, const CollectiveLinks& links, int distance) {
  if (one_node(ranks, links))
    return on_wires(ranks, links) && distance % ranks != 0 ? slowest_on_wires(ranks, size, links.members, distance)
                                                           : message_time(links, false, size, ranks);
  const int leaving = std::min(distance, links.ranks_per_node), staying = links.ranks_per_node - leaving;
  const auto path = path_of(links.around, distance);
  const Seconds outer = std::max(message_time(links, true, size, leaving, path), beside_on_card(links, size, leaving, path));
  return links.ranks_per_node == 1 ? outer : std::max(outer, message_time(links, false, size, std::max(staying, 1)));
}

Seconds all_distances(int ranks, Bytes size, const CollectiveLinks& links) {
  if (one_node(ranks, links) && !on_wires(ranks, links)) return static_cast<double>(ranks - 1) * slowest_message(ranks, size, links, 1);
  Seconds total;
  for (int distance = 1; distance < ranks; ++distance)  // the shorter way round
    total += slowest_message(ranks, size, links, std::min(distance, ranks - distance));
  return total;
}

Seconds message_time(const CollectiveLinks& links, bool outer, Bytes size, int senders, const std::optional<NetworkPath>& path) {
  const auto shared = (outer ? links.node_outer : links.node_inner) / senders;
  if (!outer) return links.inner_latency + size / std::min(links.inner_bandwidth, shared);
  if (!path) return links.outer_latency + size / std::min(links.outer_bandwidth, shared);
  return std::max(links.outer_latency, path->latency) + size / std::min({links.outer_bandwidth, shared, path->bandwidth});
}

std::optional<NetworkPath> path_of(const std::vector<NetworkPath>& by_distance, int distance) {
  if (by_distance.empty()) return std::nullopt;
  const auto power = static_cast<std::size_t>(std::bit_width(static_cast<unsigned>(std::max(distance, 1))) - 1);
  if (power + 1 >= by_distance.size()) return by_distance.back();
  const auto &nearer = by_distance[power], &farther = by_distance[power + 1];
  const double share = static_cast<double>(std::max(distance, 1)) / static_cast<double>(1U << power) - 1;
  const double of_byte = (1 - share) / nearer.bandwidth.value() + share / farther.bandwidth.value();
  return NetworkPath{(1 - share) * nearer.latency + share * farther.latency, BytesPerSecond(1 / of_byte)};
}

std::optional<NetworkPath> path_alone(const CollectiveLinks& links, int distance) {
  auto path = path_of(links.around, distance);
  if (path) path->bandwidth = CollectiveLinks::kUnlimited;
  return path;
}

std::span<const CollectiveRow> collective_table() {
  static const auto kTable = [] {
    auto rows = rows_of(kAlgorithms);
    add_one_sided_rows(rows);
    return rows;
  }();
  return kTable;
}

const CollectiveRow& collective(CollectiveKind kind, std::string_view name_of_row) {
  std::string known;
  for (const auto& row : collective_table()) {
    if (row.kind != kind) continue;
    if (row.name == name_of_row) return row;
    known += (known.empty() ? "" : ", ") + std::string(row.name);
  }
  throw BadInput(std::string(name(kind)),
                 "'" + std::string(name_of_row) + "' is not known; known algorithms: " + (known.empty() ? "none" : known));
}

const CollectiveRow& best_collective(CollectiveKind kind, int ranks, Bytes size, std::span<const CollectiveLinks> of_groups) {
  constexpr double kTold = 1 - 1e-9;  // of rows that rounding alone tells apart, the first
  const CollectiveRow* best = nullptr;
  Seconds least;
  for (const auto& row : collective_table()) {
    if (row.kind != kind || row.one_sided) continue;
    Seconds slowest;
    for (const auto& links : of_groups) slowest = std::max(slowest, row.closed_form(ranks, size, links));
    if (best != nullptr && slowest >= kTold * least) continue;
    best = &row;
    least = slowest;
  }
  if (best == nullptr) throw InternalError("no algorithm for this kind of collective: " + std::string(name(kind)));
  return *best;
}

}  // namespace rehearsal::plan
