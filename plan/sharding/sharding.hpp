#pragma once
// Who owns which part of which tensor: from mesh axes with rules to a choice per node and axis, layouts, and the conversions between them.
// Data, tensor, sequence and spatial parallelism are different rules of the same machinery; micro-batches are a mesh axis in time.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "graph/dims/dims.hpp"
#include "graph/training.hpp"
#include "plan/layout.hpp"

namespace rehearsal::plan {

/// One axis of the mesh. Axes are ordered outer to inner: two axes that split the same dimension nest in this order.
struct MeshAxis {
  std::string name;               ///< "dp", "tp", ...
  std::int64_t size = 1;          ///< ranks along it, or micro-batches of a step when `in_time`
  std::vector<std::string> dims;  ///< what it splits, first match wins: "batch", or the name of a logical dimension
  bool in_time = false;           ///< coordinates are micro-batches, played one after the other by the same rank
  /// ZeRO (Rajbhandari et al. 2020): the update of every parameter is sharded, and with it the optimizer's state and what is stored of
  /// the parameter, along that dimension which gives parts of most equal sizes and which no other axis has.
  bool deals_out_updates = false;
  bool stores_whole = false;                 ///< with it: every coordinate stores whole parameters, gathered from what was updated
  bool own_statistics = false;               ///< each coordinate normalizes by the statistics of its own samples: other mathematics
  std::vector<std::string> weightless = {};  ///< what operators that read no weight split rather than `dims`
  /// Samples of every coordinate where they are not those of block(): replicas on devices of several speeds.
  std::vector<std::int64_t> samples = {};
  std::vector<int> counts = {};  ///< in time: micro-batches, by coordinate of the axis that has `samples`; empty: `size` on all
  bool ring = false;             ///< attention passes keys and values round instead of gathering them
  friend bool operator==(const MeshAxis&, const MeshAxis&) = default;
};

enum class ConversionKind : std::uint8_t {
  AllReduce,      ///< P -> R; in time: accumulate over micro-batches
  ReduceScatter,  ///< P -> S
  AllGather,      ///< S -> R
  AllToAll,       ///< S -> S'
  Slice,          ///< R -> S: no message
  Mask,           ///< R -> P: zero except on coordinate 0; no message
  Halo,           ///< S -> S with neighbouring rows
  Shift,          ///< a block of one turn -> that of the next (Turn)
};
[[nodiscard]] std::string_view name(ConversionKind);

/// One axis' part of a conversion.
struct ConversionStep {
  std::size_t axis = 0;
  ConversionKind kind = ConversionKind::AllReduce;
  AxisLayout from, to;
};
struct Use {
  graph::NodeId node = graph::NodeId::None;
  std::size_t operand = 0;
};
/// A tensor that is needed in another layout than it is produced (or stored) in. There is one per tensor and wanted layout, however many
/// nodes want it.
struct Conversion {
  graph::TensorId tensor = graph::TensorId::None;
  Layout from, to;
  std::vector<ConversionStep> steps;           ///< in the order in which they must happen
  graph::Phase phase = graph::Phase::Forward;  ///< of the first consumer
  std::vector<Use> consumers;                  ///< empty: the result itself must be so (the loss, a stored parameter)
};

/// Where a node runs relative to the loop over micro-batches.
enum class LoopPart : std::uint8_t {
  Before,  ///< depends on no micro-batch, or hoisted: once, on the rank's whole batch
  Inside,  ///< once per micro-batch
  After,   ///< needs a sum over all micro-batches: once
};

/// A node inside the loop that needs the result of all micro-batches: such a plan cannot run as one loop.
struct TimeBarrier {
  graph::NodeId node;      ///< who needs it
  graph::TensorId tensor;  ///< what it needs
  graph::TensorId root;    ///< the sum over micro-batches from which that comes
  std::string reason;
};

/// How a node that works on one block of keys in turn sees an operand or leaves a result.
enum class KeyRole : std::uint8_t {
  Whole,   ///< it has no keys
  Inside,  ///< made in the same turn, for a block of the keys
  Passed,  ///< split by its keys, as it lies: its blocks go round; of a result: its gradient, which travels beside them
  Cut,     ///< here for all keys: the turn's block is taken out
};
struct KeyUse {
  KeyRole role = KeyRole::Whole;
  std::int16_t dim = -1;  ///< the dimension of the keys; -1 of Whole
};
struct RingNode {
  graph::NodeId node = graph::NodeId::None;
  std::vector<KeyUse> operands, results;
};
/// Attention whose keys and values go round the ranks of an axis (plan/sharding/rings.cpp).
struct AttentionRing {
  std::size_t axis = 0;
  std::int64_t keys = 0;  ///< how many there are
  graph::NodeId softmax = graph::NodeId::None, softmax_gradient = graph::NodeId::None;
  graph::TensorId result = graph::TensorId::None;           ///< of the product of weights and values
  graph::TensorId result_gradient = graph::TensorId::None;  ///< None without a backward pass
  std::vector<RingNode> forward, backward;                  ///< in order; the last forward one makes `result`
  std::vector<bool> masked;                                 ///< [coordinate * blocks + block]: no row of the coordinate sees a key of it
};
/// Attention that gathers its keys although the axis is a ring.
struct NoRing {
  graph::NodeId softmax;
  std::string reason;
};

/// Attention that one kernel computes forward, and one backward (graph/ops/attention.hpp): its nodes lie alike on every axis.
struct FusedAttention {
  std::vector<graph::NodeId> forward, backward;  ///< in order; the last forward one makes the result; no backward ones without gradients
  graph::Attributes attributes;                  ///< of both kernels
  std::vector<Use> operands;                     ///< queries, keys, values, and what the scores' steps read
  std::vector<Use> backward_operands;            ///< the result's gradient, then the same
  std::vector<graph::TensorId> gradients;        ///< of queries, keys, values and the attribute's biases; None: not wanted
};
/// Attention that stays several nodes.
struct NotFused {
  graph::NodeId softmax;
  std::string reason;
};

/// A node that computes the same on every coordinate of an axis.
struct Replica {
  graph::NodeId node;
  std::string reason;
};
/// How well the model uses one axis.
struct AxisUse {
  double flops_total = 0;         ///< of the unsplit step
  double flops_replicated = 0;    ///< of nodes not split on this axis
  std::vector<Replica> replicas;  ///< nodes with work that are not split on this axis, in order
};

struct Sharding {
  std::vector<MeshAxis> axes;
  std::shared_ptr<const graph::LogicalDims> dims;
  std::vector<int> choices;                 ///< [node * axes + axis]: index into dims->iteration(node), or -1
  std::vector<Layout> layouts;              ///< [tensor]: as produced, or as stored for inputs, parameters, states, slots, constants
  std::vector<std::vector<Layout>> wanted;  ///< [node][operand]: what the node's kernel expects
  std::vector<std::vector<int>> fed_by;     ///< [node][operand]: index into conversions, or -1 when the tensor is already as wanted
  std::vector<Conversion> conversions;      ///< in the order of their first consumer
  std::vector<LoopPart> parts;              ///< [node]; all Inside without an axis in time
  std::vector<TimeBarrier> barriers;
  std::vector<graph::NodeId> hoisted;  ///< nodes on data inputs only, taken out of the loop because it needs their total
  std::vector<AxisUse> use;            ///< [axis]
  std::vector<AttentionRing> rings;
  std::vector<NoRing> no_rings;
  std::vector<std::int32_t> ring_of_node;  ///< index into rings, -1: none; empty without rings

