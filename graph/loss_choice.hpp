#pragma once
#include "graph/builder.hpp"
#include "graph/training.hpp"

namespace rehearsal::graph {

struct ChosenLoss {
  TensorId loss = TensorId::None;    ///< scalar f64; None when there is none
  TensorId target = TensorId::None;  ///< None when the loss is an output of the model
};

/// Adds the loss that the options name, or that the model ends in, and the input of its target. `builder` continues `model`.
/// Throws BadInput listing what the loss can be when it is not known, or naming what does not fit.
[[nodiscard]] ChosenLoss add_loss(GraphBuilder& builder, const Graph& model, const TrainingOptions& options);

}  // namespace rehearsal::graph
