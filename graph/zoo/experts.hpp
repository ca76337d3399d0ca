#pragma once
// Mixture of experts: tokens choose, experts take what their capacity holds (Lepikhin et al., "GShard", 2020, algorithm 1).

#include "graph/zoo/layers.hpp"

namespace rehearsal::graph::zoo {

struct Experts {
  std::int64_t count = 8;
  std::int64_t top_k = 2;       ///< experts of a token
  std::int64_t capacity = 125;  ///< percent of an even share of a sample's tokens
  std::int64_t ffn = 1;         ///< width of an expert's gated feed-forward layer
  bool balance = false;         ///< wants Mixed::balance
};

struct Mixed {
  TensorId result = TensorId::None;  ///< as x
  /// How unevenly tokens are routed, a number to add to the loss: of every sample E times the sum over its E experts of the share of
  /// choices that fall on one and the mean weight that a softmax over all experts gives it, and of all samples the mean (Fedus et al.,
  /// "Switch Transformers", 2021, equation 4, with a sample in place of a batch). 1 where the softmax weighs all alike, at most E.
  TensorId balance = TensorId::None;
};

/// x [batch, seq, hidden] to the same: the gates' softmax over the chosen experts weighs their results; a token that finds its expert full
/// gets nothing from it. Every sample is routed by itself. Throws BadInput when top_k is larger than count.
Mixed mixture_of_experts(Layers&, const std::string& name, TensorId x, const Experts&);

}  // namespace rehearsal::graph::zoo
