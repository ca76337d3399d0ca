#pragma once
#include <cstdint>

#include "graph/builder.hpp"

namespace rehearsal::graph {

/// What cross-entropy is over: `log_probabilities` for scores that are log softmax already (negative log likelihood).
struct CrossEntropy {
  TensorId scores = TensorId::None;         ///< [n, classes, ...] (class axis `axis`)
  TensorId target = TensorId::None;         ///< integer labels, the shape of the scores without the class axis
  TensorId class_weights = TensorId::None;  ///< [classes], optional
  int axis = 1;
  std::int64_t ignore_index = -100;
  double label_smoothing = 0;
  bool log_probabilities = false;
};
enum class LossReduction : std::uint8_t { Mean, Sum };

/// The loss as a scalar f64: the sum, or the mean over the weights of the labels that are not ignored.
TensorId add_cross_entropy(GraphBuilder& builder, const CrossEntropy& loss, LossReduction reduction = LossReduction::Mean);

}  // namespace rehearsal::graph
