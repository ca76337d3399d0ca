#pragma once
// What nobody trains, told by its values since files seldom say so: positions written as sines and cosines, the padding row of a table.

#include "graph/graph.hpp"

namespace rehearsal::formats {

/// 1, r, r^2, ... with r < 1, four or more: the frequencies of rotary embeddings (Su et al., "RoFormer", 2021, equation 15).
[[nodiscard]] bool is_rotary_frequencies(const graph::TensorType& type, const graph::Contents& contents);

/// [..., positions, features]: each feature the sine or the cosine of position times a frequency, three
/// positions and four features or more (Vaswani et al., "Attention is all you need", 2017, section 3.5).
[[nodiscard]] bool is_sinusoidal_table(const graph::TensorType& type, const graph::Contents& contents);

/// A matrix with zeros in exactly one of its first four rows and its last. Reads no more than these.
[[nodiscard]] bool has_padding_row(const graph::TensorType& type, const graph::Contents& contents);

}  // namespace rehearsal::formats
