#include "plan/collectives/algorithm_rows.hpp"

namespace rehearsal::plan {
namespace {

Range parts(const Fold& fold, std::int64_t count, int first, int positions) {
  return {block(count, fold.power, first).begin, block(count, fold.power, first + positions - 1).end};
}

/// Odd ranks of the first pairs stay out, so that rank 0 is at position 0.
std::vector<CollectiveStep> reduce_steps_of_rabenseifner(int rank, int ranks, std::int64_t count, int) {
  const Fold fold(ranks, true);
  std::vector<CollectiveStep> steps;
  const Range all{0, count};
  if (fold.stays_out(rank)) {
    add_step(steps, sending(rank - 1, all));
    return steps;
  }
  if (fold.folded(rank)) add_step(steps, receiving(rank + 1, all, true));
  const int me = fold.position(rank);
  for (int distance = fold.power / 2; distance > 0; distance /= 2) {
    const int other = me ^ distance, with = fold.rank_at(other);
    add_step(steps, exchange(with, parts(fold, count, other & ~(distance - 1), distance), with,
                             parts(fold, count, me & ~(distance - 1), distance), true));
  }
  for (int distance = 1; distance < fold.power; distance *= 2) {
    if ((me & distance) != 0) {
      add_step(steps, sending(fold.rank_at(me - distance), parts(fold, count, me, distance)));
      break;
    }
    add_step(steps, receiving(fold.rank_at(me + distance), parts(fold, count, me + distance, distance), false));
  }
  return steps;
}

/// 2 log2 P a + 2 (P-1)/P S/B + (P-1)/P g S; above a power of two a + S/B + g S more.
Seconds reduce_time_of_rabenseifner(int ranks, Bytes size, const CollectiveLinks& links) {
  const Fold fold(ranks);
  Seconds total;
  if (fold.excess > 0) total += message_time(links, fold_crosses(ranks, links), size) + size / links.reduction;
  for (int distance = 1; distance < fold.power; distance *= 2) {
    const Bytes part = size * (static_cast<double>(distance) / fold.power);
    total += 2.0 * pair_time(ranks, distance, part, links) + part / links.reduction;
  }
  return total;
}

}  // namespace

CollectiveRow rabenseifner_reduce() {
  return {"rabenseifner", CollectiveKind::Reduce,
          "halves, quarters, ... are exchanged and added, then collected at rank 0 (Rabenseifner, ICCS 2004; Thakur et al., IJHPCA 2005, "
          "section 4.6)",
          reduce_steps_of_rabenseifner, reduce_time_of_rabenseifner};
}

}  // namespace rehearsal::plan
