#pragma once
// The forward results that a backward pass might make again: how large they are, who reads them, what making them takes.

#include <cstdint>
#include <vector>

#include "graph/training.hpp"
#include "plan/sharding/sharding.hpp"

namespace rehearsal::plan {

/// Views share the memory of their operand; all questions about a tensor are answered for the one whose memory it is, its root.
class ForwardResults {
 public:
  /// `part_of_node`: of the pipeline (stage and chunk), -1 where every part has the node.
  ForwardResults(const graph::TrainingGraph&, const Sharding&, std::vector<int> part_of_node);

  [[nodiscard]] const graph::Graph& graph() const { return g_; }
  [[nodiscard]] graph::TensorId root(graph::TensorId t) const { return roots_[graph::index(t)]; }
  /// On the rank of coordinates 0, as produced: the same figure for all ranks, so that they choose alike. 0 of what is stored.
  [[nodiscard]] std::int64_t bytes(graph::TensorId root) const { return bytes_[graph::index(root)]; }
  /// Does the backward pass read it?
  [[nodiscard]] bool is_saved(graph::TensorId root) const { return saved_[graph::index(root)]; }
  /// Can its part make it again: is it computed from samples in every micro-batch, read by its part alone, and no mere statistic?
  [[nodiscard]] bool can_drop(graph::TensorId root) const { return droppable_[graph::index(root)]; }
  /// Depends on samples, so that it differs between micro-batches.
  [[nodiscard]] bool from_samples(graph::TensorId t) const { return sampled_[graph::index(t)]; }
  [[nodiscard]] bool is_view(graph::NodeId) const;
  [[nodiscard]] int part(graph::NodeId n) const { return part_of_node_[graph::index(n)]; }

  /// Forward nodes of a part that compute something of samples, in order; views are left out.
  [[nodiscard]] std::vector<graph::NodeId> nodes_of(int wanted) const;
  [[nodiscard]] int parts() const { return parts_; }
  /// Operands that are forward results, by root, none twice.
  [[nodiscard]] std::vector<graph::TensorId> operands(graph::NodeId) const;
  /// The last forward node of a part that reads each tensor (by root), None where none does.
  [[nodiscard]] const std::vector<graph::NodeId>& last_readers() const { return last_readers_; }
  /// Marks every tensor whose root is marked.
  [[nodiscard]] std::vector<bool> with_views(std::vector<bool> marked) const;

 private:
  void find_roots();
  void find_readers();
  void find_droppable(const Sharding&);
  [[nodiscard]] bool is_statistic(graph::TensorId root) const;
  [[nodiscard]] bool leaves_loop(graph::TensorId root, const Sharding&) const;

  const graph::TrainingGraph& training_;
  const graph::Graph& g_;
  std::vector<int> part_of_node_;
  int parts_ = 1;
  std::vector<graph::TensorId> roots_;
  std::vector<std::int64_t> bytes_;
  std::vector<bool> saved_, droppable_, sampled_;
  std::vector<bool> stays_;  ///< by root: read by its own part alone, and by no update
  std::vector<graph::NodeId> last_readers_;
};

}  // namespace rehearsal::plan
