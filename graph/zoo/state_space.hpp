#pragma once
// Selective state-space layers in their chunked form (Dao, Gu, "Transformers are SSMs" (Mamba-2), 2024, section 6 and listing 1).

#include <string>

#include "graph/zoo/layers.hpp"

namespace rehearsal::graph::zoo {

struct StateSpace {
  std::int64_t heads = 64, width = 64;  ///< heads of so many features
  std::int64_t state = 128;             ///< features of a head's state
  std::int64_t groups = 8;              ///< of heads that share what goes into the state and out of it
  std::int64_t kernel = 4;              ///< tokens that the convolution before the scan sees
  std::int64_t chunk = 128;             ///< tokens that are computed by products; states are handed from chunk to chunk
};

/// Throws BadInput naming `model` where heads are no multiple of groups, or a sequence longer than a chunk none of chunk.
void require_state_space(const std::string& model, const StateSpace&, std::int64_t seq);

/// x [batch, seq, hidden] to the same: a product to gate, scanned features and step lengths, a causal convolution by channel, the scan
/// state = exp(-a step) state + step B x, y = C state + D x, a gated RMS norm by group, and a product back. All heads' states start at 0.
TensorId state_space(Layers&, const std::string& name, TensorId x, const StateSpace&);

}  // namespace rehearsal::graph::zoo
