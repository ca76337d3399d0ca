#pragma once
// Mixture of experts: tokens choose, experts take what their capacity holds (Lepikhin et al., "GShard", 2020, algorithm 1).

#include "graph/zoo/layers.hpp"

namespace rehearsal::graph::zoo {

struct Experts {
  std::int64_t count = 8;
  std::int64_t top_k = 2;       ///< experts of a token
  std::int64_t capacity = 125;  ///< percent of an even share of a sample's tokens
  std::int64_t ffn = 1;         ///< width of an expert's gated feed-forward layer
};

/// x [batch, seq, hidden] to the same: the gates' softmax over the chosen experts weighs their results; a token that finds its expert full
/// gets nothing from it. Every sample is routed by itself. Throws BadInput when top_k is larger than count.
TensorId mixture_of_experts(Layers&, const std::string& name, TensorId x, const Experts&);

}  // namespace rehearsal::graph::zoo
