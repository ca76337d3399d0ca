// Rings on several levels (Cho, Finkler, Serrano, Kung, Hunter: BlueConnect: Decomposing all-reduce for deep learning on heterogeneous
// network hierarchy, MLSys 2019, section 3): the number of ranks is taken apart into factors, ranks of a node first, and a reduce-scatter
// on every level leaves each rank less to add on the next. A byte crosses the network as often as in one ring, in fewer messages behind
// each other: 64 nodes wait 6 times on their way in place of 63, and the farther a message goes, the smaller it is.

#include <algorithm>
#include <bit>

#include "plan/collectives/algorithm_rows.hpp"

namespace rehearsal::plan {
namespace {

/// The ranks of a node, where all nodes have as many, then prime factors of what is left, the smallest first.
std::vector<RingLevel> levels_of(int ranks, int ranks_per_node) {
  std::vector<RingLevel> levels;
  int stride = 1;
  const auto add = [&](int size) {
    levels.push_back({size, stride});
    stride *= size;
  };
  if (nodes_are_level(ranks, ranks_per_node)) add(ranks_per_node);
  for (int factor = 2; stride < ranks; ++factor)
    while (ranks / stride % factor == 0) add(factor);
  return levels;
}

std::vector<CollectiveStep> steps_of_levels(int rank, int ranks, std::int64_t count, int ranks_per_node) {
  return all_reduce_on(levels_of(ranks, ranks_per_node), rank, count);
}

/// A message of one level, of `size` bytes. Where nodes differ in size, those that have most ranks send `stride` of them to others.
Seconds time_of_message(int ranks, const RingLevel& level, Bytes size, const CollectiveLinks& links) {
  const int per_node = std::min(ranks, links.ranks_per_node);
  if (ranks % per_node == 0 && level.stride * level.size <= per_node) return message_time(links, false, size, per_node);
  const bool exchanges = level.size == 2 && std::has_single_bit(static_cast<unsigned>(level.stride));
  const auto& paths = exchanges ? links.across : links.around;
  return message_time(links, true, size, std::min(level.stride, per_node), path_of(paths, level.stride));
}

/// 2 Σ (f - 1)(a + S/(f s B)) + (f - 1) g S/(f s) over the levels of f ranks that are s apart.
Seconds time_of_levels(int ranks, Bytes size, const CollectiveLinks& links) {
  Seconds total;
  for (const auto& level : levels_of(ranks, links.ranks_per_node)) {
    const Bytes block = size / static_cast<double>(level.size * level.stride);
    total += (level.size - 1) * (2.0 * time_of_message(ranks, level, block, links) + block / links.reduction);
  }
  return total;
}

}  // namespace

CollectiveRow blueconnect_all_reduce() {
  return {"blueconnect", CollectiveKind::AllReduce,
          "rings within nodes, then of as many nodes as each prime factor of their number says, each level for a share of the one before "
          "(Cho et al., BlueConnect, MLSys 2019, section 3)",
          steps_of_levels, time_of_levels};
}

}  // namespace rehearsal::plan
