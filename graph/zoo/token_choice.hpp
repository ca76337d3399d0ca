#pragma once
// Sparse attention by a cheap index (DeepSeek-AI, "DeepSeek-V3.2", 2025, section 2.1; GLM-5, 2026; by blocks MiniMax-M3, 2026): small heads
// score all tokens before a query, and the attention sees those with the best scores alone.

#include <string>

#include "graph/zoo/latent_attention.hpp"

namespace rehearsal::graph::zoo {

struct TokenIndex {
  std::int64_t heads = 0;  ///< that score; 0: no index, every token is seen
  std::int64_t width = 128;
  std::int64_t top = 2048;  ///< tokens, or blocks, that a query sees
  std::int64_t block = 0;   ///< tokens that are chosen together; 0: each by itself
};

/// True where a score is at least the `top`-th best along the last axis of [batch, heads, queries, keys].
[[nodiscard]] TensorId best_scores(Layers&, const std::string& name, TensorId scores, std::int64_t top);
/// [batch, 1, seq, seq], bool: where a query (row) sees a key, at most index.top of those that attention.mask [seq, seq] allows; of equal
/// scores at the edge all. The index's queries come from input.queries, its keys and the weights of its heads from input.x; what turns is
/// attention.rotary. With blocks (MiniMax-M3, 2026) [batch, kv_heads, 1, seq, seq] instead, without the 1 where every head has keys of its
/// own: each of the index's heads scores for the heads that share a key by its product with the index's one key, a block counts as its best
/// token, and the query's own block is always chosen; queries and keys have an RMS norm, and come from input.x. Its weights are stored and
/// not trained: choosing has no gradient, and what the published models train them with is a loss of its own.
[[nodiscard]] TensorId chosen_tokens(Layers&, const std::string& name, const LatentInput&, const TokenIndex&, const Attention&);

}  // namespace rehearsal::graph::zoo
