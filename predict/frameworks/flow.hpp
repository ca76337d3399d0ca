#pragma once
// What must be known of every tensor and node of a forward graph before its kernels can be counted: what is a weight, where gradients flow,
// which nodes are the core of an attention, and which are steps of a recurrent layer.

#include <cstdint>
#include <map>
#include <vector>

#include "graph/graph.hpp"

namespace rehearsal::predict::frameworks {

/// One softmax(scores) · values of plain operators.
struct AttentionCore {
  std::size_t first_product = 0, softmax = 0, second_product = 0;  ///< node numbers
  bool causal = false;
  int elementwise = 0;  ///< operators between the products besides the softmax
  double window = 0;    ///< keys that a query sees, itself included; 0: all that the mask leaves
};

class Flow {
 public:
  explicit Flow(const graph::Graph&);

  [[nodiscard]] bool activation(graph::TensorId t) const { return is(t, kActivation); }  ///< depends on the graph's inputs
  [[nodiscard]] bool gradient(graph::TensorId t) const { return is(t, kGradient); }      ///< is needed in the backward pass
  [[nodiscard]] bool weight(graph::TensorId t) const { return is(t, kWeight); }          ///< made of parameters alone
  /// Readers of a tensor, views looked through.
  [[nodiscard]] int readers(graph::TensorId t) const { return t == graph::TensorId::None ? 0 : readers_[graph::index(t)]; }
  /// The one node that reads a tensor, views looked through; nullptr: none or several do.
  [[nodiscard]] const graph::Node* only_reader(graph::TensorId) const;
  /// A sigmoid that only its own operand is multiplied by: x · sigmoid(x), one kernel to every framework of today (Ramachandran et al.
  /// 2017).
  [[nodiscard]] bool self_gate(const graph::Node&) const;
  /// The node that computed what a tensor shows, views looked through; nullptr: an input or weight.
  [[nodiscard]] const graph::Node* origin(graph::TensorId t) const;
  [[nodiscard]] const std::vector<AttentionCore>& cores() const { return cores_; }
  /// Whether a node is part of an attention core, and of which one (index into cores()); -1: none.
  [[nodiscard]] int core_of(std::size_t node) const { return core_of_[node]; }
  /// Steps of the recurrent layer that a product with a shared weight is one of; 0: of none. An LSTM unrolled over time multiplies its
  /// state with one weight again and again, with nothing but element-wise operators between.
  [[nodiscard]] int steps_of(std::size_t product) const { return steps_of_[product]; }
  [[nodiscard]] bool recurrent() const { return recurrent_; }
  /// Whether a node belongs to the cell of a recurrent layer, which libraries run as one kernel a step (Appleyard et al. 2016).
  [[nodiscard]] bool in_cell(std::size_t node) const { return in_cell_[node]; }
  /// Whether a node computes what products of experts read from what other products of experts wrote, and from nothing else: their gate.
  [[nodiscard]] bool between_experts(std::size_t node) const { return between_experts_[node]; }
  /// The same of all that reads a tensor.
  [[nodiscard]] bool read_between_experts(graph::TensorId) const;
  /// Whether a node is one of the two products of a low-rank adapter: what they make one after the other is added to what weights make
  /// that are not trained (graph/adapters.hpp).
  [[nodiscard]] bool of_adapter(std::size_t node) const { return of_adapter_[node]; }
  /// Whether its rows are places for tokens at experts, those that stay empty among them.
  [[nodiscard]] bool of_slots(graph::TensorId t) const { return slots_[graph::index(t)]; }
  [[nodiscard]] bool has_convolution() const { return has_convolution_; }
  [[nodiscard]] bool has_dropout() const { return has_dropout_; }
  [[nodiscard]] bool has_frozen() const { return has_frozen_; }  ///< weights that are not trained
  [[nodiscard]] std::size_t forward_nodes() const { return core_of_.size(); }

 private:
  enum Mark : std::uint8_t { kActivation = 1, kGradient = 2, kWeight = 4 };
  [[nodiscard]] bool is(graph::TensorId t, Mark m) const { return t != graph::TensorId::None && (marks_[graph::index(t)] & m) != 0; }
  void set(graph::TensorId t, Mark m) { marks_[graph::index(t)] |= m; }
  void mark_origins();
  void find_cores();
  void follow_core(std::size_t softmax);
  [[nodiscard]] bool is_triangle(graph::TensorId mask) const;
  [[nodiscard]] double window_of(graph::TensorId mask);
  [[nodiscard]] double window_of_parts(const graph::Node& concatenation);
  [[nodiscard]] double best_of(const graph::Node& condition) const;
  void find_recurrences();
  [[nodiscard]] std::vector<std::size_t> neighbours(std::size_t node, bool backwards) const;
  bool mark_cell(std::size_t product, std::size_t target, bool backwards);
  void find_gates_of_experts();
  [[nodiscard]] const graph::Node* scaled_product(graph::TensorId) const;
  void find_adapters();
  void find_slots();

  const graph::Graph* graph_;
  std::vector<std::uint8_t> marks_;
  std::vector<int> readers_;
  std::vector<int> core_of_, steps_of_;
  std::vector<bool> in_cell_, between_experts_, of_adapter_;
  std::vector<bool> slots_;  ///< by tensor
  bool recurrent_ = false;
  std::vector<AttentionCore> cores_;
  std::map<graph::TensorId, double> windows_;  ///< of stored masks
  std::vector<std::vector<graph::NodeId>> consumers_;
  bool has_convolution_ = false, has_dropout_ = false, has_frozen_ = false;
};

/// What picks the experts of a token; nullptr: nothing does.
[[nodiscard]] const graph::Node* router_of(const graph::Graph&);
/// Does a product have a matrix for each of the experts that the router chooses from?
[[nodiscard]] bool of_experts(const graph::Graph&, const graph::Node& product);

[[nodiscard]] bool is_sum(const graph::Node&);
/// Adds, turns the sign, scales, converts or chooses: the gradient of an operand follows from that of the result alone.
[[nodiscard]] bool is_linear(const graph::Node&);
/// Multiplies or divides element by element.
[[nodiscard]] bool multiplies(const graph::Node&);

/// A product with a weight as its second operand: MatMul or Gemm.
[[nodiscard]] bool weight_product(const Flow&, const graph::Node&);

}  // namespace rehearsal::predict::frameworks
