#pragma once
// What training comes to without a plan: the graph interpreted node by node, whole, in this process.

#include <map>
#include <vector>

#include "exec/executor.hpp"
#include "graph/training.hpp"
#include "tests/exec/property/grouped_run.hpp"

namespace rehearsal::property {

struct Trained {
  std::vector<double> losses;
  std::map<graph::TensorId, std::vector<double>> stored;  ///< parameters, slots and states after the last step
};

/// `groups`: samples that batch normalization takes together; empty: all. `noise` other than 0: parameters and inputs are moved by one unit
/// of rounding, up or down at random, before every step: what rounding leads to.
[[nodiscard]] Trained train_whole(const graph::TrainingGraph&, std::int64_t steps, const SampleGroups& groups, std::uint64_t noise = 0);

/// The largest difference of what this rank stores from the whole training, and of the losses, in parts of the largest element (at least
/// 1e-3) or of the loss (at least 1).
struct Difference {
  double losses = 0, stored = 0;
  graph::TensorId where = graph::TensorId::None;
};
[[nodiscard]] Difference difference(const graph::TrainingGraph&, exec::Executor&, const std::vector<double>& losses, const Trained& whole);
[[nodiscard]] Difference difference(const graph::TrainingGraph&, const Trained&, const Trained& whole);

}  // namespace rehearsal::property
