#pragma once
// Mixture of experts: tokens choose, experts take what their capacity holds (Lepikhin et al., "GShard", 2020, algorithm 1).

#include "graph/zoo/layers.hpp"

namespace rehearsal::graph::zoo {

/// What a token's experts weigh.
enum class Gate : std::uint8_t {
  Softmax,         ///< softmax over the scores of the chosen (Mixtral, Qwen3, gpt-oss)
  SigmoidShares,   ///< sigmoids of the chosen scores, divided by their sum (DeepSeek-V3)
  SigmoidOfInput,  ///< their sigmoids multiply what the experts get, not what they give (Llama 4)
  SoftmaxOfAll,    ///< softmax over all scores, of the chosen (DeepSeek-V2)
  RootShares,      ///< roots of log(1 + e^score) of the chosen, divided by their sum (DeepSeek-V4)
};

struct Experts {
  std::int64_t count = 8;
  std::int64_t top_k = 2;       ///< experts of a token
  std::int64_t capacity = 125;  ///< percent of an even share of a sample's tokens
  std::int64_t ffn = 1;         ///< width of an expert's gated feed-forward layer
  bool balance = false;         ///< wants Mixed::balance
  Gate gate = Gate::Softmax;
  bool bias = false;     ///< the gate's and the experts' products have biases
  bool gated = true;     ///< silu(x A) * (x B) in an expert; else the square of relu(x A) (So et al., "Primer", 2021)
  bool gelu = false;     ///< with gated: gelu by tanh in place of silu (Gemma 4)
  bool factors = false;  ///< the weight of a chosen expert is multiplied by a number of the expert's own, which is learned (Gemma 4)
  TensorId chosen = TensorId::None;     ///< [batch, seq, top_k], numbers of experts; None: those with the best scores
  TensorId routed_by = TensorId::None;  ///< what the gate reads, as x; None: x
  std::int64_t latent = 0;  ///< width to which tokens are brought before they go to experts (Nemotron 3); 0: they go as they are
  double scale = 1;         ///< of the weights ("routed scaling factor" of DeepSeek-V3)
};

struct Mixed {
  TensorId result = TensorId::None;  ///< as x
  /// How unevenly tokens are routed, a number to add to the loss: of every sample E times the sum over its E experts of the share of
  /// choices that fall on one and the mean weight that a softmax over all experts gives it, and of all samples the mean (Fedus et al.,
  /// "Switch Transformers", 2021, equation 4, with a sample in place of a batch). 1 where the softmax weighs all alike, at most E.
  TensorId balance = TensorId::None;
};

/// x [batch, seq, hidden] to the same: the gate weighs the results of the chosen experts; a token that finds its expert full gets nothing
/// from it. Every sample is routed by itself. Throws BadInput when top_k is larger than count.
Mixed mixture_of_experts(Layers&, const std::string& name, TensorId x, const Experts&);

}  // namespace rehearsal::graph::zoo
