#pragma once
#include <vector>

#include "graph/training.hpp"
#include "plan/plan.hpp"

namespace rehearsal::plan {

/// Which pipeline stage runs each node. Nodes that depend on nothing trained and nothing computed from samples are `kAnyStage`: every stage
/// that needs them computes them itself.
inline constexpr int kAnyStage = -1;

struct StageAssignment {
  std::vector<int> of_node;  ///< by NodeId
  [[nodiscard]] int operator[](graph::NodeId n) const { return of_node[graph::index(n)]; }
};

/// By what stages are balanced, all in one unit of time.
struct StageBalance {
  /// By NodeId, of a forward node with its backward nodes and updates: a row for every stage, or one for all. Empty: roofline_cost().
  std::vector<std::vector<double>> node_costs = {};
  std::vector<double> sending_costs = {};  ///< by TensorId, of a result that crosses a cut, and its gradient; empty: none
  std::vector<int> devices = {};           ///< that have the stages, where one has several; empty: each has its own
};

/// Cuts the forward nodes into plan.pp consecutive stages: at plan.cuts where given, else so that the stage that takes longest takes least
/// together with what crosses the cuts. Backward nodes follow their forward node, updates their gradient.
/// Throws BadInput when a cut names no node or cuts are not in order, Refusal when there are fewer nodes than stages.
[[nodiscard]] StageAssignment assign_stages(const graph::TrainingGraph&, const Plan&, const StageBalance&);

/// Time of a forward node on a machine of 100 FLOP per byte, in arbitrary units.
[[nodiscard]] double roofline_cost(const graph::Graph&, graph::NodeId);

}  // namespace rehearsal::plan
