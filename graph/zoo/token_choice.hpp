#pragma once
// Sparse attention by a cheap index (DeepSeek-AI, "DeepSeek-V3.2", 2025, section 2.1; GLM-5, 2026): small heads score all tokens before a
// query, and the attention sees those with the best scores alone.

#include <string>

#include "graph/zoo/latent_attention.hpp"

namespace rehearsal::graph::zoo {

struct TokenIndex {
  std::int64_t heads = 0;  ///< that score; 0: no index, every token is seen
  std::int64_t width = 128;
  std::int64_t top = 2048;  ///< tokens that a query sees
};

/// [batch, 1, seq, seq], bool: where a query (row) sees a key, at most index.top of those that attention.mask [seq, seq] allows; of equal
/// scores at the edge all. The index's queries come from input.queries, its keys and the weights of its heads from input.x; what turns is
/// attention.rotary. Its weights are stored and not trained: choosing has no gradient, and what the published models train them with is a
/// loss of its own.
[[nodiscard]] TensorId chosen_tokens(Layers&, const std::string& name, const LatentInput&, const TokenIndex&, const Attention&);

}  // namespace rehearsal::graph::zoo
