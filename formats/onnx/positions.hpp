#pragma once
// Positions that models write as sines and cosines, told by their values: files seldom say that nobody trains them.

#include "graph/graph.hpp"

namespace rehearsal::formats {

/// 1, r, r^2, ... with r < 1, four or more: the frequencies of rotary embeddings (Su et al., "RoFormer", 2021, equation 15).
[[nodiscard]] bool is_rotary_frequencies(const graph::TensorType& type, const graph::Contents& contents);

/// [..., positions, features]: each feature the sine or the cosine of position times a frequency, three
/// positions and four features or more (Vaswani et al., "Attention is all you need", 2017, section 3.5).
[[nodiscard]] bool is_sinusoidal_table(const graph::TensorType& type, const graph::Contents& contents);

}  // namespace rehearsal::formats
