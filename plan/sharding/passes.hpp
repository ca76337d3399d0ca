#pragma once
// The passes behind shard(), in the order in which they run. Each reads what the earlier ones wrote into the Sharding.

#include <vector>

#include "plan/sharding/sharding.hpp"

namespace rehearsal::plan {

/// What an axis may split, resolved from names; rules in order of preference.
struct AxisRules {
  std::vector<std::vector<graph::AtomId>> atoms;       ///< [rule]: sorted
  std::vector<std::vector<graph::AtomId>> weightless;  ///< the same for operators that read no weight: theirs come before `atoms`
};
/// Throws BadInput when a name is none of a dimension.
[[nodiscard]] std::vector<AxisRules> resolve_rules(const graph::LogicalDims& dims, const std::vector<MeshAxis>& axes);

/// Tensors computed from parameters and constants alone, of which at least one is a parameter.
[[nodiscard]] std::vector<bool> tensors_of_weights(const graph::Graph&);

/// What all passes share.
struct ShardingTask {
  const graph::TrainingGraph& training;
  const graph::Graph& graph;
  const graph::LogicalDims& dims;
  const std::vector<MeshAxis>& axes;
  std::vector<AxisRules> rules;
  std::vector<int> use_count;   ///< [tensor]: operands that read it
  std::vector<bool> data_only;  ///< [tensor]: computed from inputs and constants alone
  std::vector<bool> weights;    ///< [tensor]: a parameter, or computed from parameters and constants alone
  std::vector<bool> whole;      ///< [node * axes + axis]: on data alone, and wanted whole: every coordinate computes all of it
  std::vector<std::vector<graph::NodeId>> unsplit;  ///< [axis]: the nodes among these that would otherwise be split

  std::vector<AttentionRing> rings;        ///< found so far: their operands and results lie otherwise
  std::vector<std::int32_t> ring_of_node;  ///< [node]: index into `rings`, -1: none; empty without rings

  ShardingTask(const graph::TrainingGraph& t, const graph::LogicalDims& d, const std::vector<MeshAxis>& a);
  [[nodiscard]] std::size_t axis_in_time() const;  ///< axes.size() when there is none with more than one micro-batch
  /// What `node` does in the ring that it belongs to; nullptr: it belongs to none.
  [[nodiscard]] const RingNode* in_ring(graph::NodeId node) const;
  [[nodiscard]] bool is_whole(graph::NodeId node, std::size_t axis) const { return whole[graph::index(node) * axes.size() + axis]; }
  /// Stops splitting on `axis` whatever computes `t`, which must be computed from data alone. True when that changes something.
  bool compute_whole(const Sharding& sharding, graph::TensorId t, std::size_t axis);
};

/// Why a node is not split on an axis.
enum class Miss : std::uint8_t { None, NoSuchDimension, ResultLacksIt, TooSmall, PlaceTaken, Scattered, Window };

/// May the node be split by `way` on `axis`, given what `chosen` (one per axis, nullptr: nothing) says for the other axes?
[[nodiscard]] Miss obstacle(const ShardingTask& task, graph::NodeId node, std::size_t axis, const graph::IterDim& way,
                            const std::vector<const graph::IterDim*>& chosen);

/// Choices of the forward nodes, by the rules.
void choose_forward(const ShardingTask& task, Sharding& result);
/// Layouts of stored tensors, then of every operand and result in topological order, with the choices of backward and update nodes.
void lay_out(const ShardingTask& task, Sharding& result);
/// Does a node that sees parts (OpSchema::sees_parts) read them on this axis, whose coordinates have samples of their own?
[[nodiscard]] bool reads_parts(const ShardingTask& task, const Sharding& result, graph::NodeId node, std::size_t axis);
/// Parts of the loop over micro-batches, barriers, and nodes that must be hoisted: true when there are new ones (then choose again).
[[nodiscard]] bool place_in_time(ShardingTask& task, Sharding& result);
/// Instead of gathering what is computed from data alone, every coordinate loads and computes the whole: true when there is more of that.
[[nodiscard]] bool spare_gathers(ShardingTask& task, const Sharding& result);
/// Attention along axes that are rings, in the layouts that gathering it would have: into the task, and what stands in the way of others
/// into the result. True when there is some (then lay out again).
[[nodiscard]] bool find_rings(ShardingTask& task, Sharding& result);
/// The list of conversions.
void find_conversions(const ShardingTask& task, Sharding& result);
/// How well each axis is used. Throws Refusal when no operator can use one.
void report_use(const ShardingTask& task, Sharding& result);

}  // namespace rehearsal::plan
