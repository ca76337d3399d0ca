// Recomputation of some of the blocks that a model repeats.

#include <algorithm>

#include "base/error.hpp"
#include "graph/repeated_spans.hpp"
#include "plan/recompute/recompute.hpp"

namespace rehearsal::plan {

using graph::NodeId;
using graph::TensorId;

namespace {

constexpr int kNoBlock = -1;

struct EqualBlocks {
  int count = 0;
  std::vector<int> of_node;
};

EqualBlocks equal_blocks(const graph::Graph& g) {
  EqualBlocks blocks{0, std::vector<int>(g.nodes().size(), kNoBlock)};
  for (const auto& span : graph::repeated_spans(g)) {
    if (span.chain == 1) continue;
    for (int repetition = 0; repetition < span.repeats; ++repetition) {
      const auto first =
          blocks.of_node.begin() + static_cast<std::ptrdiff_t>(span.first + static_cast<std::size_t>(repetition) * span.length);
      std::fill(first, first + static_cast<std::ptrdiff_t>(span.length), blocks.count++);
    }
  }
  return blocks;
}

}  // namespace

Recomputation block_recomputation(const ForwardResults& results, int blocks) {
  const auto& g = results.graph();
  const auto [all, block] = equal_blocks(g);
  if (blocks > all)
    throw Refusal("plan: recompute=full:" + std::to_string(blocks) + ": the model has " + std::to_string(all) + " equal blocks; use full");
  std::vector<bool> dropped(g.tensors().size(), false);
  for (int part = 0; part < results.parts(); ++part) {
    int seen = 0, last = kNoBlock;
    for (const NodeId n : results.nodes_of(part)) {
      const int own = block[graph::index(n)];
      if (own == kNoBlock) continue;
      if (own != last) ++seen, last = own;
      if (seen > blocks) break;
      for (const TensorId t : g[n].outputs) {
        if (t == TensorId::None || !results.can_drop(t)) continue;
        const NodeId reader = results.last_readers()[graph::index(t)];
        dropped[graph::index(t)] = reader == NodeId::None || block[graph::index(reader)] == own;
      }
    }
  }
  return {results.with_views(std::move(dropped))};
}

}  // namespace rehearsal::plan
