#pragma once
#include <span>
#include <vector>

#include "graph/builder.hpp"

namespace rehearsal::graph {

/// `gradients` scaled by min(1, most / (norm + 1e-6)), norm being that of all of them as one vector: PyTorch's clip_grad_norm_
/// (Pascanu, Mikolov, Bengio, "On the difficulty of training recurrent neural networks", ICML 2013, algorithm 1). Entries None stay None.
[[nodiscard]] std::vector<TensorId> add_clipping(GraphBuilder& builder, std::span<const TensorId> gradients, double most);

/// `gradients` with every element brought into [-most, most]: PyTorch's clip_grad_value_. Entries None stay None.
[[nodiscard]] std::vector<TensorId> add_value_clipping(GraphBuilder& builder, std::span<const TensorId> gradients, double most);

}  // namespace rehearsal::graph
