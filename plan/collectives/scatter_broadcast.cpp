#include <algorithm>

#include "plan/collectives/algorithm_rows.hpp"

namespace rehearsal::plan {
namespace {

/// Blocks of the ranks [first, last).
Range blocks_of(int ranks, std::int64_t count, int first, int last) {
  return {block(count, ranks, first).begin, block(count, ranks, last - 1).end};
}

std::vector<CollectiveStep> broadcast_steps_of_scatter_broadcast(int rank, int ranks, std::int64_t count, int) {
  std::vector<CollectiveStep> steps;
  const int lowest = rank == 0 ? static_cast<int>(std::bit_ceil(static_cast<unsigned>(ranks))) : rank & -rank;
  if (rank != 0) add_step(steps, receiving(rank - lowest, blocks_of(ranks, count, rank, std::min(rank + lowest, ranks)), false));
  for (int distance = lowest / 2; distance > 0; distance /= 2) {
    const int to = rank + distance;
    if (to < ranks) add_step(steps, sending(to, blocks_of(ranks, count, to, std::min(to + distance, ranks))));
  }
  add_ring_all_gather(steps, {0, 1, ranks, rank}, {0, count});
  return steps;
}

/// (ceil(log2 P) + P-1) a + 2 (P-1)/P S/B: rank 0 sends away every block but its own, half of them first; the last ones to get theirs begin
/// the ring then, and everybody waits for them in it.
Seconds broadcast_time_of_scatter_broadcast(int ranks, Bytes size, const CollectiveLinks& links) {
  const Bytes piece = size / static_cast<double>(ranks);
  Seconds total = ring_all_gather_time(ranks, size, links);
  const int per_node = links.ranks_per_node;
  for (auto distance = static_cast<int>(std::bit_ceil(static_cast<unsigned>(ranks))) / 2; distance > 0; distance /= 2) {
    const int blocks = std::min(2 * distance, ranks) - distance;
    bool outer = per_node == 1;
    for (int from = 0; per_node < ranks && from + distance < ranks; from += 2 * distance)
      outer = outer || from / per_node != (from + distance) / per_node;
    total += message_time(links, outer, piece * static_cast<double>(blocks), 1, path_alone(links, distance));
  }
  return total;
}

}  // namespace

CollectiveRow scatter_all_gather_broadcast() {
  return {
      "scatter-all-gather", CollectiveKind::Broadcast,
      "scattered down a binomial tree, then gathered around a ring: two bytes moved for one, however many ranks (van de Geijn; Thakur et "
      "al., IJHPCA 2005, section 4.2)",
      broadcast_steps_of_scatter_broadcast, broadcast_time_of_scatter_broadcast};
}

}  // namespace rehearsal::plan
