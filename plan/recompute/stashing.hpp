#pragma once
// Forward results that wait for the backward pass elsewhere than in the device's memory, or in fewer bits.

#include <vector>

#include "plan/plan.hpp"
#include "plan/recompute/recompute.hpp"

namespace rehearsal::plan {

enum class StashKind : std::uint8_t {
  None,
  Host,    ///< in the host's memory: vDNN (Rhu et al., MICRO 2016)
  Signs,   ///< one bit an element, where the backward pass asks only whether a ReLU's result is positive ("binarize": Jain et al., "Gist",
           ///< ISCA 2018, section 4.1)
  Sparse,  ///< elements other than zero, where a ReLU makes the others: see sparse.hpp
  F16,     ///< rounded ("delayed precision reduction": Gist, section 4.2): other mathematics
  BF16,
};

/// A result is stashed after its last use in the forward pass and restored before its first in the backward pass.
struct Stashing {
  std::vector<StashKind> kinds;           ///< by tensor; empty: nothing is
  std::vector<graph::TensorId> in_order;  ///< those that are, in the order of their last forward use
  [[nodiscard]] StashKind of(graph::TensorId t) const { return kinds.empty() ? StashKind::None : kinds[graph::index(t)]; }
};

/// By the plan's `offload` and `compression`; of what `recomputation` keeps.
[[nodiscard]] Stashing stashing_of(const Plan&, const ForwardResults&, const Sharding&, const Recomputation& recomputation);

}  // namespace rehearsal::plan
