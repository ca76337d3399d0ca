#pragma once
// The operator table: one row per operator kind says everything that graph/ knows about it.
// To add an operator: one row in ops/<family>.cpp (and, unless it is composite, one kernel row in exec/kernels/reference).

#include <optional>
#include <span>
#include <string_view>

#include "graph/graph.hpp"
#include "graph/split_rule.hpp"

namespace rehearsal::graph {

class GradientContext;

/// A node as its row sees it: on global shapes while a graph is built, on local shapes when a plan is lowered.
struct NodeView {
  std::span<const std::optional<TensorType>> inputs;   ///< nullopt: absent optional input
  std::span<const std::optional<TensorType>> outputs;  ///< nullopt: unused optional output; empty while inferring
  const Attributes& attributes;

  [[nodiscard]] const TensorType& input(std::size_t i) const { return *inputs[i]; }
  [[nodiscard]] const TensorType& output(std::size_t i = 0) const { return *outputs[i]; }
  [[nodiscard]] bool has_input(std::size_t i) const { return i < inputs.size() && inputs[i].has_value(); }
  [[nodiscard]] bool has_output(std::size_t i) const { return i < outputs.size() && outputs[i].has_value(); }
};

/// What an operator costs on any machine. FLOPs count a multiply-add as two; bytes are the least traffic to memory.
struct Work {
  Flops flops;
  Bytes bytes;
};

/// How the cost model groups operators that behave alike on hardware.
enum class CostFamily : std::uint8_t {
  Convolution,
  MatMul,
  Normalization,
  Pooling,
  Elementwise,
  Reduction,
  Movement,
  Gather,
  View,
  Optimizer,
  Decomposition,  ///< of matrices, into eigenvectors: step after step, by one core
  Count
};

/// Does a kernel of the family multiply matrices?
[[nodiscard]] constexpr bool is_product(CostFamily family) { return family == CostFamily::Convolution || family == CostFamily::MatMul; }

enum class Trait : std::uint32_t {
  None = 0,
  View = 1,            ///< the result is the operand's memory under another shape: no kernel
  Elementwise = 2,     ///< result element i depends on (broadcast) operand elements i only
  InPlace = 4,         ///< output 0 may overwrite input 0
  Random = 8,          ///< draws numbers from (seed, step, node, global index)
  DataDependent = 16,  ///< the output shape depends on values: only allowed when folded at import
  Positional = 32,     ///< a result depends on where its elements lie in the unsplit tensors: blocks must be one range of indices
  TrainingOnly = 64,   ///< after training the result is operand 0; meanwhile some of it is zero
  SameValues = 128,    ///< the result has the operand's values, perhaps as another element type
};
[[nodiscard]] constexpr Trait operator|(Trait a, Trait b) {
  return static_cast<Trait>(static_cast<std::uint32_t>(a) | static_cast<std::uint32_t>(b));
}
[[nodiscard]] constexpr bool has(Trait set, Trait one) { return (static_cast<std::uint32_t>(set) & static_cast<std::uint32_t>(one)) != 0; }

/// Through which operands a pending sum may pass: f(sum of parts) = sum of f(part).
enum class LinearIn : std::uint8_t {
  None,   ///< also of operators that enlarge or convert: resolving before them moves fewer bytes
  First,  ///< in operand 0 alone
  All,    ///< in all operands together
};

/// How the two sides of a sliding window lie in an operator: o·stride - low + tap·dilation of the large side is read for position o of the
/// small one.
struct WindowSides {
  std::int8_t large = 0, small = 0;  ///< operand that is this side; -1: result 0
  std::int8_t kernel = -1;           ///< operand that is the weight; -1: attribute kernel_shape
  bool sums_positions = false;       ///< the result has no position: blocks are those of the small side
  bool crops = false;                ///< the result is that of the block's rows of the large side, of which windows need more
  bool averages = false;             ///< divides by the elements of a window, which a block's border must not change
};

/// What an operator is in attention that is written as nodes: softmax(queries keys, masked) values.
enum class AttentionPart : std::uint8_t { None, Product, Softmax, Choice };

struct OpSchema {
  std::string_view name;              ///< our name; ONNX's where the meaning is ONNX's newest
  std::string_view description = {};  ///< one sentence
  CostFamily family = CostFamily::Elementwise;
  Trait traits = Trait::None;
  DimsRule dims = DimsRule::Labels;

  /// Types of all outputs from types of inputs and attributes. Throws BadInput saying which operand is wrong and what would be right.
  std::vector<TensorType> (*infer)(const NodeView&) = nullptr;
  /// Labels of every operand and result; nullptr for structural or opaque rows.
  SplitRule (*labels)(const NodeView&) = nullptr;
  /// nullptr: no FLOPs, and bytes are those of operands and results.
  Work (*work)(const NodeView&) = nullptr;
  /// Emits the backward nodes of a forward node; nullptr: no gradient flows through, because of `no_gradient`.
  void (*gradient)(GradientContext&) = nullptr;
  std::string_view no_gradient = {};  ///< the printable reason when `gradient` is nullptr ("integer result", ...)
  /// Values of all outputs when all (present) inputs are known small tensors; nullptr: never folded.
  std::vector<Value> (*evaluate)(const NodeView&, std::span<const Value* const> inputs) = nullptr;

  LinearIn linear = LinearIn::None;
  /// The operand that is added to the result once (a bias): where the result is a pending sum, one rank adds it and the others add zero.
  /// -1: there is none.
  std::int8_t addend = -1;
  /// Operands that are pairs of sums over 'count' elements of the batch, by which the node normalizes: bit i for operand i.
  std::uint8_t batch_statistics = 0;
  std::optional<WindowSides> window = std::nullopt;
  AttentionPart in_attention = AttentionPart::None;
  /// Of an operand that is a sum over samples it sees each part by itself, where ranks and micro-batches have parts.
  bool sees_parts = false;

  [[nodiscard]] constexpr bool is_batch_statistic(std::size_t operand) const { return (batch_statistics >> operand & 1) != 0; }
};

/// All rows, in a fixed order (the order of the families' files).
[[nodiscard]] std::span<const OpSchema> op_table();
[[nodiscard]] inline const OpSchema& schema(OpIndex op) { return op_table()[op]; }
[[nodiscard]] inline const OpSchema& schema(const Node& node) { return op_table()[node.op]; }
/// nullopt when no row has that name.
[[nodiscard]] std::optional<OpIndex> find_op(std::string_view name);
/// Throws InternalError when no row has that name: for names written in our own code.
[[nodiscard]] OpIndex op(std::string_view name);

/// Work of a node, with the default of a missing `work`.
[[nodiscard]] Work work_of(const OpSchema&, const NodeView&);

/// The types of a node's operands and results in a graph, kept alive together.
class NodeTypes {
 public:
  NodeTypes(const Graph& graph, const Node& node);
  [[nodiscard]] NodeView view() const { return {inputs_, outputs_, attributes_}; }

 private:
  std::vector<std::optional<TensorType>> inputs_, outputs_;
  const Attributes& attributes_;
};
/// Of a node, and of all.
[[nodiscard]] double flops_of(const Graph&, const Node&);
[[nodiscard]] double flops_of(const Graph&);

}  // namespace rehearsal::graph