  std::vector<FusedAttention> fused;
  std::vector<NotFused> not_fused;
  std::vector<std::int32_t> fused_of_node;  ///< index into fused, -1: none; empty where nothing is fused

  [[nodiscard]] const graph::IterDim* choice(graph::NodeId node, std::size_t axis) const;  ///< nullptr: not split there
  [[nodiscard]] const Layout& layout(graph::TensorId t) const { return layouts[graph::index(t)]; }
  /// Is a node split on an axis along the first dimension of its first operand?
  [[nodiscard]] bool splits_samples(graph::NodeId node, std::size_t axis) const {
    const graph::IterDim* way = choice(node, axis);
    const graph::OperandDim* place = way ? way->input(0) : nullptr;
    return place && place->dim == 0;
  }
  /// nullptr: the node belongs to none.
  [[nodiscard]] const AttentionRing* ring_of(graph::NodeId node) const {
    const auto number = ring_of_node.empty() ? -1 : ring_of_node[graph::index(node)];
    return number < 0 ? nullptr : &rings[static_cast<std::size_t>(number)];
  }
  /// nullptr: the node belongs to none.
  [[nodiscard]] const FusedAttention* fused_at(graph::NodeId node) const {
    const auto number = fused_of_node.empty() ? -1 : fused_of_node[graph::index(node)];
    return number < 0 ? nullptr : &fused[static_cast<std::size_t>(number)];
  }
  /// Of attention that is one kernel, what only its nodes read: never in memory.
  [[nodiscard]] bool is_inside_kernel(graph::TensorId) const;
  /// Made anew for every block of keys: never whole in memory.
  [[nodiscard]] bool is_inside_ring(graph::TensorId) const;
  /// The range of `keys` keys that a coordinate has in a turn.
  [[nodiscard]] Range keys_in(const Turn&, std::int64_t keys, const Coordinates& at) const;
  /// What a coordinate of an axis has of a range of a dimension that outer axes left here.
  [[nodiscard]] Range part(std::size_t axis, graph::AtomId, Range whole, const Coordinates& at) const;
  /// Does an axis shard this dimension in parts of its own?
  [[nodiscard]] bool deals_unevenly(std::size_t axis, graph::AtomId) const;

