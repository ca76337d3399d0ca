#pragma once
#include <functional>
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

/// By what stages are balanced.
struct StageBalance {
  std::function<double(graph::NodeId)> node_cost;  ///< relative cost of a forward node with its backward nodes; absent: by FLOPs and bytes
  std::vector<double> speeds;                      ///< relative, of every stage's device; empty: all alike
};

/// Cuts the forward nodes into plan.pp consecutive stages: at plan.cuts where given, else so that the stage that takes longest takes least,
/// moving each cut within a tolerance to where the fewest bytes cross. Backward nodes follow their forward node, updates their gradient.
/// Throws BadInput when a cut names no node or cuts are not in order, Refusal when there are fewer nodes than stages.
[[nodiscard]] StageAssignment assign_stages(const graph::TrainingGraph&, const Plan&, const StageBalance&);

/// Time of a forward node with its backward on a machine of 100 FLOP per byte, in arbitrary units: enough to balance stages.
[[nodiscard]] double roofline_cost(const graph::Graph&, graph::NodeId);

}  // namespace rehearsal::plan
