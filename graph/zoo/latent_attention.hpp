#pragma once
// Multi-head latent attention (DeepSeek-AI, "DeepSeek-V2", 2024, section 2.1): keys and values of all heads come from one narrow vector.

#include <string>

#include "graph/zoo/attention.hpp"

namespace rehearsal::graph::zoo {

/// Widths of features.
struct LatentSizes {
  std::int64_t q_rank = 0;        ///< of the vector that queries come from; 0: they come from x
  std::int64_t kv_rank = 512;     ///< of the vector that keys and values come from
  std::int64_t still = 128;       ///< of a head's queries and keys without position
  std::int64_t turning = 64;      ///< of a head's queries, and of the one key that all heads share, which turn with the position
  std::int64_t value_size = 128;  ///< of a head's values
};

struct LatentInput {
  TensorId x = TensorId::None;        ///< [batch, seq, hidden]
  TensorId queries = TensorId::None;  ///< [batch, seq, features], what queries come from: narrow_queries()
};

/// What queries come from: x, or a narrow vector with a norm behind where q_rank says so.
[[nodiscard]] TensorId narrow_queries(Layers&, const std::string& name, TensorId x, const LatentSizes&);
/// To [batch, seq, heads · value_size], what the product after it takes. attention.scale
/// is of still + turning features, attention.rotary of the turning ones. Equations 37 to 47 of the paper; a norm follows each of the narrow
/// vectors.
TensorId attend_latent(Layers&, const std::string& name, const LatentInput&, const LatentSizes&, const Attention&);

}  // namespace rehearsal::graph::zoo
