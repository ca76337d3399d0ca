#pragma once
// The only way to make a Graph. Shapes are inferred and small constants folded as nodes are added, so one
// topological pass over a file suffices.

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "graph/graph.hpp"
#include "graph/op_schema.hpp"

namespace rehearsal::graph {

/// New numbers by old number after GraphBuilder::build(); None for what was dropped.
struct Renumbering {
  std::vector<TensorId> tensors;
  std::vector<NodeId> nodes;
  [[nodiscard]] TensorId operator()(TensorId t) const { return t == TensorId::None ? t : tensors[index(t)]; }
  [[nodiscard]] NodeId operator()(NodeId n) const { return n == NodeId::None ? n : nodes[index(n)]; }
};

class GraphBuilder {
 public:
  GraphBuilder() = default;
  /// Continues an existing graph (the training graph grows from the model's).
  explicit GraphBuilder(const Graph& start);

  /// Data-fed tensor, appended to the graph's inputs.
  TensorId add_input(std::string name, TensorType type);
  /// Parameter, State, Slot or Constant with where its values come from.
  TensorId add_stored(std::string name, TensorType type, TensorRole role, Contents contents);
  /// A known small tensor; usable as operand, readable through value().
  TensorId add_constant(std::string name, Value value);

  struct NodeOptions {
    std::string name;  ///< default: the operator's name and a number
    Phase phase = Phase::Forward;
    NodeId forward = NodeId::None;
    std::vector<std::string> output_names;  ///< default: from the node's name; "" for an unused optional output
    NodeId behind = NodeId::None;           ///< build() puts it behind this node of its phase, whatever was added between
  };
  /// Adds a node, infers its outputs (as many as `options.output_names`, or as the row infers), folds it when every operand's
  /// value is known and the row can evaluate it (the outputs are then constants and no node is stored).
  /// Throws BadInput naming the node when the operands do not fit.
  std::vector<TensorId> add(std::string_view op, std::vector<TensorId> inputs, Attributes attributes, NodeOptions options);
  std::vector<TensorId> add(std::string_view op, std::vector<TensorId> inputs, Attributes attributes = {});
  /// add() for rows with one result.
  TensorId add1(std::string_view op, std::vector<TensorId> inputs, Attributes attributes = {}) {
    return add(op, std::move(inputs), std::move(attributes)).front();
  }

  [[nodiscard]] const Tensor& operator[](TensorId t) const { return graph_.tensors_[index(t)]; }
  /// By value: what lies in the graph moves when nodes are added.
  [[nodiscard]] TensorType type(TensorId t) const { return (*this)[t].type; }
  [[nodiscard]] const Node& operator[](NodeId n) const { return graph_.nodes_[index(n)]; }
  [[nodiscard]] std::size_t node_count() const { return graph_.nodes_.size(); }
  [[nodiscard]] const Graph& so_far() const { return graph_; }
  [[nodiscard]] TensorId find(const std::string& name) const { return graph_.find(name); }
  /// The values of a folded or small constant tensor; nullptr when not known.
  [[nodiscard]] const Value* value(TensorId t) const;
  /// A name not used yet, starting with `base`.
  [[nodiscard]] std::string fresh_name(std::string_view base);

  void set_role(TensorId t, TensorRole role) { graph_.tensors_[index(t)].role = role; }
  /// `updated` is the new value of `storage` and overwrites it at the end of the step. Both must have one type.
  void set_stored_in(TensorId updated, TensorId storage);
  /// Gives a tensor another name, made unique from `base`.
  void rename(TensorId t, std::string_view base);
  /// build() keeps this tensor and what computes it.
  void keep(TensorId t) { kept_.push_back(t); }
  /// Everything there is, so that build() keeps all numbers.
  void keep_all();
  /// For rewriting a whole graph: the caller answers for the types of the neighbours.
  void set_dtype(TensorId t, DType dtype) { graph_.tensors_[index(t)].type.dtype = dtype; }
  void set_contents(TensorId t, Contents contents) { graph_.tensors_[index(t)].contents = std::move(contents); }
  /// Nodes that read `t` read `other` instead; the model's outputs keep `t`.
  void replace_uses(TensorId t, TensorId other);
  void set_attribute(NodeId n, std::string_view key, AttributeValue value) {
    graph_.nodes_[index(n)].attributes.set(key, std::move(value));
  }
  void set_outputs(std::vector<TensorId> outputs) { graph_.outputs_ = std::move(outputs); }

  /// Drops nodes and tensors that no output, update or kept tensor needs (inputs stay), puts the phases in order,
  /// renumbers, and returns the graph. `renumbering`, when given, tells the new numbers.
  [[nodiscard]] Graph build(Renumbering* renumbering = nullptr) &&;

 private:
  TensorId add_tensor(Tensor tensor);
  [[nodiscard]] std::vector<std::optional<TensorType>> types_of(const std::vector<TensorId>& ids) const;
  [[nodiscard]] std::optional<std::vector<Value>> fold(const OpSchema& row, const NodeView& node,
                                                       const std::vector<TensorId>& inputs) const;
  [[nodiscard]] std::vector<TensorId> store_results(const Node& node, const std::vector<TensorType>& types, const NodeOptions& options,
                                                    std::vector<Value>* values);
  [[nodiscard]] Graph rearranged(const std::vector<std::size_t>& tensors, const std::vector<std::size_t>& nodes,
                                 const Renumbering& numbers);
  [[nodiscard]] std::string fresh_node_name(std::string_view base);

  Graph graph_;
  mutable std::unordered_map<TensorId, Value> values_;
  std::unordered_set<TensorId> stored_values_;  ///< of constants that values_ may lack
  std::unordered_set<std::string> node_names_;
  std::unordered_map<std::string, std::size_t> tensor_numbers_, node_numbers_;  ///< by base name: the last number appended to it
  std::vector<TensorId> kept_;
  std::unordered_map<std::size_t, std::size_t> behind_;  ///< by node: NodeOptions::behind
};

/// Results with more elements than this are computed at run time rather than folded.
inline constexpr std::int64_t kLargestFolded = std::int64_t{1} << 22;

}  // namespace rehearsal::graph
