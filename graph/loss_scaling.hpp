#pragma once
// Loss scaling ("Mixed Precision Training", Micikevicius et al., ICLR 2018, section 3.2): small gradients survive f16 when the loss is
// multiplied before it is differentiated and the gradients are divided afterwards. A step whose loss or gradients are not finite updates
// nothing, nor does it count for the optimizer.

#include <vector>

#include "graph/builder.hpp"
#include "graph/training.hpp"
#include "graph/update_writer.hpp"

namespace rehearsal::graph {

// PyTorch's GradScaler, but for where it begins: 65536 loses the first steps of many models.
inline constexpr double kFirstLossScale = 1024, kLossScaleGrowth = 2, kLossScaleBackoff = 0.5;
inline constexpr std::int64_t kLossScaleGrowthSteps = 2000;

/// What the loss is multiplied by before it is differentiated.
struct LossScale {
  double first = 0;     ///< 0: the loss is not scaled
  bool adapts = false;  ///< halved when a gradient is not finite, doubled after many steps in which all are
};

/// build_training_graph() with a scaled loss.
[[nodiscard]] TrainingGraph build_training_graph(const Graph& model, const TrainingOptions& options, const LossScale& scale);

class LossScaling {
 public:
  LossScaling(GraphBuilder& builder, const LossScale& scale);
  [[nodiscard]] bool used() const { return scale_ != TensorId::None; }
  /// What is differentiated instead of the loss.
  [[nodiscard]] TensorId scaled(TensorId loss);
  /// The gradients that the loss itself has, in f32 where they have 16 bits; entries None stay None. Adds the adaptation of the scale.
  [[nodiscard]] std::vector<TensorId> unscaled(TensorId loss, const std::vector<TensorId>& gradients);
  /// `updated`, or `old` in a step that is not finite.
  [[nodiscard]] TensorId kept(TensorId updated, TensorId old);

 private:
  void adapt();

  GraphBuilder& builder_;
  StepWriter writer_;
  bool adapts_;
  TensorId scale_ = TensorId::None, count_ = TensorId::None, finite_ = TensorId::None;
};

}  // namespace rehearsal::graph
