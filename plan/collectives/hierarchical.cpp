#include <array>

#include "plan/collectives/algorithm_rows.hpp"

namespace rehearsal::plan {
namespace {

/// Where nodes are no level, a plain ring.
std::vector<CollectiveStep> steps_of(int rank, int ranks, std::int64_t count, int ranks_per_node) {
  if (!nodes_are_level(ranks, ranks_per_node)) return ring_all_reduce().steps(rank, ranks, count, ranks_per_node);
  return all_reduce_on(std::array{RingLevel{ranks_per_node, 1}, RingLevel{ranks / ranks_per_node, ranks_per_node}}, rank, count);
}

/// Where a rank of a group of `ranks` stands: K ranks on each of N nodes.
struct Levels {
  int per_node, nodes, local, node;
  Levels(int rank, int ranks, int ranks_per_node)
      : per_node(ranks_per_node), nodes(ranks / ranks_per_node), local(rank % ranks_per_node), node(rank / ranks_per_node) {}
  [[nodiscard]] int local_at(int position) const { return (position % per_node + per_node) % per_node; }
  [[nodiscard]] int node_at(int position) const { return (position % nodes + nodes) % nodes; }
  [[nodiscard]] int rank_at(int of_node, int of_local) const { return node_at(of_node) * per_node + local_at(of_local); }
};

/// Inside a node: the blocks that ranks at one place in their nodes will have go to the next rank together, as those of the place before
/// come in. They do not follow each other in the vector, so they are as many messages at a time as there are nodes.
void add_pass_inside(std::vector<CollectiveStep>& steps, const Levels& at, std::int64_t count, int place, bool reduce) {
  const int ranks = at.per_node * at.nodes;
  const auto first = steps.size();
  for (int n = 0; n < at.nodes; ++n)
    add_step(steps, exchange(at.rank_at(at.node, at.local + 1), block(count, ranks, at.rank_at(n, place)),
                             at.rank_at(at.node, at.local - 1), block(count, ranks, at.rank_at(n, place - 1)), reduce));
  for (auto s = first; s + 1 < steps.size(); ++s) steps[s].with_next = true;
}

/// Across nodes: the block of the rank at this place in `node` goes to the next one.
void add_pass_across(std::vector<CollectiveStep>& steps, const Levels& at, std::int64_t count, int node, bool reduce) {
  const int ranks = at.per_node * at.nodes;
  add_step(steps, exchange(at.rank_at(at.node + 1, at.local), block(count, ranks, at.rank_at(node, at.local)),
                           at.rank_at(at.node - 1, at.local), block(count, ranks, at.rank_at(node - 1, at.local)), reduce));
}

std::vector<CollectiveStep> hierarchical_reduce_scatter_steps(int rank, int ranks, std::int64_t count, int ranks_per_node) {
  if (!nodes_are_level(ranks, ranks_per_node)) return ring_reduce_scatter().steps(rank, ranks, count, ranks_per_node);
  const Levels at(rank, ranks, ranks_per_node);
  std::vector<CollectiveStep> steps;
  for (int s = 1; s < at.per_node; ++s) add_pass_inside(steps, at, count, at.local - s, true);
  for (int s = 1; s < at.nodes; ++s) add_pass_across(steps, at, count, at.node - s, true);
  return steps;
}

std::vector<CollectiveStep> hierarchical_all_gather_steps(int rank, int ranks, std::int64_t count, int ranks_per_node) {
  if (!nodes_are_level(ranks, ranks_per_node)) return ring_all_gather().steps(rank, ranks, count, ranks_per_node);
  const Levels at(rank, ranks, ranks_per_node);
  std::vector<CollectiveStep> steps;
  for (int s = 0; s + 1 < at.nodes; ++s) add_pass_across(steps, at, count, at.node - s, false);
  for (int s = 0; s + 1 < at.per_node; ++s) add_pass_inside(steps, at, count, at.local - s, false);
  return steps;
}

/// As one of the rings across nodes sees them, of which there are as many as ranks on a node: the next member is so many ranks further.
CollectiveLinks across_nodes(CollectiveLinks links) {
  const auto nearer = static_cast<std::size_t>(std::bit_width(static_cast<unsigned>(links.ranks_per_node)) - 1);
  for (auto* paths : {&links.around, &links.across})
    paths->erase(paths->begin(), paths->begin() + static_cast<std::ptrdiff_t>(std::min(nearer, paths->size())));
  links.node_outer = links.node_outer / links.ranks_per_node;
  links.ranks_per_node = 1;
  return links;
}

/// (K-1)(ai + S/(K Bi) + g S/K) + (N-1)(ao + S/(P Bo) + g S/P)
Seconds reduce_scatter_time(int ranks, Bytes size, const CollectiveLinks& links) {
  if (!nodes_are_level(ranks, links.ranks_per_node)) return ring_reduce_scatter_time(ranks, size, links);
  const Bytes mine = size / static_cast<double>(links.ranks_per_node);
  return ring_reduce_scatter_time(links.ranks_per_node, size, links) +
         ring_reduce_scatter_time(ranks / links.ranks_per_node, mine, across_nodes(links));
}

/// (K-1)(ai + S/(K Bi)) + (N-1)(ao + S/(P Bo))
Seconds all_gather_time(int ranks, Bytes size, const CollectiveLinks& links) {
  if (!nodes_are_level(ranks, links.ranks_per_node)) return ring_all_gather_time(ranks, size, links);
  const Bytes mine = size / static_cast<double>(links.ranks_per_node);
  return ring_all_gather_time(ranks / links.ranks_per_node, mine, across_nodes(links)) +
         ring_all_gather_time(links.ranks_per_node, size, links);
}

/// 2(K-1)(ai + S/(K Bi)) + (K-1) g S/K + 2(N-1)(ao + S/(P Bo)) + (N-1) g S/P
Seconds all_reduce_time_of_hierarchical(int ranks, Bytes size, const CollectiveLinks& links) {
  return reduce_scatter_time(ranks, size, links) + all_gather_time(ranks, size, links);
}

}  // namespace

CollectiveRow hierarchical_reduce_scatter() {
  return {"hierarchical",
          CollectiveKind::ReduceScatter,
          "added within each node, then across nodes, where every byte counts K times less (the first half of BlueConnect)",
          hierarchical_reduce_scatter_steps,
          reduce_scatter_time,
          nullptr,
          false};
}

CollectiveRow hierarchical_all_gather() {
  return {"hierarchical",
          CollectiveKind::AllGather,
          "gathered across nodes, each rank its share, then within each node (the second half of BlueConnect)",
          hierarchical_all_gather_steps,
          all_gather_time,
          nullptr,
          false};
}

CollectiveRow hierarchical_all_reduce() {
  return {"hierarchical", CollectiveKind::AllReduce,
          "added within each node, then across nodes by as many rings as a node has ranks, then shared within the node "
          "(Jia et al., arXiv:1807.11205, section 3.3; Cho et al., BlueConnect, MLSys 2019)",
          steps_of, all_reduce_time_of_hierarchical};
}

}  // namespace rehearsal::plan
