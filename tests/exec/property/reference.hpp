#pragma once
// What training comes to without a plan: the graph interpreted node by node, whole, in this process.

#include <map>
#include <vector>

#include "exec/play/executor.hpp"
#include "graph/training.hpp"
#include "tests/exec/property/grouped_run.hpp"

namespace rehearsal::property {

struct Trained {
  std::vector<double> losses;
  std::map<graph::TensorId, std::vector<double>> stored;  ///< parameters, slots and states after the last step
};

/// One unit of rounding: between 1 and the next number of a type.
[[nodiscard]] double rounding_of(DType);

struct WholeOptions {
  std::int64_t steps = 1;
  /// Other than 0: parameters, inputs and every result of every node are moved by one unit of rounding, up or down at random, in every
  /// step: what rounding leads to.
  std::uint64_t noise = 0;
  /// Updates by which the weights that gradients are taken at are older than those that the update changes: of asynchronous schedules.
  std::map<graph::TensorId, int> delays = {};
  /// Samples that batch normalization takes together; empty: all. Not together with delays.
  SampleGroups groups = {};
};
[[nodiscard]] Trained train_whole(const graph::TrainingGraph&, const WholeOptions&);
/// Of the parameters that a Program's stages keep several versions of.
[[nodiscard]] std::map<graph::TensorId, int> delays_of(const plan::Program&);
/// So many that the second one is in the middle of them.
[[nodiscard]] std::int64_t steps_to_prove(const plan::Program&);

/// The largest difference of what this rank stores from the whole training, and of the losses, in parts of the largest element (at least
/// 1e-3) or of the loss (at least 1).
struct Difference {
  double losses = 0, stored = 0;
  graph::TensorId where = graph::TensorId::None;
};
[[nodiscard]] Difference difference(const graph::TrainingGraph&, exec::Executor&, const std::vector<double>& losses, const Trained& whole);
[[nodiscard]] Difference difference(const graph::TrainingGraph&, const Trained&, const Trained& whole);

}  // namespace rehearsal::property
