// Recursive doubling and Rabenseifner's algorithm. Both want a power of two: of the first 2e ranks, e being the excess, every even one
// first hands its vector to its neighbour, stays out, and gets the result back (Thakur, Rabenseifner, Gropp: Optimization of Collective
// Communication Operations in MPICH, IJHPCA 2005, sections 4.4 and 4.5).
#include <algorithm>

#include "plan/collectives/algorithm_rows.hpp"

namespace rehearsal::plan {
namespace {

CollectiveStep swap(int with, Range sent, Range received, bool reduce) { return exchange(with, sent, with, received, reduce); }

void add_doubling(std::vector<CollectiveStep>& steps, const Fold& fold, int position, Range all) {
  for (int distance = 1; distance < fold.power; distance *= 2) add_step(steps, swap(fold.rank_at(position ^ distance), all, all, true));
}

/// Neighbours exchange the halves, so that the largest messages stay within a node.
void add_halving_and_doubling(std::vector<CollectiveStep>& steps, const Fold& fold, int position, Range all) {
  struct Level {
    int partner;
    Range kept, given;
  };
  std::vector<Level> levels;
  Range range = all;
  for (int distance = 1; distance < fold.power; distance *= 2) {
    const Range low = part(range, 2, 0), high = part(range, 2, 1);
    const bool upper = (position & distance) != 0;
    levels.push_back({fold.rank_at(position ^ distance), upper ? high : low, upper ? low : high});
    range = levels.back().kept;
  }
  for (const auto& level : levels) add_step(steps, swap(level.partner, level.given, level.kept, true));
  for (auto level = levels.rbegin(); level != levels.rend(); ++level)
    add_step(steps, swap(level->partner, level->kept, level->given, false));
}

std::vector<CollectiveStep> doubling_steps_of_recursive(int rank, int ranks, std::int64_t count, int) {
  return folded_around(add_doubling, rank, ranks, count);
}

/// log2 P (a + S/B + g S)
Seconds doubling_time_of_recursive(int ranks, Bytes size, const CollectiveLinks& links) {
  Seconds total = fold_time(ranks, size, links);
  for (int distance = 1; distance < power_below(ranks); distance *= 2)
    total += pair_time(ranks, distance, size, links) + size / links.reduction;
  return total;
}

std::vector<CollectiveStep> halving_doubling_steps(int rank, int ranks, std::int64_t count, int) {
  return folded_around(add_halving_and_doubling, rank, ranks, count);
}

/// 2 log2 P a + 2 S (P-1)/(P B) + g S (P-1)/P
Seconds halving_doubling_time(int ranks, Bytes size, const CollectiveLinks& links) {
  Seconds total = fold_time(ranks, size, links);
  Bytes half = size / 2.0;
  for (int distance = 1; distance < power_below(ranks); distance *= 2, half *= 0.5)
    total += 2.0 * pair_time(ranks, distance, half, links) + half / links.reduction;
  return total;
}

/// Whether two positions of a Fold that are `distance` apart are on different nodes for some pair.
bool crosses(int ranks, int distance, const CollectiveLinks& links) {
  if (one_node(ranks, links)) return false;
  const Fold fold(ranks);
  const int per_node = links.ranks_per_node;
  if (std::has_single_bit(static_cast<unsigned>(per_node)) && ranks % per_node == 0)
    return distance >= (fold.excess > 0 ? per_node / 2 : per_node);
  for (int position = 0; position < fold.power; ++position)
    if (fold.rank_at(position) / per_node != fold.rank_at(position ^ distance) / per_node) return true;
  return false;
}

}  // namespace

Range blocks_around(const Fold& fold, int ranks, std::int64_t count, PositionsAround at) {
  const int first = at.position & ~(at.distance - 1);
  const auto begin_of = [&](int position) { return position == fold.power ? count : block(count, ranks, fold.first_rank(position)).begin; };
  return {begin_of(first), begin_of(first + at.distance)};
}

std::vector<CollectiveStep> folded_around(BetweenPositions between, int rank, int ranks, std::int64_t count) {
  const Fold fold(ranks);
  const Range all{0, count};
  std::vector<CollectiveStep> steps;
  if (fold.stays_out(rank)) {
    add_step(steps, sending(rank + 1, all));
    add_step(steps, receiving(rank + 1, all, false));
    return steps;
  }
  if (fold.folded(rank)) add_step(steps, receiving(rank - 1, all, true));
  between(steps, fold, fold.position(rank), all);
  if (fold.folded(rank)) add_step(steps, sending(rank - 1, all));
  return steps;
}

Seconds fold_time(int ranks, Bytes size, const CollectiveLinks& links) {
  if (Fold(ranks).excess == 0) return {};
  return 2.0 * message_time(links, fold_crosses(ranks, links), size) + size / links.reduction;
}

Seconds pair_time(int ranks, int distance, Bytes size, const CollectiveLinks& links) {
  const bool outer = crosses(ranks, distance, links);
  const int senders = std::min(outer ? distance : ranks, links.ranks_per_node);
  return message_time(links, outer, size, senders, path_of(links.across, distance));
}

bool fold_crosses(int ranks, const CollectiveLinks& links) {
  return links.ranks_per_node % 2 == 1 && links.ranks_per_node < 2 * Fold(ranks).excess;
}

CollectiveRow recursive_doubling_all_reduce() {
  return {"recursive-doubling", CollectiveKind::AllReduce,
          "whole vectors are exchanged at distances 1, 2, 4, ...: least latency (Thakur et al., IJHPCA 2005, section 4.5)",
          doubling_steps_of_recursive, doubling_time_of_recursive};
}

CollectiveRow halving_doubling_all_reduce() {
  return {"halving-doubling", CollectiveKind::AllReduce,
          "halves, quarters, ... are exchanged and added, then collected back (Rabenseifner, ICCS 2004; Thakur et al., IJHPCA 2005, "
          "section 4.5)",
          halving_doubling_steps, halving_doubling_time};
}

}  // namespace rehearsal::plan
