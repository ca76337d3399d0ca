#pragma once
// The rows of the collective table, one function each, and what their files share.

#include <bit>
#include <optional>

#include "plan/block.hpp"
#include "plan/collectives/collective.hpp"

namespace rehearsal::plan {

using AlgorithmOfRow = CollectiveRow();
AlgorithmOfRow ring_all_reduce, recursive_doubling_all_reduce, halving_doubling_all_reduce, hierarchical_all_reduce, blueconnect_all_reduce,
    swing_all_reduce, binomial_tree_all_reduce, double_tree_all_reduce, packed_trees_all_reduce, ring_reduce_scatter,
    recursive_halving_reduce_scatter, pairwise_reduce_scatter, hierarchical_reduce_scatter, ring_all_gather, recursive_doubling_all_gather,
    bruck_all_gather, hierarchical_all_gather, binomial_broadcast, scatter_all_gather_broadcast, binomial_reduce, rabenseifner_reduce,
    pairwise_all_to_all, bruck_all_to_all;

/// In the order of collective_table(), without those of add_one_sided_rows().
inline constexpr AlgorithmOfRow* kAlgorithms[] = {ring_all_reduce,
                                                  recursive_doubling_all_reduce,
                                                  halving_doubling_all_reduce,
                                                  hierarchical_all_reduce,
                                                  blueconnect_all_reduce,
                                                  swing_all_reduce,
                                                  binomial_tree_all_reduce,
                                                  double_tree_all_reduce,
                                                  packed_trees_all_reduce,
                                                  ring_reduce_scatter,
                                                  recursive_halving_reduce_scatter,
                                                  pairwise_reduce_scatter,
                                                  hierarchical_reduce_scatter,
                                                  ring_all_gather,
                                                  recursive_doubling_all_gather,
                                                  bruck_all_gather,
                                                  hierarchical_all_gather,
                                                  binomial_broadcast,
                                                  scatter_all_gather_broadcast,
                                                  binomial_reduce,
                                                  rabenseifner_reduce,
                                                  pairwise_all_to_all,
                                                  bruck_all_to_all};

/// Adds rows by puts, each behind the rows of its kind.
void add_one_sided_rows(std::vector<CollectiveRow>&);

/// Ranks first, first + stride, ... of a collective's group, seen by the one at position `me`.
struct Ring {
  int first = 0, stride = 1, size = 1, me = 0;
};
/// Adds the steps after which each member holds its block of the sum of `range`.
void add_ring_reduce_scatter(std::vector<CollectiveStep>&, const Ring&, Range range);
/// Adds the steps after which all members hold all of `range`, of which each holds its block.
void add_ring_all_gather(std::vector<CollectiveStep>&, const Ring&, Range range);
/// Rings of `size` ranks that are `stride` apart; the strides of levels are the products of the sizes before.
struct RingLevel {
  int size, stride;
};
/// Nodes of equal size, more than one and of more than one rank, are what makes a level.
[[nodiscard]] constexpr bool nodes_are_level(int ranks, int per_node) { return per_node > 1 && per_node < ranks && ranks % per_node == 0; }
/// The steps of an all-reduce on levels: each adds what the one before has left, and on the way back they gather.
[[nodiscard]] std::vector<CollectiveStep> all_reduce_on(std::span<const RingLevel>, int rank, std::int64_t count);
[[nodiscard]] Seconds ring_reduce_scatter_time(int ranks, Bytes, const CollectiveLinks&);
[[nodiscard]] Seconds ring_all_gather_time(int ranks, Bytes, const CollectiveLinks&);

/// Part `index` of `range` dealt to `parts`.
[[nodiscard]] constexpr Range part(Range range, int parts, int index) {
  const Range inside = block(range.count(), parts, index);
  return {range.begin + inside.begin, range.begin + inside.end};
}

/// Largest power of two that is not above `ranks`.
[[nodiscard]] constexpr int power_below(int ranks) { return static_cast<int>(std::bit_floor(static_cast<unsigned>(ranks))); }

/// What recursive algorithms do with ranks above a power of two: of the first 2e ranks, e being the excess, one of each pair stays out
/// (Thakur, Rabenseifner, Gropp, IJHPCA 2005, section 4.5).
struct Fold {
  int power, excess;
  bool odd_stays_out;
  explicit Fold(int ranks, bool odd = false) : power(power_below(ranks)), excess(ranks - power), odd_stays_out(odd) {}
  [[nodiscard]] bool folded(int rank) const { return rank < 2 * excess; }
  [[nodiscard]] bool stays_out(int rank) const { return folded(rank) && (rank % 2 == 1) == odd_stays_out; }
  [[nodiscard]] int partner(int rank) const { return rank ^ 1; }
  [[nodiscard]] int position(int rank) const { return folded(rank) ? rank / 2 : rank - excess; }
  [[nodiscard]] int rank_at(int position) const { return position < excess ? 2 * position + (odd_stays_out ? 0 : 1) : position + excess; }
  /// First rank of those that a position stands for; of `power`: the number of ranks.
  [[nodiscard]] int first_rank(int position) const { return position < excess ? 2 * position : position + excess; }
};
/// Of a power of two of positions of a Fold, of which one is this.
struct PositionsAround {
  int position, distance;
};
/// The blocks of a vector that the ranks of these positions have.
[[nodiscard]] Range blocks_around(const Fold&, int ranks, std::int64_t count, PositionsAround);
/// Adds the steps of one position of an all-reduce of `all` between the positions of a Fold.
using BetweenPositions = void (*)(std::vector<CollectiveStep>&, const Fold&, int position, Range all);
/// Of an all-reduce in which ranks that stay out hand over their vectors first and get the sum back last.
[[nodiscard]] std::vector<CollectiveStep> folded_around(BetweenPositions, int rank, int ranks, std::int64_t count);
/// Handing over, adding and getting back whole vectors; nothing without excess ranks.
[[nodiscard]] Seconds fold_time(int ranks, Bytes, const CollectiveLinks&);
/// Messages at `distance` between all positions of a Fold, at a time.
[[nodiscard]] Seconds pair_time(int ranks, int distance, Bytes, const CollectiveLinks&);
/// Whether some of the pairs that a Fold puts together has a node's end in its middle.
[[nodiscard]] bool fold_crosses(int ranks, const CollectiveLinks&);

[[nodiscard]] CollectiveStep sending(int to, Range);
[[nodiscard]] CollectiveStep receiving(int from, Range, bool reduce);
[[nodiscard]] CollectiveStep exchange(int to, Range sent, int from, Range received, bool reduce);
/// A copy within the memory of `rank`.
[[nodiscard]] inline CollectiveStep copying(int rank, Range from, Range to) { return exchange(rank, from, rank, to, false); }

/// Adds a step, without the messages that have no elements.
void add_step(std::vector<CollectiveStep>&, CollectiveStep);

[[nodiscard]] inline bool one_node(int ranks, const CollectiveLinks& links) { return links.ranks_per_node >= ranks; }
/// The slowest message of a step in which every rank sends `distance` far around: every rank waits for the one before it, so it sets the
/// pace.
[[nodiscard]] Seconds slowest_message(int ranks, Bytes, const CollectiveLinks&, int distance = 1);
/// Of steps in which every rank sends 1, 2, ... ranks - 1 far around.
[[nodiscard]] Seconds all_distances(int ranks, Bytes, const CollectiveLinks&);
/// Of one of the messages that `senders` ranks of a node send at a time; to other nodes on `path`, where there is one.
[[nodiscard]] Seconds message_time(const CollectiveLinks&, bool outer, Bytes, int senders = 1, const std::optional<NetworkPath>& path = {});
/// What is known of messages of such a length, in a straight line between powers of two; nothing where nothing is shared.
[[nodiscard]] std::optional<NetworkPath> path_of(const std::vector<NetworkPath>& by_distance, int distance);
/// Of a message that shares no link with others which go as far.
[[nodiscard]] std::optional<NetworkPath> path_alone(const CollectiveLinks&, int distance);

}  // namespace rehearsal::plan
