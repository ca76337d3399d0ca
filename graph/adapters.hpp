#pragma once
// Low-rank adapters beside weights that are not trained (Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models", 2021):
// y = x W + (alpha / rank) (x A) B, where A [in, rank] is drawn uniformly from ±1/sqrt(in) and B [rank, out] is zero, so that training
// begins with the model as it was.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.hpp"

namespace rehearsal::graph {

struct AdapterOptions {
  std::int64_t rank = 16;
  double alpha = 0;                  ///< 0: the rank, so that the factor is 1
  std::vector<std::string> targets;  ///< globs of names of weights or of the nodes that multiply with them; none: see below

  /// What the product of an adapter is multiplied with.
  [[nodiscard]] double factor() const { return alpha == 0 ? 1 : alpha / static_cast<double>(rank); }
};

struct AdaptedModel {
  Graph graph;               ///< every parameter Frozen but those of the adapters
  std::int64_t weights = 0;  ///< that have an adapter
};

inline constexpr std::string_view kAdapterA = ".lora_A", kAdapterB = ".lora_B";

/// A model with adapters beside the weights that `targets` names, or, where it names none, beside all matrices that activations are
/// multiplied with, but for those that make the model's outputs. A weight that several nodes use has one adapter. Throws BadInput naming a
/// glob that matches no weight of a product, or a rank outside [1, the smaller side of a weight]; Refusal when there is no such weight.
[[nodiscard]] AdaptedModel with_adapters(const Graph& model, const AdapterOptions& options);

}  // namespace rehearsal::graph
