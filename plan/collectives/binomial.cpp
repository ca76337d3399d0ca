// Reduce and all-reduce over binomial trees; the tree of the broadcast, with its messages turned round.
#include "plan/collectives/algorithm_rows.hpp"

namespace rehearsal::plan {
namespace {

/// A rank receives over all distances below its lowest set bit, the nearest first, and then sends over that one.
std::vector<CollectiveStep> reduce_steps_of_binomial(int rank, int ranks, std::int64_t count, int) {
  std::vector<CollectiveStep> steps;
  const Range all{0, count};
  const int lowest = rank == 0 ? static_cast<int>(std::bit_ceil(static_cast<unsigned>(ranks))) : rank & -rank;
  for (int distance = 1; distance < lowest; distance *= 2)
    if (rank + distance < ranks) add_step(steps, receiving(rank + distance, all, true));
  if (rank != 0) add_step(steps, sending(rank - lowest, all));
  return steps;
}

/// ceil(log2 P) (a + S/B + g S)
Seconds reduce_time_of_binomial(int ranks, Bytes size, const CollectiveLinks& links) {
  Seconds total = binomial_broadcast().closed_form(ranks, size, links);
  for (int distance = 1; distance < ranks; distance *= 2) total += size / links.reduction;
  return total;
}

std::vector<CollectiveStep> binomial_all_reduce_steps(int rank, int ranks, std::int64_t count, int per_node) {
  auto steps = reduce_steps_of_binomial(rank, ranks, count, per_node);
  for (const auto& step : binomial_broadcast().steps(rank, ranks, count, per_node)) steps.push_back(step);
  return steps;
}

/// ceil(log2 P) (2 a + 2 S/B + g S)
Seconds all_reduce_time_of_binomial(int ranks, Bytes size, const CollectiveLinks& links) {
  return reduce_time_of_binomial(ranks, size, links) + binomial_broadcast().closed_form(ranks, size, links);
}

}  // namespace

CollectiveRow binomial_reduce() {
  return {"binomial", CollectiveKind::Reduce, "a binomial tree to rank 0 (Thakur et al., IJHPCA 2005, section 4.6)",
          reduce_steps_of_binomial, reduce_time_of_binomial};
}

CollectiveRow binomial_tree_all_reduce() {
  return {"binomial-tree", CollectiveKind::AllReduce,
          "summed up a binomial tree to rank 0 and sent down again (Thakur et al., IJHPCA 2005, sections 4.2 and 4.6)",
          binomial_all_reduce_steps, all_reduce_time_of_binomial};
}

}  // namespace rehearsal::plan
