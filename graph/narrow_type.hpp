#pragma once
// A model in a 16-bit type. Everything is rounded to it but what small batch statistics would amplify.

#include <cstdint>
#include <string>

#include "graph/graph.hpp"

namespace rehearsal::graph {

/// Where a BatchNormalization of the model has fewer values per channel than this, each one over fewer than kEnoughStatistics computes in
/// f32, with the product that it normalizes and with what it feeds, up to the loss or to products that are normalized over enough values.
/// Deep networks with batch normalization amplify small differences from layer to layer (Yang et al., "A mean field theory of batch
/// normalization", ICLR 2019, section 3), and statistics of few values do not average roundings out: with 16 bits such a network soon
/// follows a course of its own.
///
/// The bound is chosen, between the development cases (36 to 100 values at their last layers), of which some miss PyTorch's losses by 6 to
/// 29 % within ten steps where not all of their normalizations are kept, and networks that are as near to f32 without (288 to 392 values,
/// docs/onnx.md).
inline constexpr std::int64_t kFewestStatistics = 256;
inline constexpr std::int64_t kEnoughStatistics = 2048;  ///< that average roundings out, whatever follows

struct NarrowedGraph {
  Graph graph;
  std::int64_t kept = 0;           ///< nodes that compute in f32
  std::string first;               ///< the first normalization that is kept; "" for none
  std::int64_t fewest_values = 0;  ///< smallest number of values that a statistic of theirs has
  double share = 0;                ///< of the FLOPs of convolutions and matrix products in a step, what they compute: what the rule costs
};

/// The model with every f32 tensor in `dtype` (f16 or bf16), running statistics and what the rules above say apart. A Cast stands where
/// the one meets the other.
[[nodiscard]] NarrowedGraph with_narrow_type(const Graph& model, DType dtype);

}  // namespace rehearsal::graph
