#pragma once
// What a trained model is worth: loss and outputs on samples that are not trained on, in one process.

#include <map>
#include <optional>
#include <set>
#include <string>

#include "exec/checkpoint/checkpoint.hpp"
#include "exec/data/data.hpp"
#include "exec/data/npz.hpp"
#include "graph/evaluation_graph.hpp"
#include "graph/losses.hpp"

namespace rehearsal::exec {

/// The model for one size of batch. Throws BadInput when it cannot be had.
using ModelOfBatch = std::function<graph::EvaluationGraph(std::int64_t batch)>;

/// A label that says that there is none, as in PyTorch.
inline constexpr std::int64_t kIgnoredLabel = graph::CrossEntropy{}.ignore_index;

struct EvaluationOptions {
  DataOptions data;  ///< in order
  int threads = 1;
  std::uint64_t seed = 0;  ///< of weights that nothing gives
  bool keep_outputs = false;
  std::string backend = "auto";
  /// Weights that the values may lack, because they were not trained; nothing: it is not known which.
  std::optional<std::set<std::string>> untrained = {};
};

struct EvaluationResult {
  std::int64_t samples = 0;
  std::optional<double> loss;               ///< mean over the samples, or over the labels that are not ignored
  std::optional<double> accuracy;           ///< share of labels that have the largest output; where the target is one of classes
  bool ignores_all = false;                 ///< there are labels, and none of them counts
  std::string not_finite;                   ///< the first sample with a loss (without one: outputs) that is no finite number, as its data
                                            ///< calls it: "row 17 of test.npz"; empty: there is none
  std::map<std::string, NpyArray> outputs;  ///< of all samples, under the model's names
};

/// Evaluates batch after batch; the last one may be smaller. `values` replace stored tensors of these names; all ranks call it, the first
/// computes. `smallest`: the only batch that the model can be had for, 0 when any.
[[nodiscard]] EvaluationResult evaluate(const ModelOfBatch& model, std::int64_t batch, const StoredValues& values, Communicator& world,
                                        const EvaluationOptions& options);

}  // namespace rehearsal::exec
