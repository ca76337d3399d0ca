#pragma once
// Attention over a window and, beyond it, over compressed tokens (DeepSeek-AI, "DeepSeek-V4", 2026, section 2.3): one key, which is the
// value, too, for all heads; every so many tokens make one more of them.

#include <string>

#include "graph/zoo/attention.hpp"

namespace rehearsal::graph::zoo {

/// What a layer sees beyond its window.
enum class BeyondWindow : std::uint8_t {
  None,  ///< nothing
  Few,   ///< tokens that overlapping groups of `few` make, of which an index chooses the best
  Many,  ///< all tokens that groups of `many` make
};

struct CompressedAttention {
  std::int64_t heads = 64, width = 512;                               ///< heads of so many features
  std::int64_t turning = 64;                                          ///< of these, turn with the position
  std::int64_t q_rank = 1024;                                         ///< width of the vector that queries come from
  std::int64_t window = 128;                                          ///< tokens that a token sees as they are, itself included
  std::int64_t few = 4, many = 128;                                   ///< tokens that become one
  std::int64_t index_heads = 64, index_width = 128, index_top = 512;  ///< of the index that chooses among few
  std::int64_t out_groups = 8, out_rank = 1024;  ///< groups of heads whose results become narrow vectors before they are brought together
};

/// What all layers of a model share.
struct CompressedTables {
  CompressedAttention sizes;
  Attention attention;             ///< heads and scale
  TensorId near = TensorId::None;  ///< [seq, seq], true where a token sees another within the window
  RotaryTables plain, compressed;  ///< angles of layers without compression, and of the others
};

/// Throws BadInput naming `model` where seq is no multiple of few and many, the features that turn are no pairs or more than there are, or
/// out_groups does not divide heads.
void require_compressed_attention(const std::string& model, const CompressedAttention&, std::int64_t seq);
[[nodiscard]] CompressedTables compressed_tables(Layers&, const CompressedAttention&, std::int64_t seq, double theta,
                                                 double compressed_theta);

/// x [batch, seq, hidden] to the same. The weights of an index are stored and not trained: choosing has no gradient.
[[nodiscard]] TensorId attend_compressed(Layers&, const std::string& name, TensorId x, BeyondWindow, const CompressedTables&);

}  // namespace rehearsal::graph::zoo
