#include "plan/collectives/algorithm_rows.hpp"

namespace rehearsal::plan {
namespace {

/// A rank receives over the distance of its lowest set bit, and then sends over all lower ones, the farthest first.
std::vector<CollectiveStep> broadcast_steps_of_broadcast(int rank, int ranks, std::int64_t count, int) {
  std::vector<CollectiveStep> steps;
  const Range all{0, count};
  const int lowest = rank == 0 ? static_cast<int>(std::bit_ceil(static_cast<unsigned>(ranks))) : rank & -rank;
  if (rank != 0) add_step(steps, receiving(rank - lowest, all, false));
  for (int distance = lowest / 2; distance > 0; distance /= 2)
    if (rank + distance < ranks) add_step(steps, sending(rank + distance, all));
  return steps;
}

/// Whether some message over `distance` goes from one node to another.
bool crosses(int ranks, int distance, int per_node) {
  if (std::has_single_bit(static_cast<unsigned>(per_node))) return distance >= per_node;
  for (int from = 0; from + distance < ranks; from += 2 * distance)
    if (from / per_node != (from + distance) / per_node) return true;
  return false;
}

/// ceil(log2 P) (a + S/B): one message per level of the tree
Seconds broadcast_time_of_broadcast(int ranks, Bytes size, const CollectiveLinks& links) {
  Seconds total;
  for (int distance = 1; distance < ranks; distance *= 2)
    total += message_time(links, crosses(ranks, distance, links.ranks_per_node), size, 1, path_alone(links, distance));
  return total;
}

}  // namespace

CollectiveRow binomial_broadcast() {
  return {"binomial", CollectiveKind::Broadcast, "a binomial tree from rank 0 (Thakur et al., IJHPCA 2005, section 4.2)",
          broadcast_steps_of_broadcast, broadcast_time_of_broadcast};
}

}  // namespace rehearsal::plan
