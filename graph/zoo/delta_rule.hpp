#pragma once
// Linear attention by the gated delta rule in its chunked form (Yang et al., "Parallelizing Linear Transformers with the Delta Rule over
// Sequence Length", 2024, section 3; Yang, Kautz, Hatamizadeh, "Gated Delta Networks", 2024, section 3.3), as Qwen3-Next has it.

#include <string>

#include "graph/zoo/layers.hpp"

namespace rehearsal::graph::zoo {

struct DeltaRule {
  std::int64_t key_heads = 16;   ///< heads of queries and keys
  std::int64_t heads = 32;       ///< heads of values, a multiple of key_heads: as many of them share a query and a key
  std::int64_t key_width = 128;  ///< features of a query or key
  std::int64_t width = 128;      ///< features of a value
  std::int64_t kernel = 4;       ///< tokens that the convolution before the scan sees
  std::int64_t chunk = 64;       ///< tokens that are computed by products; states are handed from chunk to chunk
};

/// Throws BadInput naming `model` where heads are no multiple of key_heads, or a sequence longer than a chunk none of chunk.
void require_delta_rule(const std::string& model, const DeltaRule&, std::int64_t seq);

/// x [batch, seq, hidden] to the same: a product to queries, keys, values, gates, strengths and decays; a causal convolution by channel of
/// the first three; queries and keys of length 1; state = a state (I - b k k^T) + b v k^T, y = state q / sqrt(key_width), with
/// b = sigmoid(strength) and a = exp(-exp(A) softplus(decay + bias)); an RMS norm by head times silu of the gate; and a product back. All
/// heads' states start at 0.
[[nodiscard]] TensorId gated_delta_rule(Layers&, const std::string& name, TensorId x, const DeltaRule&);

}  // namespace rehearsal::graph::zoo
