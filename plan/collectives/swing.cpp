// Halving and doubling between ranks that stay closer to each other: partners of step s are rho(s) = 1 - 2 + 4 - ... (+/-)2^s apart, about
// a third of 2^(s+1), even ranks going one way round and odd ones the other (De Sensi, Bonato, Saam, Hoefler: Swing: Short-cutting Rings
// for Higher Bandwidth Allreduce, NSDI 2024, section 3.1). What of the vector a rank keeps follows from the ranks that it still reaches: of
// those behind step s, even ones are alike modulo 2^(s+1), and odd ones as far from them as step s goes.
#include "plan/collectives/swing.hpp"

#include <algorithm>

#include "plan/collectives/algorithm_rows.hpp"

namespace rehearsal::plan {
namespace {

/// Of the way that an even position goes in a step.
std::int64_t way_of_swing(int step) { return (1 - ((step + 1) % 2 == 0 ? 1 : -1) * (std::int64_t{2} << step)) / 3; }

int modulo(std::int64_t number, int power) { return static_cast<int>(((number % power) + power) % power); }

int partner_of_swing(int position, int step, int power) {
  return modulo(position % 2 == 0 ? position + way_of_swing(step) : position - way_of_swing(step), power);
}

/// Whether a position keeps the upper half in a step: that of its partner is the other one, of all that it has met the same.
bool keeps_upper_half(int position, int step, int power) {
  if ((2 << step) == power) return position % 2 == 1;
  const auto even = position % 2 == 0 ? position : position - way_of_swing(step + 1);
  return (modulo(even, power) >> (step + 1)) % 2 == 1;
}

void add_swings(std::vector<CollectiveStep>& steps, const Fold& fold, int position, Range all) {
  struct Swing {
    int partner;
    Range kept, given;
  };
  std::vector<Swing> swings;
  for (int step = 0; 1 << step < fold.power; ++step) {
    const Range low = part(all, 2, 0), high = part(all, 2, 1);
    const bool upper = keeps_upper_half(position, step, fold.power);
    swings.push_back({fold.rank_at(partner_of_swing(position, step, fold.power)), upper ? high : low, upper ? low : high});
    all = swings.back().kept;
  }
  for (const auto& s : swings) add_step(steps, exchange(s.partner, s.given, s.partner, s.kept, true));
  for (auto s = swings.rbegin(); s != swings.rend(); ++s) add_step(steps, exchange(s->partner, s->kept, s->partner, s->given, false));
}

std::vector<CollectiveStep> steps_of_swing(int rank, int ranks, std::int64_t count, int) {
  return folded_around(add_swings, rank, ranks, count);
}

/// How many ranks of a node have their partner of a step on another one. Even ranks that go w up leave a node of an even number of ranks
/// from its last w - 1 places, and odd ones that go as far down from its first w - 1: (w - 1) / 2 + (w - 1) / 2. The other way round it is
/// w + 1; where positions stand for two ranks, or nodes begin at odd ones, no more than twice that.
int senders_of_swing(int ranks, int step, int per_node) {
  const auto way = way_of_swing(step), far = way > 0 ? way : -way;
  const bool even = per_node % 2 == 0 && Fold(ranks).excess == 0;
  return static_cast<int>(std::min<std::int64_t>(per_node, !even ? 2 * (far + 1) : way > 0 ? way - 1 : far + 1));
}

Seconds swing_time_of_step(int ranks, int step, Bytes size, const CollectiveLinks& links) {
  const int senders = one_node(ranks, links) ? 0 : senders_of_swing(ranks, step, links.ranks_per_node);
  const int staying = std::min(ranks, links.ranks_per_node) - senders;
  const Seconds inner = message_time(links, false, size, std::max(staying, 1));
  if (senders == 0) return inner;
  const auto k = static_cast<std::size_t>(step);
  const Seconds outer =
      message_time(links, true, size, senders, k < links.swinging.size() ? std::optional(links.swinging[k]) : std::nullopt);
  return links.ranks_per_node == 1 ? outer : std::max(outer, inner);
}

/// As halving and doubling, over shorter ways.
Seconds time_of_swing(int ranks, Bytes size, const CollectiveLinks& links) {
  Seconds total = fold_time(ranks, size, links);
  Bytes half = size / 2.0;
  for (int step = 0; 1 << step < power_below(ranks); ++step, half *= 0.5)
    total += 2.0 * swing_time_of_step(ranks, step, half, links) + half / links.reduction;
  return total;
}

}  // namespace

int partner_in_swing(int rank, int step, int ranks) {
  const Fold fold(ranks);
  return fold.stays_out(rank) ? -1 : fold.rank_at(partner_of_swing(fold.position(rank), step, fold.power));
}

CollectiveRow swing_all_reduce() {
  CollectiveRow row{"swing", CollectiveKind::AllReduce,
                    "halves, quarters, ... are exchanged over ways that are a third as long, even ranks one way round and odd ones the "
                    "other (De Sensi et al., Swing, NSDI 2024, section 3.1)",
                    steps_of_swing, time_of_swing};
  row.exact = false;  // where nodes have several ranks, some exchange within them while others wait
  return row;
}

}  // namespace rehearsal::plan
