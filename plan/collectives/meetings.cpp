#include "plan/collectives/meetings.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "base/parse_number.hpp"
#include "plan/collectives/algorithm_rows.hpp"

namespace rehearsal::plan {
namespace {

/// In step s a rank deals with those s further on and s before, as in a pairwise exchange.
std::vector<CollectiveStep> server_steps(CollectiveKind kind, const RowMember& m, const MeetingTerms& terms) {
  std::vector<CollectiveStep> steps;
  if (kind == CollectiveKind::Broadcast) return steps;
  const auto block_of = [&](int rank) {
    const int server = terms.servers.server_at(rank, m.ranks);
    return server < 0 ? Range{} : block(m.count, terms.servers.count(m.ranks), server);
  };
  const bool adds = kind == CollectiveKind::ReduceScatter;
  for (int s = 1; s < m.ranks; ++s) {
    const int to = (m.rank + s) % m.ranks, from = (m.rank - s + m.ranks) % m.ranks;
    add_step(steps, exchange(to, block_of(adds ? to : m.rank), from, block_of(adds ? m.rank : from), adds));
  }
  return steps;
}

/// Of messages between ranks of all distances, one for each server at a time. A node has one for each of its servers; where these are few,
/// all of the nearest ranks behind them are of their nodes.
Seconds time_to_servers(int ranks, Bytes part, const CollectiveLinks& links, int servers) {
  if (one_node(ranks, links)) return static_cast<double>(ranks - 1) * message_time(links, false, part, servers);
  const int node = links.ranks_per_node, of_node = (servers * node + ranks - 1) / ranks, inside = node / of_node - 1;
  Seconds total = static_cast<double>(inside) * message_time(links, false, part, of_node);
  for (int s = 1; s < ranks - inside; ++s) {
    const int distance = std::min(s, ranks - s), leaving = std::min({distance, node, of_node});
    const Seconds outer = message_time(links, true, part, leaving, path_of(links.around, distance));
    total += leaving == of_node ? outer : std::max(outer, message_time(links, false, part, of_node - leaving));
  }
  return total;
}

/// The same for servers that are not spread evenly: in every step of those nodes that have some the slowest, with a message from another
/// node for each server whose partner of the step is there.
Seconds time_to_named(int ranks, Bytes part, const CollectiveLinks& links, const std::vector<int>& servers) {
  const int node = std::min(links.ranks_per_node, ranks);
  Seconds total{};
  for (int s = 1; s < ranks; ++s) {
    std::map<int, std::pair<int, int>> arriving;  // at a node: from others, from itself
    for (const int at : servers) {
      auto& [outer, inner] = arriving[at / node];
      ++((at - s + ranks) % ranks / node == at / node ? inner : outer);
    }
    Seconds slowest{};
    for (const auto& [_, messages] : arriving) {
      const auto [outer, inner] = messages;
      if (inner > 0) slowest = std::max(slowest, message_time(links, false, part, inner));
      if (outer > 0) slowest = std::max(slowest, message_time(links, true, part, outer, path_of(links.around, std::min(s, ranks - s))));
    }
    total += slowest;
  }
  return total;
}

/// Adding: (P-1)(a + S/(K B) + g S/K) with K servers; reading: (P-1)(a + S/(K B)).
Seconds server_time(CollectiveKind kind, int ranks, Bytes size, const CollectiveLinks& links, const MeetingTerms& terms) {
  if (kind == CollectiveKind::Broadcast) return {};
  const int servers = terms.servers.count(ranks);
  const Bytes part = size / static_cast<double>(servers);
  const auto& named = terms.servers.named();
  const Seconds moved = named.empty() ? time_to_servers(ranks, part, links, servers) : time_to_named(ranks, part, links, named);
  return kind == CollectiveKind::ReduceScatter ? moved + static_cast<double>(ranks - 1) * (part / links.reduction) : moved;
}

std::vector<CollectiveStep> neighbour_steps(CollectiveKind, const RowMember& m, const MeetingTerms&) {
  std::vector<CollectiveStep> steps;
  const Range all{0, m.count};
  const int next = (m.rank + 1) % m.ranks, before = (m.rank + m.ranks - 1) % m.ranks;
  if (m.ranks > 1) add_step(steps, exchange(next, all, before, all, true));
  if (m.ranks < 3 || steps.empty()) return steps;
  steps.back().with_next = true;
  add_step(steps, exchange(before, all, next, all, true));
  return steps;
}

/// a + 2 S/B + 2 g S; of two ranks a + S/B + g S.
Seconds neighbour_time(CollectiveKind, int ranks, Bytes size, const CollectiveLinks& links, const MeetingTerms&) {
  if (ranks < 2) return {};
  const Bytes both = size * static_cast<double>(neighbours_on_ring(ranks));
  return slowest_message(ranks, both, links) + both / links.reduction;
}

std::vector<CollectiveStep> partner_steps(CollectiveKind, const RowMember& m, const MeetingTerms& terms) {
  const int distance = terms.distance;
  std::vector<CollectiveStep> steps;
  const Range lower{0, m.count / 2}, higher{m.count / 2, m.count};
  const bool is_higher = m.rank / distance % 2 == 1;
  const int partner = is_higher ? m.rank - distance : m.rank + distance;
  if (is_higher) add_step(steps, copying(m.rank, lower, higher));
  add_step(steps, exchange(partner, is_higher ? higher : lower, partner, is_higher ? lower : higher, false));
  return steps;
}

/// a + S/(2 B)
Seconds partner_time(CollectiveKind, int ranks, Bytes size, const CollectiveLinks& links, const MeetingTerms& terms) {
  return pair_time(ranks, terms.distance, size / 2.0, links);
}

constexpr std::array kMeetingRows{MeetingRow{kServers, false, server_steps, server_time},
                                  MeetingRow{kNeighbours, false, neighbour_steps, neighbour_time},
                                  MeetingRow{kPartners, true, partner_steps, partner_time}};

}  // namespace

std::int64_t center_bytes(const Program& program, const Role& role) {
  const auto servers = program.plan.center_ranks();
  std::int64_t bytes = 0;
  for (const auto& body : role.bodies)
    for (const auto& i : body.instructions) {
      if (i.kind != InstructionKind::Collective) continue;
      const auto& info = role.collectives[static_cast<std::size_t>(i.collective)];
      if (info.algorithm != kServers || info.kind != CollectiveKind::Broadcast) continue;
      const auto& vector = role.buffers[i.outputs.front()];
      bytes += (graph::element_count(vector.shapes.front()) + servers - 1) / servers * static_cast<std::int64_t>(size_of(vector.dtype));
    }
  return bytes;
}

const MeetingRow* meeting_row(std::string_view algorithm) {
  const auto colon = algorithm.find(':');
  const auto row = std::ranges::find(kMeetingRows, algorithm.substr(0, colon), &MeetingRow::name);
  return row == kMeetingRows.end() || row->has_distance != (colon != std::string_view::npos) ? nullptr : row;
}

std::string partners_at(int distance) { return std::string(kPartners) + ":" + std::to_string(distance); }

MeetingTerms meeting_terms(std::string_view algorithm, const Plan& plan) {
  const auto colon = algorithm.find(':');
  return {plan.servers, colon == std::string_view::npos ? 0 : parse_number<int>(algorithm.substr(colon + 1)).value_or(0)};
}

}  // namespace rehearsal::plan
