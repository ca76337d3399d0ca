#pragma once
// A model as it is used after training: running statistics instead of the batch's, nothing dropped, nothing updated.

#include "graph/training.hpp"

namespace rehearsal::graph {

struct EvaluationGraph {
  TrainingGraph step;              ///< forward nodes alone; the loss is None when the options say "none"
  std::vector<TensorId> outputs;   ///< the model's, in its order
  std::vector<std::string> names;  ///< of the outputs, as the model calls them
};

/// Reads loss and target name of the options. Stored tensors keep their names. A BatchNormalization without running statistics keeps those
/// of the batch. Throws BadInput as build_training_graph() does for losses.
[[nodiscard]] EvaluationGraph build_evaluation_graph(const Graph& model, const TrainingOptions& options);

/// Size of the first dimension of the model's inputs; 0 when they have none.
[[nodiscard]] std::int64_t batch_of(const Graph& model);

}  // namespace rehearsal::graph
