#include "plan/collectives/rows.hpp"

namespace rehearsal::plan {
namespace {

/// Nodes of equal size, more than one and of more than one rank, are what makes a hierarchy; anything else is a plain ring.
bool has_levels(int ranks, int ranks_per_node) { return ranks_per_node > 1 && ranks_per_node < ranks && ranks % ranks_per_node == 0; }

std::vector<CollectiveStep> steps_of(int rank, int ranks, std::int64_t count, int ranks_per_node) {
  if (!has_levels(ranks, ranks_per_node)) return ring_all_reduce().steps(rank, ranks, count, ranks_per_node);
  const int local = rank % ranks_per_node;
  const Ring inside{rank - local, 1, ranks_per_node, local};
  const Ring across{local, ranks_per_node, ranks / ranks_per_node, rank / ranks_per_node};
  const Range all{0, count};
  const Range mine = part(all, ranks_per_node, local);
  std::vector<CollectiveStep> steps;
  add_ring_reduce_scatter(steps, inside, all);
  add_ring_reduce_scatter(steps, across, mine);
  add_ring_all_gather(steps, across, mine);
  add_ring_all_gather(steps, inside, all);
  return steps;
}

/// With K ranks on each of N nodes: 2(K-1)(ai + S/(K Bi)) + (K-1) g S/K + 2(N-1)(ao + S/(P Bo)) + (N-1) g S/P
Seconds time_of(int ranks, Bytes size, const CollectiveLinks& links) {
  if (!has_levels(ranks, links.ranks_per_node)) return ring_all_reduce().closed_form(ranks, size, links);
  const int nodes = ranks / links.ranks_per_node;
  const Bytes mine = size / static_cast<double>(links.ranks_per_node);
  CollectiveLinks across = links;
  across.ranks_per_node = 1;
  return ring_reduce_scatter_time(links.ranks_per_node, size, links) + ring_reduce_scatter_time(nodes, mine, across) +
         ring_all_gather_time(nodes, mine, across) + ring_all_gather_time(links.ranks_per_node, size, links);
}

}  // namespace

CollectiveRow hierarchical_all_reduce() {
  return {"hierarchical", CollectiveKind::AllReduce,
          "added within each node, then across nodes by as many rings as a node has ranks, then shared within the node "
          "(Jia et al., arXiv:1807.11205, section 3.3; Cho et al., BlueConnect, MLSys 2019)",
          steps_of, time_of};
}

}  // namespace rehearsal::plan
