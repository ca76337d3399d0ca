#pragma once
// What layers that scan a sequence by chunks have in common.

#include <string>

#include "graph/zoo/layers.hpp"

namespace rehearsal::graph::zoo {

/// x [batch, tokens, channels] to the same: every channel by itself over the `kernel` tokens up to a token, then silu of it.
[[nodiscard]] TensorId causal_convolution(Layers&, const std::string& name, TensorId x, std::int64_t kernel, bool bias);

enum class Triangle : std::uint8_t { WithDiagonal, BelowDiagonal };
/// exp(row - column) in the lower triangle of [..., length, length], else 0; rows [..., length, 1], columns [..., 1, length].
[[nodiscard]] TensorId decays(Layers&, const std::string& name, TensorId rows, TensorId columns, Triangle);

}  // namespace rehearsal::graph::zoo
