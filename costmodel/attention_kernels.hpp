#pragma once
// Fused attention of libraries as it was measured alone on a cool device: costmodel/constants/attention.json, which
// scripts/distil-attention writes from published tables.

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rehearsal::costmodel {

struct AttentionKernels {
  std::string generation;
  double share = 1;    ///< of the 16-bit peak, at which occupied_attention passes; in training, which heats the device, less
  double rows = 128;   ///< queries of a tile
  double softmax = 0;  ///< what exponentials and sums of one pair of query and key cost, in elements of a head
  double fill = 0;     ///< keys that starting and ending a tile costs
};

/// `heads` of all samples together, each with `queries` against at most `keys`; a query sees `pairs` keys in the mean (half of them under a
/// triangle). `width`: elements of a query and of a value.
struct AttentionShape {
  double heads = 1, queries = 1, keys = 1, pairs = 1, width = 128;
};

/// FLOPs of the time that `units` multiprocessors are occupied by the forward pass: tiles of `rows` queries against all keys that one of
/// them sees, spread evenly, but for half of the longest one at the end; never less than the longest (Dao, "FlashAttention-2", 2023,
/// section 3.2, says how the work is spread).
[[nodiscard]] double occupied_attention(const AttentionShape&, int units, const AttentionKernels&);

/// The row of a generation; of one that nobody measured Ampere's before it, Hopper's after.
[[nodiscard]] const AttentionKernels& attention_kernels(std::string_view generation);
[[nodiscard]] std::span<const AttentionKernels> measured_attention_kernels();
/// Throws BadInput naming `where`, the row and what is wrong with it.
[[nodiscard]] std::vector<AttentionKernels> attention_kernels_from_json_text(const std::string& text, const std::string& where);

}  // namespace rehearsal::costmodel
