#pragma once
// Messages of replicas that meet in part: with a center that some of them hold (Plan::staleness), with their neighbours (gossip). Not rows
// of the table of collectives, since none of its kinds promises what they do.

#include <string>
#include <string_view>

#include "plan/collectives/exchange.hpp"
#include "plan/servers.hpp"

namespace rehearsal::plan {

/// ReduceScatter: every rank sends each server its block, which the server adds to its own. AllGather: the servers send all ranks their
/// blocks. Broadcast: each server takes its block of what all have; no message.
inline constexpr std::string_view kServers = "servers";
/// AllReduce: every rank sends its vector to both neighbours on a ring, and adds theirs to its own.
inline constexpr std::string_view kNeighbours = "neighbours";
/// AllGather, of "partners:D": ranks whose numbers differ by D in the bit that D is have what both have, that of the lower number first.
/// Each begins with its own in the first half of the vector. D is a power of two, and twice D divides the number of ranks.
inline constexpr std::string_view kPartners = "partners";
[[nodiscard]] std::string partners_at(int distance);

/// Neighbours that a rank of a ring has.
[[nodiscard]] constexpr int neighbours_on_ring(int ranks) { return ranks < 3 ? ranks - 1 : 2; }

/// What a rank that serves holds of the center beside its arena, where other ranks write: the most that any server of the role does.
[[nodiscard]] std::int64_t center_bytes(const Program&, const Role&);

/// What the ranks of a group have to know of a meeting besides how many they are.
struct MeetingTerms {
  Servers servers;   ///< among the positions of the group
  int distance = 0;  ///< of partners
};

struct MeetingRow {
  std::string_view name;
  bool has_distance;  ///< which stands behind a colon
  std::vector<CollectiveStep> (*steps)(CollectiveKind, const RowMember&, const MeetingTerms&);
  /// Without other traffic, all ranks starting together. Of servers exact on one level of links where all ranks serve, else each step
  /// counts in full; of neighbours where both messages share a rank's port.
  Seconds (*closed_form)(CollectiveKind, int ranks, Bytes, const CollectiveLinks&, const MeetingTerms&);
};
/// nullptr: the algorithm is none of these.
[[nodiscard]] const MeetingRow* meeting_row(std::string_view algorithm);
/// The plan's servers, and what stands behind the algorithm's colon: 0 where that is no number or there is no colon.
[[nodiscard]] MeetingTerms meeting_terms(std::string_view algorithm, const Plan&);

}  // namespace rehearsal::plan
