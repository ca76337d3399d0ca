#pragma once
// Hyper-connections: a residual of several streams (Zhu et al., "Hyper-Connections", 2024; with doubly stochastic mixing Xie et al., "mHC",
// 2026), as DeepSeek-V4 has them.

#include <string>

#include "graph/zoo/layers.hpp"

namespace rehearsal::graph::zoo {

/// x [batch, seq, streams, hidden] on its way through a block.
struct Streams {
  TensorId input = TensorId::None;  ///< [batch, seq, hidden], what the block takes: a weighted sum of the streams
  TensorId given = TensorId::None;  ///< [batch, seq, streams, 1], how much of the block's result each stream gets
  TensorId kept = TensorId::None;   ///< [batch, seq, streams, streams], how streams (rows) go on in streams (columns); its sums are about 1
};

/// All three come from the streams' own values, by one product: sigmoids, and a softmax whose rows and columns are divided by their sums so
/// many times (`iterations`).
[[nodiscard]] Streams into_block(Layers&, const std::string& name, TensorId x, std::int64_t iterations);
/// The streams behind a block that made `result` [batch, seq, hidden] of the input.
[[nodiscard]] TensorId out_of_block(Layers&, const std::string& name, TensorId x, const Streams&, TensorId result);
/// One stream at the end of all blocks, [batch, seq, hidden].
[[nodiscard]] TensorId merged(Layers&, const std::string& name, TensorId x);

}  // namespace rehearsal::graph::zoo
