#pragma once
// What a trained model is worth: loss and outputs on samples that are not trained on, in one process.

#include <map>
#include <optional>
#include <string>

#include "exec/checkpoint/checkpoint.hpp"
#include "exec/data/data.hpp"
#include "exec/data/npz.hpp"
#include "graph/inference_graph.hpp"

namespace rehearsal::exec {

/// The model for one size of batch. Throws BadInput when it cannot be had.
using ModelOfBatch = std::function<graph::EvaluationGraph(std::int64_t batch)>;

struct EvaluationOptions {
  DataOptions data;  ///< in order
  int threads = 1;
  std::uint64_t seed = 0;  ///< of weights that nothing gives
  bool keep_outputs = false;
  std::string backend = "auto";
};

struct EvaluationResult {
  std::int64_t samples = 0;
  std::optional<double> loss;               ///< mean over the samples, or over the labels that are not ignored
  std::optional<double> accuracy;           ///< share of labels that have the largest output; where the target is one of classes
  std::map<std::string, NpyArray> outputs;  ///< of all samples, under the model's names
};

/// Evaluates batch after batch; the last one may be smaller. `values` replace stored tensors of these names; all ranks call it, the first
/// computes. `smallest`: the only batch that the model can be had for, 0 when any.
[[nodiscard]] EvaluationResult evaluate(const ModelOfBatch& model, std::int64_t batch, const StoredValues& values, Communicator& world,
                                        const EvaluationOptions& options);

}  // namespace rehearsal::exec
