#pragma once
// The only way to make a Graph. Shapes are inferred and small constants folded as nodes are added, so one
// topological pass over a file suffices.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.hpp"
#include "graph/op_schema.hpp"

namespace rehearsal::graph {

class GraphBuilder {
 public:
  GraphBuilder() = default;
  /// Continues an existing graph (the training graph grows from the model's).
  explicit GraphBuilder(const Graph& start);

  /// Data-fed tensor, appended to the graph's inputs.
  TensorId add_input(std::string name, TensorType type);
  /// Parameter, State, Slot or Constant with where its values come from.
  TensorId add_stored(std::string name, TensorType type, Role role, Contents contents);
  /// A known small tensor; usable as operand, readable through value().
  TensorId add_constant(std::string name, Value value);

  struct NodeOptions {
    std::string name;                       ///< default: the operator's name and a number
    Phase phase = Phase::Forward;
    NodeId forward = NodeId::None;
    std::vector<std::string> output_names;  ///< default: from the node's name; "" for an unused optional output
  };
  /// Adds a node, infers its outputs (as many as `options.output_names`, or as the row infers), folds it when every operand's
  /// value is known and the row can evaluate it (the outputs are then constants and no node is stored).
  /// Throws BadInput naming the node when the operands do not fit.
  std::vector<TensorId> add(std::string_view op, std::vector<TensorId> inputs, Attributes attributes, NodeOptions options);
  std::vector<TensorId> add(std::string_view op, std::vector<TensorId> inputs, Attributes attributes = {}) { return add(op, std::move(inputs), std::move(attributes), NodeOptions{}); }
  /// add() for rows with one result.
  TensorId add1(std::string_view op, std::vector<TensorId> inputs, Attributes attributes = {}) { return add(op, std::move(inputs), std::move(attributes)).front(); }

  [[nodiscard]] const Tensor& operator[](TensorId t) const { return graph_.tensors_[index(t)]; }
  [[nodiscard]] const TensorType& type(TensorId t) const { return (*this)[t].type; }
  [[nodiscard]] const Node& operator[](NodeId n) const { return graph_.nodes_[index(n)]; }
  [[nodiscard]] std::size_t node_count() const { return graph_.nodes_.size(); }
  [[nodiscard]] const Graph& so_far() const { return graph_; }
  [[nodiscard]] TensorId find(const std::string& name) const { return graph_.find(name); }
  /// The values of a folded or small constant tensor; nullptr when not known.
  [[nodiscard]] const Value* value(TensorId t) const;
  /// A name not used yet, starting with `base`.
  [[nodiscard]] std::string fresh_name(std::string_view base);

  void set_role(TensorId t, Role role) { graph_.tensors_[index(t)].role = role; }
  void set_stored_in(TensorId updated, TensorId storage);
  void set_outputs(std::vector<TensorId> outputs) { graph_.outputs_ = std::move(outputs); }

  /// Drops nodes and tensors that no output, update or kept tensor needs, renumbers, and returns the graph.
  [[nodiscard]] Graph build() &&;

 private:
  TensorId add_tensor(Tensor tensor);
  std::optional<std::vector<Value>> fold(const OpSchema&, const NodeView&, const std::vector<TensorId>& inputs) const;

  Graph graph_;
  std::unordered_map<std::int32_t, Value> values_;
  std::size_t names_ = 0;
};

/// Results with more elements than this are computed at run time rather than folded.
inline constexpr std::int64_t kLargestFolded = std::int64_t{1} << 22;

}  // namespace rehearsal::graph
