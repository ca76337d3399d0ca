#pragma once
// What the gradient noise scale is measured from (McCandlish et al., "An Empirical Model of Large-Batch Training", 2018, appendix A.1):
// squares of the gradient of a batch, and of the gradients of its parts (ranks' samples, micro-batches), which are noisier.

#include <span>
#include <string_view>

#include "graph/builder.hpp"

namespace rehearsal::graph {

/// The operator whose operand, a sum over samples, is seen part by part where ranks and micro-batches have parts of it: its result is the
/// sum of the squared norms of the parts.
inline constexpr std::string_view kSquaresOfParts = "SquaredNormOfParts";
/// Slots that no checkpoint needs.
inline constexpr std::string_view kMeasuredPrefix = "noise_scale.";
[[nodiscard]] inline bool is_measured(std::string_view tensor) { return tensor.starts_with(kMeasuredPrefix); }

struct NoiseTensors {
  TensorId parts = TensorId::None;  ///< slot, f64: sum of |part|^2, of gradients of the mean loss over the batch
  TensorId whole = TensorId::None;  ///< slot, f64: |gradient|^2 before clipping
};
/// Over all of `gradients`, of which some may be None.
[[nodiscard]] NoiseTensors add_noise_measurement(GraphBuilder& builder, std::span<const TensorId> gradients);

}  // namespace rehearsal::graph