  /// What of a tensor with dimensions `dims` (of(tensor), or of_operand(node, i) for constants) a coordinate owns under `layout`.
  [[nodiscard]] Region region(const graph::TensorDims& tensor, const Layout& layout, const Coordinates& at) const;
  [[nodiscard]] graph::Shape shape(const graph::TensorDims& tensor, const Layout& layout, const Coordinates& at) const;
  [[nodiscard]] graph::Shape local_shape(graph::TensorId t, const Layout& layout, const Coordinates& at) const {
    return shape(dims->of(t), layout, at);
  }
  /// What a coordinate holds of an operand under `layout`, with the halo that the node's window needs where the layout asks for it.
  [[nodiscard]] Region operand_region(graph::NodeId id, std::size_t operand, const Layout& layout, const Coordinates& at) const;
  /// Attributes with which the node's kernel runs at a coordinate; nullopt: the node's own.
  [[nodiscard]] std::optional<graph::Attributes> attributes_on(graph::NodeId id, const Coordinates& at) const;
  /// Local shape of an operand as the node's kernel gets it, and of a result as it leaves it.
  [[nodiscard]] graph::Shape operand_shape(graph::NodeId node, std::size_t operand, const Coordinates& at) const;
  [[nodiscard]] graph::Shape result_shape(graph::TensorId t, const Coordinates& at) const { return local_shape(t, layout(t), at); }
};

/// Throws BadInput when a rule names no dimension of this graph, an axis size is below 1 or two axes are in time; Refusal when no operator
/// can use an axis (naming what stands in the way).
[[nodiscard]] Sharding shard(const graph::TrainingGraph& training, const std::vector<MeshAxis>& axes);
/// The same with dimensions already inferred: a search shards one graph many times.
[[nodiscard]] Sharding shard(const graph::TrainingGraph& training, std::shared_ptr<const graph::LogicalDims> dims,
                             const std::vector<MeshAxis>& axes);

/// What refuse_barriers() throws: no plan with micro-batches can run this graph.
class NoMicroBatches : public Refusal {
  using Refusal::Refusal;
};
/// Throws NoMicroBatches naming the nodes that need all micro-batches at once, if there are any.
void refuse_barriers(const graph::Graph& graph, const Sharding& sharding);

}  // namespace rehearsal::plan
