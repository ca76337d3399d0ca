#pragma once
// A training graph interpreted whole, but with batch normalization over each of several groups of samples: what bn=local and bn=sync mean,
// from the definition and without a plan. Running statistics are those of the whole batch.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "exec/play/interpreter.hpp"
#include "graph/training.hpp"
#include "plan/program/program.hpp"

namespace rehearsal::property {

/// Samples by group, each of which normalizes by itself.
using SampleGroups = std::vector<std::vector<std::int64_t>>;
/// Those of a plan; empty where the whole batch is one group.
[[nodiscard]] SampleGroups groups_of(const plan::Program&);

class GroupedRun {
 public:
  GroupedRun(const graph::Graph&, SampleGroups);
  ~GroupedRun();
  GroupedRun(const GroupedRun&) = delete;
  GroupedRun& operator=(const GroupedRun&) = delete;

  void set(graph::TensorId, std::span<const std::byte> elements);
  void set_reals(graph::TensorId, std::span<const double> values);
  [[nodiscard]] std::vector<double> get_reals(graph::TensorId) const;
  [[nodiscard]] std::span<const std::byte> get(graph::TensorId t) const { return values_[graph::index(t)]; }
  void run(std::int64_t step);
  /// As exec::Interpreter has it.
  void touch_results(exec::Interpreter::Touch touch) { touch_ = std::move(touch); }

 private:
  struct Task;
  void run_whole(Task&, std::int64_t step);
  void run_by_groups(Task&, std::int64_t step);

  const graph::Graph& g_;
  SampleGroups groups_;
  exec::Interpreter::Touch touch_;
  std::vector<std::vector<std::byte>> values_;                ///< by tensor
  std::vector<std::vector<std::vector<double>>> statistics_;  ///< [tensor][group], of sums over samples
  std::vector<std::unique_ptr<Task>> tasks_;                  ///< by node
};

}  // namespace rehearsal::property
