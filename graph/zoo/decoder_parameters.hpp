#pragma once
// What can be said of the decoders in decoder.cpp.

#include <array>

#include "graph/zoo/zoo.hpp"

namespace rehearsal::graph::zoo {

template <std::size_t... N>
constexpr auto joined_parameters(const std::array<ZooParameter, N>&... parts) {
  std::array<ZooParameter, (N + ...)> all{};
  std::size_t at = 0;
  const auto add = [&](const auto& part) {
    for (const ZooParameter& parameter : part) all[at++] = parameter;
  };
  (add(parts), ...);
  return all;
}

constexpr ZooParameter layers_default(std::int64_t n) { return {"layers", n, 1, 10'000, "transformer blocks"}; }
constexpr ZooParameter hidden_default(std::int64_t n) {
  return {"hidden", n, 1, 1'000'000, "width of the residual stream, a multiple of heads unless head_dim is given"};
}
constexpr ZooParameter heads_default(std::int64_t n) { return {"heads", n, 1, 100'000, "attention heads"}; }
constexpr ZooParameter kv_heads_default(std::int64_t n) {
  return {"kv_heads", n, 0, 100'000, "heads of keys and values; 0: as many as heads"};
}
constexpr ZooParameter ffn_default(std::int64_t n) { return {"ffn", n, 0, 10'000'000, "width of the feed-forward layer; 0: 4 hidden"}; }
constexpr ZooParameter seq_default(std::int64_t n) { return {"seq", n, 1, kLongestSequence, "tokens of a sample"}; }
constexpr ZooParameter vocab_default(std::int64_t n) { return {"vocab", n, 2, 10'000'000, "tokens there are"}; }
constexpr ZooParameter tied_default(std::int64_t n) { return {"tied", n, 0, 1, "1: the result uses the token embedding as its weight"}; }
constexpr ZooParameter rotary_default(std::int64_t n) {
  return {"rotary", n, 0, 100, "percent of a head's features that turn with the position"};
}
constexpr ZooParameter theta_default(std::int64_t n) { return {"theta", n, 2, 1'000'000'000, "base of the rotary frequencies"}; }
constexpr ZooParameter kHeadDim = {"head_dim", 0, 0, 100'000, "features of a head; 0: hidden / heads"};
constexpr ZooParameter kDecoderBatch = {"batch", 1, 1, 1'000'000'000, "samples"};

/// What attentions do otherwise than the first Llama's.
constexpr std::array kAttentionParameters = {
    ZooParameter{"qkv_bias", 0, 0, 1, "1: queries, keys and values have biases (Qwen2)"},
    ZooParameter{"o_bias", 0, 0, 1, "1: the product after the attention has a bias"},
    ZooParameter{
        "sinks", 0, 0, 2,
        "a score more of every head that takes part in the softmax, and has no value: 1 in all layers (gpt-oss), 2 in those with a "
        "window (MiMo-V2)"},
    ZooParameter{"qk_norm", 0, 0, 3,
                 "RMS norm of queries and keys: 1 over a head's features (Qwen3), 2 over those of all heads (MiniMax-M2), 3 as 1 without "
                 "weights (Llama 4)"},
    ZooParameter{"v_norm", 0, 0, 1, "1: values have an RMS norm over a head's features, without weights (Gemma 4)"},
    ZooParameter{"value_dim", 0, 0, 100'000, "features of a head's values; 0: head_dim"},
    ZooParameter{"value_scale", 1000, 1, 1'000'000, "thousandths by which values are multiplied (MiMo-V2)"},
    ZooParameter{
        "attn_gate", 0, 0, 2,
        "what the attention gives is multiplied by a sigmoid of its input: 1 every feature by its own (Qwen3-Next), 2 all of a head "
        "(Step 3.5)"},
    ZooParameter{"score_cap", 0, 0, 1'000'000, "scores of the attention are bent below it by tanh (Gemma 2); 0: they are not"},
    ZooParameter{"query_scale", 0, 0, 1'000'000, "scores are divided by its root; 0: by that of head_dim"},
    ZooParameter{"rotary_dim", 0, 0, 100'000, "features of a head that turn with the position; 0: as rotary says"},
    ZooParameter{"rotary_whole", 0, 0, 1,
                 "1: the frequencies are the first ones of a head that turns whole (Gemma 4), but in layers with a window"},
    ZooParameter{"nope_every", 0, 0, 10'000,
                 "every so many layers one has neither positions nor norms of queries and keys (Llama 4); 0: none"},
    ZooParameter{"window", 0, 0, 1'000'000, "tokens that a token sees, itself included; 0: all before it"},
    ZooParameter{"window_every", 0, 0, 10'000, "every so many layers one sees all tokens; 0: none does", "window"},
    ZooParameter{"window_offset", 0, 0, 10'000, "layers by which these are earlier than at a multiple of window_every", "window"},
    ZooParameter{"window_first", 0, 0, 10'000, "first layers that see all tokens, beside these", "window"},
    ZooParameter{"window_theta", 0, 0, 1'000'000'000, "base of the rotary frequencies in layers with a window (Gemma 3); 0: theta",
                 "window"},
    ZooParameter{"window_heads", 0, 0, 100'000, "attention heads of layers with a window (Step 3.5); 0: heads", "window"},
    ZooParameter{"window_kv_heads", 0, 0, 100'000, "heads of keys and values of layers with a window (MiMo-V2, Gemma 4); 0: kv_heads",
                 "window"},
    ZooParameter{"window_head_dim", 0, 0, 100'000, "features of their heads (Gemma 4); 0: head_dim", "window"},
    ZooParameter{"window_rotary_dim", 0, 0, 100'000, "features of their heads that turn; 0: as in the others", "window"},
    ZooParameter{"kv_same", 0, 0, 1, "1: in layers without a window values are the keys before they turn (Gemma 4)"},
};

/// What stands in place of an attention in most layers.
constexpr std::array kDeltaParameters = {
    ZooParameter{"full_every", 0, 0, 10'000,
                 "every so many layers one has an attention, the others the gated delta rule (Qwen3-Next); 0: all have one"},
    ZooParameter{"delta_key_heads", 16, 1, 100'000, "heads of queries and keys of the delta rule", "full_every"},
    ZooParameter{"delta_heads", 32, 1, 100'000, "heads of its values, a multiple of these", "full_every"},
    ZooParameter{"delta_key_dim", 128, 1, 100'000, "features of its queries and keys", "full_every"},
    ZooParameter{"delta_dim", 128, 1, 100'000, "features of its values", "full_every"},
    ZooParameter{"conv", 4, 1, 1000, "tokens that the convolution before it sees", "full_every"},
    ZooParameter{"chunk", 64, 1, 100'000, "tokens that are computed by products, of which seq is a multiple where more", "full_every"},
};

/// What blocks and their ends do otherwise.
constexpr std::array kBlockParameters = {
    ZooParameter{"act", 0, 0, 1, "of the gate in the feed-forward layer: 0 silu, 1 gelu by tanh (Gemma)"},
    ZooParameter{"norms", 0, 0, 2,
                 "where a block normalizes: 0 what attention and feed-forward layer take, 1 that and what they give (Gemma 2), 2 what they "
                 "give (OLMo 2)"},
    ZooParameter{"logit_cap", 0, 0, 1'000'000, "the result is bent below it by tanh (Gemma 2); 0: it is not"},
    ZooParameter{"embed_scale", 0, 0, 1, "1: embeddings are multiplied by the root of hidden (Gemma)"},
};

constexpr ZooParameter kNeox[] = {layers_default(32),   hidden_default(4096), heads_default(32),  ffn_default(0),        seq_default(2048),
                                  vocab_default(50432), tied_default(0),      rotary_default(25), theta_default(10'000), kDecoderBatch};
constexpr ZooParameter kMpt[] = {layers_default(32), hidden_default(4096), heads_default(32), kv_heads_default(0), ffn_default(0),
                                 seq_default(2048),  vocab_default(50432), tied_default(1),   kDecoderBatch};
constexpr auto kDecoderLlama = joined_parameters(
    std::array{layers_default(32), hidden_default(4096), heads_default(32), kv_heads_default(0), kHeadDim, ffn_default(11008),
               seq_default(2048), vocab_default(32000), tied_default(0), rotary_default(100), theta_default(10'000)},
    kAttentionParameters, kDeltaParameters, kBlockParameters, std::array{kDecoderBatch});

/// Experts in place of a feed-forward layer.
constexpr std::array kExpertParameters = {
    ZooParameter{"experts", 8, 2, 10'000, "feed-forward layers to choose from"},
    ZooParameter{"top_k", 2, 1, 1000, "experts of a token"},
    ZooParameter{"moe_ffn", 0, 0, 10'000'000, "width of an expert; 0: ffn"},
    ZooParameter{"shared_experts", 0, 0, 1000, "experts that every token goes to, beside the chosen ones (DeepSeekMoE, Dai et al. 2024)"},
    ZooParameter{"shared_gate", 0, 0, 1, "1: what these give is multiplied by a sigmoid of a number of each token (Qwen2-MoE)"},
    ZooParameter{"dense_layers", 0, 0, 10'000, "first blocks that have no experts"},
    ZooParameter{"moe_every", 1, 1, 10'000, "every so many blocks one has experts"},
    ZooParameter{
        "dense_beside", 0, 0, 1,
        "1: blocks with experts have a feed-forward layer of width ffn, too, each with norms of its own, and experts are chosen by "
        "what the block adds to (Gemma 4)"},
    ZooParameter{"gate", 0, 0, 3,
                 "what weighs the chosen: 0 the softmax of their scores, 1 shares of their sigmoids (DeepSeek-V3), 2 sigmoids, of what "
                 "they get (Llama "
                 "4), 3 the softmax of all scores (DeepSeek-V2)"},
    ZooParameter{"gate_scale", 1000, 1, 1'000'000, "thousandths by which the weights of the chosen are multiplied"},
    ZooParameter{"expert_bias", 0, 0, 1, "1: the gate and the experts' products have biases (gpt-oss)"},
    ZooParameter{"capacity", 125, 1, 100'000, "percent of an even share that an expert takes of a sample's tokens; the others skip it"},
    ZooParameter{"balance", 0, 0, 1,
                 "1: an output of this name, to be added to the loss (--loss cross-entropy+0.01*balance): how unevenly experts are chosen"},
};

/// Latent attention, the index that chooses tokens, and modules that predict further ones.
constexpr std::array kDeepSeekParameters = {
    ZooParameter{"kv_lora", 0, 0, 1'000'000,
                 "width of the vector that keys and values come from (multi-head latent attention, DeepSeek-V2); 0: none"},
    ZooParameter{"q_lora", 0, 0, 1'000'000, "width of the vector that queries come from; 0: from the block's input", "kv_lora"},
    ZooParameter{"nope_dim", 128, 1, 100'000, "features of a head's queries and keys without position", "kv_lora"},
    ZooParameter{"rope_dim", 64, 2, 100'000, "features of a head's queries, and of one key for all, that turn with the position",
                 "kv_lora"},
    ZooParameter{"v_dim", 128, 1, 100'000, "features of a head's values", "kv_lora"},
    ZooParameter{"index_heads", 0, 0, 10'000,
                 "heads of an index that chooses the tokens which a query sees (DeepSeek-V3.2); 0: all are seen"},
    ZooParameter{"index_dim", 128, 2, 100'000, "their features", "index_heads"},
    ZooParameter{"index_top", 2048, 1, 1'000'000, "tokens, or blocks of them, that a query sees", "index_heads"},
    ZooParameter{"index_block", 0, 0, 100'000,
                 "tokens that are chosen together, by every head for a group of heads that share a key (MiniMax-M3); 0: each "
                 "by itself",
                 "index_heads"},
    ZooParameter{"index_from", 0, 0, 10'000, "first blocks that see all tokens", "index_heads"},
    ZooParameter{"index_first", 0, 0, 10'000, "first blocks that choose by themselves (GLM-5.2)", "index_heads"},
    ZooParameter{"index_every", 1, 1, 10'000, "behind them every so many blocks one chooses, the others see what it chose", "index_heads"},
    ZooParameter{"mtp", 0, 0, 100,
                 "modules that predict a further token each (DeepSeek-V3), with an output of this name: --loss cross-entropy+0.3*mtp"},
};

constexpr auto kMoe = joined_parameters(
    std::array{layers_default(32), hidden_default(4096), heads_default(32), kv_heads_default(8), kHeadDim,
               ZooParameter{"ffn", 14336, 0, 10'000'000, "width of the feed-forward layer of blocks without experts; 0: 4 hidden"},
               seq_default(2048), vocab_default(32000), tied_default(0), rotary_default(100), theta_default(1'000'000)},
    kAttentionParameters, kDeltaParameters, kBlockParameters, kExpertParameters, kDeepSeekParameters, std::array{kDecoderBatch});

}  // namespace rehearsal::graph::zoo
