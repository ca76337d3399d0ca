#pragma once
// Attention as the zoo's transformers use it (Vaswani et al., "Attention Is All You Need", 2017), decomposed into products and softmax.

#include <string>

#include "graph/zoo/layers.hpp"

namespace rehearsal::graph::zoo {

/// Rotary position embedding (Su et al., "RoFormer", 2021): tables [positions, width / 2]; the first `width` features of a head turn.
struct RotaryTables {
  TensorId cosine = TensorId::None, sine = TensorId::None;
  std::int64_t width = 0;
};
/// Positions 0, 1, … of frequencies base^(-2i/width); `width` must be even. Nodes are named after `name`.
[[nodiscard]] RotaryTables make_rotary(Layers&, const std::string& name, std::int64_t length, std::int64_t width, double base = 10'000);
/// x [..., positions, features]: its first rotary.width features turned by the angle of their position, halves being pairs (as in GPT-NeoX
/// and Llama).
[[nodiscard]] TensorId rotated(Layers&, const std::string& name, TensorId x, const RotaryTables&);

/// An RMS norm of queries and keys (Henry et al. 2020).
enum class HeadNorm : std::uint8_t {
  None,
  OfHead,      ///< over the features of a head, with weights that all heads share (Qwen3)
  OfHeads,     ///< over the features of all heads together (OLMo 2, MiniMax-M2): the projections' matter, not attend()'s
  Unweighted,  ///< over the features of a head, without weights (Llama 4)
};

/// Queries come in groups that share keys and values (Ainslie et al., "GQA", 2023) where there are fewer `kv_heads` than `heads`.
struct Attention {
  std::int64_t heads = 1, kv_heads = 1;
  TensorId mask = TensorId::None;    ///< bool, broadcast to the scores [queries, keys]: true where a query may see a key
  TensorId masked = TensorId::None;  ///< the score where it may not
  TensorId bias = TensorId::None;    ///< added to the scores [heads, queries, keys]; only with kv_heads = heads
  TensorId scale = TensorId::None;   ///< of the scores; None: not scaled
  double cap = 0;                    ///< scores are bent by cap · tanh(score / cap) (Gemma 2, 2024); 0: they are not
  RotaryTables rotary;
  TensorId sinks = TensorId::None;  ///< [heads], a score of each head that takes part in the softmax and has no value (gpt-oss, 2025)
  HeadNorm norm = HeadNorm::None;   ///< of queries and keys, before they turn
  bool norm_values = false;         ///< values have an RMS norm over a head's features, without weights (Gemma 4, 2026)
};
/// Throws BadInput naming `model` when hidden is no multiple of heads, or heads none of kv_heads.
void require_heads(const std::string& model, std::int64_t hidden, std::int64_t heads, std::int64_t kv_heads);
/// An attention over heads of `width` features with 1/sqrt(width) as its scale, and the score of what is masked.
[[nodiscard]] Attention make_attention(Layers&, std::int64_t heads, std::int64_t kv_heads, std::int64_t width);

/// cap · tanh(x / cap)
[[nodiscard]] TensorId capped(Layers&, const std::string& name, TensorId x, double cap);
/// [length, length], bool: true where a token (row) may look at another (column): not after itself.
[[nodiscard]] TensorId causal_mask(Layers&, std::int64_t length);
/// The same where the key is at most window - 1 tokens before the query, too (Beltagy et al., "Longformer", 2020; Mistral 7B).
[[nodiscard]] TensorId window_mask(Layers&, TensorId causal, std::int64_t window, std::int64_t length);
/// 0, 1, … as a tensor of this shape and type; one node where it is too large to be a constant.
[[nodiscard]] TensorId positions(Layers&, const std::string& name, Shape shape, DType dtype = DType::I64);

/// q [batch, queries, heads · width], k and v [batch, keys, kv_heads · width]; or by head, as attend_by_head() takes them.
struct Projections {
  TensorId q, k, v;
};
/// [batch, queries, heads · width]
TensorId attend(Layers&, const std::string& name, const Projections&, const Attention&);
/// q [batch, heads, queries, width], k [batch, heads, width, keys], v [batch, heads, keys, features], or with two axes (kv_heads, group) in
/// place of heads; [batch, queries, heads · features].
TensorId attend_by_head(Layers&, const std::string& name, const Projections&, const Attention&);

}  // namespace rehearsal::graph::zoo
