#include <algorithm>

#include "plan/collectives/algorithm_rows.hpp"

namespace rehearsal::plan {
namespace {

std::vector<CollectiveStep> doubling_steps_of_all_gather(int rank, int ranks, std::int64_t count, int) {
  const Fold fold(ranks);
  const Range all{0, count};
  std::vector<CollectiveStep> steps;
  if (fold.stays_out(rank)) {
    add_step(steps, sending(rank + 1, block(count, ranks, rank)));
    add_step(steps, receiving(rank + 1, all, false));
    return steps;
  }
  if (fold.folded(rank)) add_step(steps, receiving(rank - 1, block(count, ranks, rank - 1), false));
  const int position = fold.position(rank);
  for (int distance = 1; distance < fold.power; distance *= 2) {
    const int other = fold.rank_at(position ^ distance);
    add_step(steps, exchange(other, blocks_around(fold, ranks, count, {position, distance}), other,
                             blocks_around(fold, ranks, count, {position ^ distance, distance}), false));
  }
  if (fold.folded(rank)) add_step(steps, sending(rank - 1, all));
  return steps;
}

/// log2 P a + (P-1)/P S/B; with e ranks above a power of two, the first positions stand for two ranks and their messages are the longest:
/// a + S/(P B) before, and a + S/B after.
Seconds doubling_time_of_all_gather(int ranks, Bytes size, const CollectiveLinks& links) {
  const Fold fold(ranks);
  const Bytes piece = size / static_cast<double>(ranks);
  Seconds total;
  if (fold.excess > 0)
    total += message_time(links, fold_crosses(ranks, links), piece) + message_time(links, fold_crosses(ranks, links), size);
  for (int distance = 1; distance < fold.power; distance *= 2)
    total += pair_time(ranks, distance, piece * static_cast<double>(distance + std::min(fold.excess, distance)), links);
  return total;
}

/// Rank r gathers blocks r, r + 1, ... behind the vector, and puts them to their places in the end.
std::vector<CollectiveStep> bruck_steps_of_all_gather(int rank, int ranks, std::int64_t count, int) {
  std::vector<CollectiveStep> steps;
  const auto own_begin = block(count, ranks, rank).begin;
  /// Where the first `blocks` blocks from the own one end.
  const auto behind = [&](int from, int blocks) {
    const auto begin = block(count, ranks, from).begin;
    const int last = from + blocks;
    return last <= ranks ? (last == ranks ? count : block(count, ranks, last).begin) - begin
                         : count - begin + block(count, ranks, last - ranks).begin;
  };
  add_step(steps, copying(rank, block(count, ranks, rank), {count, count + behind(rank, 1)}));
  for (int held = 1; held < ranks; held *= 2) {
    const int blocks = std::min(held, ranks - held), to = (rank - held + ranks) % ranks, from = (rank + held) % ranks;
    const auto begin = count + behind(rank, held);
    add_step(steps, exchange(to, {count, count + behind(rank, blocks)}, from, {begin, begin + behind(from, blocks)}, false));
  }
  const auto tail = count - own_begin;
  add_step(steps, copying(rank, {count, count + tail}, {own_begin, count}));
  add_step(steps, copying(rank, {count + tail, 2 * count}, {0, own_begin}));
  return steps;
}

std::int64_t bruck_memory(int, int, std::int64_t count) { return 2 * count; }

/// ceil(log2 P) a + (P-1)/P S/B
Seconds bruck_time_of_all_gather(int ranks, Bytes size, const CollectiveLinks& links) {
  Seconds total;
  for (int held = 1; held < ranks; held *= 2)
    total += slowest_message(ranks, size * (static_cast<double>(std::min(held, ranks - held)) / ranks), links, held);
  return total;
}

}  // namespace

CollectiveRow recursive_doubling_all_gather() {
  return {"recursive-doubling", CollectiveKind::AllGather,
          "what has been gathered is exchanged at distances 1, 2, 4, ... (Thakur et al., IJHPCA 2005, section 4.1)",
          doubling_steps_of_all_gather, doubling_time_of_all_gather};
}

CollectiveRow bruck_all_gather() {
  return {
      "bruck",
      CollectiveKind::AllGather,
      "what has been gathered goes to the rank 1, 2, 4, ... before: ceil(log2 P) messages for any P (Bruck et al., IEEE TPDS 8(11) 1997)",
      bruck_steps_of_all_gather,
      bruck_time_of_all_gather,
      bruck_memory};
}

}  // namespace rehearsal::plan
