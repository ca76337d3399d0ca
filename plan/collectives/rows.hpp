#pragma once
// The rows of the collective table, one function each, and what their files share.

#include <bit>

#include "plan/block.hpp"
#include "plan/collectives/collective.hpp"

namespace rehearsal::plan {

[[nodiscard]] CollectiveRow ring_all_reduce();
[[nodiscard]] CollectiveRow ring_reduce_scatter();
[[nodiscard]] CollectiveRow ring_all_gather();
[[nodiscard]] CollectiveRow hierarchical_all_reduce();
[[nodiscard]] CollectiveRow recursive_doubling_all_reduce();
[[nodiscard]] CollectiveRow halving_doubling_all_reduce();
[[nodiscard]] CollectiveRow binomial_broadcast();

/// Ranks first, first + stride, ... of a collective's group, seen by the one at position `me`.
struct Ring {
  int first = 0, stride = 1, size = 1, me = 0;
};
/// Adds the steps after which each member holds its block of the sum of `range`.
void add_ring_reduce_scatter(std::vector<CollectiveStep>&, const Ring&, Range range);
/// Adds the steps after which all members hold all of `range`, of which each holds its block.
void add_ring_all_gather(std::vector<CollectiveStep>&, const Ring&, Range range);
[[nodiscard]] Seconds ring_reduce_scatter_time(int ranks, Bytes, const CollectiveLinks&);
[[nodiscard]] Seconds ring_all_gather_time(int ranks, Bytes, const CollectiveLinks&);

/// Part `index` of `range` dealt to `parts`.
[[nodiscard]] constexpr Range part(Range range, int parts, int index) {
  const Range inside = block(range.count(), parts, index);
  return {range.begin + inside.begin, range.begin + inside.end};
}

/// Adds a step, without the messages that have no elements.
void add_step(std::vector<CollectiveStep>&, CollectiveStep);

[[nodiscard]] inline bool one_node(int ranks, const CollectiveLinks& links) { return links.ranks_per_node >= ranks; }
[[nodiscard]] Seconds message_time(const CollectiveLinks&, bool outer, Bytes);

/// Largest power of two that is not above `ranks`.
[[nodiscard]] constexpr int power_below(int ranks) { return static_cast<int>(std::bit_floor(static_cast<unsigned>(ranks))); }

}  // namespace rehearsal::plan
