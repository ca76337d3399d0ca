#pragma once
// What is computed: an immutable, shape-inferred DAG of operators and tensors. It knows no hardware and no time.

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "graph/attributes.hpp"
#include "graph/shape.hpp"
#include "graph/value.hpp"

namespace rehearsal::graph {

enum class TensorId : std::int32_t { None = -1 };
enum class NodeId : std::int32_t { None = -1 };
[[nodiscard]] constexpr std::size_t index(TensorId t) { return static_cast<std::size_t>(t); }
[[nodiscard]] constexpr std::size_t index(NodeId n) { return static_cast<std::size_t>(n); }

/// Row number in the operator table (op_schema.hpp): plain data, so that a Program holds no pointers into tables.
using OpIndex = std::uint16_t;

enum class TensorRole : std::uint8_t {
  Input,       ///< fed by the data loader: one of the model's inputs, or the target
  Parameter,   ///< trained
  State,       ///< carried from step to step without a gradient: running statistics
  Slot,        ///< optimizer state of a parameter (momentum, Adam's moments, step counter)
  Frozen,      ///< a weight that is not trained: stored and split as a parameter is, without gradient and update
  Constant,    ///< known values that are no weights: masks, tables of angles
  Activation,  ///< computed in the forward pass
  Gradient,    ///< computed in the backward pass
  Updated,     ///< new value of a parameter, slot or state: stored over the old one
};

/// Trained or not.
[[nodiscard]] constexpr bool is_weight(TensorRole r) { return r == TensorRole::Parameter || r == TensorRole::Frozen; }

enum class Phase : std::uint8_t { Forward, Backward, Update };

struct Tensor {
  std::string name;  ///< unique; the file's name where there is one
  TensorType type;
  TensorRole role = TensorRole::Activation;
  NodeId producer = NodeId::None;
  Contents contents;                    ///< of inputs never; of parameters, constants, states and slots where known
  TensorId stored_in = TensorId::None;  ///< role Updated: the parameter, state or slot whose storage this overwrites
};

/// Of a known constant of one element.
[[nodiscard]] std::optional<double> number_of(const Tensor&);

struct Node {
  OpIndex op = 0;
  std::string name;
  Phase phase = Phase::Forward;
  NodeId forward = NodeId::None;  ///< in the backward phase: the forward node this is (part of) the gradient of
  std::vector<TensorId> inputs;   ///< TensorId::None for an absent optional input
  std::vector<TensorId> outputs;  ///< TensorId::None for an unused optional output
  Attributes attributes;
};

/// Nodes are in a topological order, forward before backward before update. Built by GraphBuilder only.
class Graph {
 public:
  [[nodiscard]] const std::vector<Tensor>& tensors() const { return tensors_; }
  [[nodiscard]] const std::vector<Node>& nodes() const { return nodes_; }
  [[nodiscard]] const Tensor& operator[](TensorId t) const { return tensors_[index(t)]; }
  [[nodiscard]] const Node& operator[](NodeId n) const { return nodes_[index(n)]; }
  [[nodiscard]] const std::vector<TensorId>& inputs() const { return inputs_; }    ///< role Input, in the file's order
  [[nodiscard]] const std::vector<TensorId>& outputs() const { return outputs_; }  ///< the model's outputs
  /// TensorId::None when there is no tensor of that name.
  [[nodiscard]] TensorId find(const std::string& name) const;
  /// Nodes that read each tensor, in order (a node reading it twice is listed twice). O(edges), not cached.
  [[nodiscard]] std::vector<std::vector<NodeId>> consumers() const;
  /// Identity of the computation: operators, attributes, shapes, names; not the values of weights.
  [[nodiscard]] std::string hash() const;

 private:
  friend class GraphBuilder;
  std::vector<Tensor> tensors_;
  std::vector<Node> nodes_;
  std::vector<TensorId> inputs_, outputs_;
  std::unordered_map<std::string, TensorId> by_name_;
};

}  // namespace rehearsal::graph
