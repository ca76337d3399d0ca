#include <algorithm>

#include "plan/collectives/algorithm_rows.hpp"

namespace rehearsal::plan {
namespace {

std::vector<CollectiveStep> halving_steps(int rank, int ranks, std::int64_t count, int) {
  const Fold fold(ranks);
  const Range all{0, count};
  std::vector<CollectiveStep> steps;
  if (fold.stays_out(rank)) {
    add_step(steps, sending(rank + 1, all));
    add_step(steps, receiving(rank + 1, block(count, ranks, rank), false));
    return steps;
  }
  if (fold.folded(rank)) add_step(steps, receiving(rank - 1, all, true));
  const int position = fold.position(rank);
  for (int distance = fold.power / 2; distance > 0; distance /= 2) {
    const int other = position ^ distance;
    add_step(steps, exchange(fold.rank_at(other), blocks_around(fold, ranks, count, {other, distance}), fold.rank_at(other),
                             blocks_around(fold, ranks, count, {position, distance}), true));
  }
  if (fold.folded(rank)) add_step(steps, sending(rank - 1, block(count, ranks, rank - 1)));
  return steps;
}

/// log2 P a + (P-1)/P S (1/B + g). With e ranks above a power of two the first positions stand for two ranks and keep the longest parts:
/// a + S/B + g S before, a + S/(P B) after.
Seconds halving_time(int ranks, Bytes size, const CollectiveLinks& links) {
  const Fold fold(ranks);
  const Bytes piece = size / static_cast<double>(ranks);
  const bool outer = fold_crosses(ranks, links);
  Seconds total;
  if (fold.excess > 0) total += message_time(links, outer, size) + size / links.reduction + message_time(links, outer, piece);
  for (int distance = fold.power / 2; distance > 0; distance /= 2) {
    const Bytes kept = piece * static_cast<double>(distance + std::min(fold.excess, distance));
    total += pair_time(ranks, distance, kept, links) + kept / links.reduction;
  }
  return total;
}

std::vector<CollectiveStep> pairwise_steps_of_reduce_scatter(int rank, int ranks, std::int64_t count, int) {
  std::vector<CollectiveStep> steps;
  for (int s = 1; s < ranks; ++s) {
    const int to = (rank + s) % ranks, from = (rank - s + ranks) % ranks;
    add_step(steps, exchange(to, block(count, ranks, to), from, block(count, ranks, rank), true));
  }
  return steps;
}

/// (P-1)(a + S/(P B) + g S/P)
Seconds pairwise_time_of_reduce_scatter(int ranks, Bytes size, const CollectiveLinks& links) {
  const Bytes piece = size / static_cast<double>(ranks);
  return all_distances(ranks, piece, links) + static_cast<double>(ranks - 1) * (piece / links.reduction);
}

}  // namespace

CollectiveRow recursive_halving_reduce_scatter() {
  return {"recursive-halving", CollectiveKind::ReduceScatter,
          "halves, quarters, ... are exchanged with ranks ever nearer and added (Thakur et al., IJHPCA 2005, section 4.4)", halving_steps,
          halving_time};
}

CollectiveRow pairwise_reduce_scatter() {
  return {"pairwise", CollectiveKind::ReduceScatter,
          "in step s each rank sends the block of the one s further on to it (Thakur et al., IJHPCA 2005, section 4.4)",
          pairwise_steps_of_reduce_scatter, pairwise_time_of_reduce_scatter};
}

}  // namespace rehearsal::plan
