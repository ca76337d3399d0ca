#pragma once
// What the gradient noise scale is measured from (McCandlish et al., "An Empirical Model of Large-Batch Training", 2018, appendix A.1):
// squares of the gradient of a batch, and of the gradients of its parts (ranks' samples, micro-batches), which are noisier.

#include <span>
#include <string_view>

#include "graph/builder.hpp"

namespace rehearsal::graph {

/// The operator whose operand, a sum over samples, is seen part by part where ranks and micro-batches have parts of it. Its result has a
/// number for each of the `samples` of the batch: at the first one of a part that part's squared norm, elsewhere 0.
inline constexpr std::string_view kSquaresOfParts = "SquaredNormOfParts";
/// Slots that no checkpoint needs.
inline constexpr std::string_view kMeasuredPrefix = "noise_scale.";
[[nodiscard]] inline bool is_measured(std::string_view tensor) { return tensor.starts_with(kMeasuredPrefix); }

struct NoiseTensors {
  TensorId parts = TensorId::None;  ///< slot, f64 by sample: |part|^2 where one begins, of gradients of the mean loss over the batch
  TensorId whole = TensorId::None;  ///< slot, f64: |gradient|^2 before clipping
};
/// Over all of `gradients`, of which some may be None, of a batch of so many samples.
[[nodiscard]] NoiseTensors add_noise_measurement(GraphBuilder& builder, std::span<const TensorId> gradients, std::int64_t batch);

}  // namespace rehearsal::graph
