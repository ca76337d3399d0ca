#pragma once
// Collective algorithms as tables of rows. A row gives the message steps of every rank, which sim/ replays and exec/ performs,
// and a closed form of its time; a test holds both together.
// Symbols: P ranks, S bytes (of the full vector), a = latency of a message, B = bandwidth, g = time to reduce a byte.

#include <cstdint>
#include <limits>
#include <span>
#include <string_view>
#include <vector>

#include "base/units.hpp"
#include "plan/program/program.hpp"

namespace rehearsal::plan {

/// What one rank sends and receives at the same time. A step begins when the rank's previous step has ended, and ends when both of its
/// messages have ended and what was received has been added. Ranges are elements of the vector. What is sent is the vector as it was
/// when the step began: the ranges of one step overlap only where `reduce` is set. Messages without elements do not appear; every
/// pair of ranks sees its messages in the same order. A step whose both ends are the own rank copies within its memory: no message, no
/// time. Ranges may reach behind the vector, into the scratch that CollectiveRow::memory tells of.
struct CollectiveStep {
  std::int32_t send_to = -1;  ///< rank within the group; -1: nothing is sent
  std::int64_t send_first = 0, send_count = 0;
  std::int32_t receive_from = -1;
  std::int64_t receive_first = 0, receive_count = 0;
  bool reduce = false;     ///< received elements are added to the own ones; otherwise they replace them
  bool with_next = false;  ///< begins and ends together with the step after it: several messages at a time. Additions keep their order
};

/// Name of the algorithm of all-to-all and halo conversions: sizes differ from pair to pair (collectives/exchange.hpp).
inline constexpr std::string_view kExchange = "pairwise-exchange";

/// The slowest of messages that all ranks send equally far at the same time, through what they share of the network between nodes.
struct NetworkPath {
  Seconds latency;
  BytesPerSecond bandwidth;
};

/// Links that messages between the members of a small group cross, numbered from 0: for algorithms whose ranks send to several at a time.
struct MemberWays {
  struct Share {
    std::uint32_t link = 0;
    BytesPerSecond bandwidth;  ///< of the link, to each of the messages that all groups along the axis send between these two places
  };
  struct Way {
    Seconds latency;
    std::vector<Share> shares;
  };
  std::size_t links = 0;
  std::vector<Way> ways;  ///< [from * ranks + to]
};
/// Members of a group of which the ways are known.
inline constexpr int kMostKnownMembers = 8;

/// Links as a collective sees them: ranks of one node share `inner` links, nodes are joined by `outer` ones.
struct CollectiveLinks {
  Seconds inner_latency, outer_latency;
  BytesPerSecond inner_bandwidth, outer_bandwidth;  ///< of one message
  BytesPerSecond reduction;                         ///< rate at which a rank adds received bytes; positive
  int ranks_per_node = 1;                           ///< of this group: neighbouring ranks fill one node after the other
  bool wired = false;  ///< members of a node are wired to some others alone, and messages to the rest share these wires
  /// Of all messages together that ranks of this group on one node send at a time, to each other and to other nodes.
  BytesPerSecond node_inner = kUnlimited, node_outer = kUnlimited;

  /// [k]: every rank sends to the one 2^k further around its group; ranks exchange with those whose number differs in bit k, or with their
  /// partner of step k of swing. Empty: messages share nothing of the network, and are as quick however far they go.
  std::vector<NetworkPath> around{}, across{}, swinging{};
  MemberWays members{};  ///< of at most kMostKnownMembers; else nothing is known

  static constexpr BytesPerSecond kUnlimited{std::numeric_limits<double>::infinity()};
};

struct CollectiveRow {
  std::string_view name;  ///< "ring"
  CollectiveKind kind;
  std::string_view description;  ///< with the source of the algorithm
  /// Steps of one rank for a vector of `count` elements. Any number of ranks >= 1, uneven blocks: rank r's block is block(count, ranks, r).
  /// AllReduce: all end with the sum. ReduceScatter: each ends with its block of the sum, the rest is scratch. AllGather: each begins
  /// with its block. Broadcast: rank 0 begins with the vector. Reduce: rank 0 ends with the sum, what the others hold is scratch.
  /// AllToAll: the first `count` elements are sent, rank r gets block(count, ranks, r) of them; what is received lies behind them by
  /// source.
  std::vector<CollectiveStep> (*steps)(int rank, int ranks, std::int64_t count, int ranks_per_node);
  /// Time with all ranks starting together and no other traffic. Exact where the blocks are of one size and ranks_per_node is 1, not
  /// less than `ranks`, or (recursive algorithms) a power of two that divides `ranks`; otherwise each step counts its slowest link. Where
  /// several ranks of a node send at a time they share what the node has, neighbours first their card.
  Seconds (*closed_form)(int ranks, Bytes size, const CollectiveLinks&);
  /// Elements that the steps of any rank may name: the vector, then what is received, then scratch. nullptr: the vector alone. Behind the
  /// vector of an AllGather blocks follow each other from the rank's own one on. Steps of AllGather and ReduceScatter begin and end at
  /// blocks: their positions stay right where blocks have other sizes.
  std::int64_t (*memory)(int rank, int ranks, std::int64_t count) = nullptr;
  /// False: the closed form is never less than the time of the steps, but pipelines may run ahead of it. Of packed trees it is within a few
  /// per cent of that time, to either side.
  bool exact = true;
  /// Ranks put parts into each other's memory and notify each other (exec/comm/one_sided.hpp). Taken where a plan names it: the closed
  /// form is that of messages, so it says nothing of which are quicker.
  bool one_sided = false;
};

[[nodiscard]] std::span<const CollectiveRow> collective_table();
/// Throws BadInput naming the algorithm and listing those of this kind.
[[nodiscard]] const CollectiveRow& collective(CollectiveKind, std::string_view name);
/// Of groups with other links that all take the same algorithm: the row with which the slowest of them is quickest, of those that send
/// messages; the first of those that take equally long.
[[nodiscard]] const CollectiveRow& best_collective(CollectiveKind, int ranks, Bytes size, std::span<const CollectiveLinks> of_groups);
/// Of one group.
[[nodiscard]] inline const CollectiveRow& best_collective(CollectiveKind kind, int ranks, Bytes size, const CollectiveLinks& links) {
  return best_collective(kind, ranks, size, std::span(&links, 1));
}

}  // namespace rehearsal::plan
