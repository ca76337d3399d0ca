#pragma once
// Reverse-mode differentiation over the operator table.

#include <span>
#include <string_view>
#include <vector>

#include "graph/builder.hpp"

namespace rehearsal::graph {

/// What a row's `gradient` function works with: the forward node, the gradients of its results, and a way to emit backward nodes.
/// Backward nodes are ordinary rows (with their own split rule); they carry `forward` so that a plan gives them the forward node's choice.
class GradientContext {
 public:
  GradientContext(GraphBuilder& builder, NodeId forward, std::vector<TensorId> output_gradients, std::vector<bool> wanted);

  [[nodiscard]] const Node& node() const { return node_; }
  [[nodiscard]] TensorId input(std::size_t i) const;       ///< None when absent
  [[nodiscard]] TensorId output(std::size_t i = 0) const;  ///< None when unused
  [[nodiscard]] TensorType type(TensorId t) const { return builder_.type(t); }
  [[nodiscard]] const Attributes& attributes() const { return node().attributes; }
  /// Gradient of the loss with respect to result i; None when nothing flows into it.
  [[nodiscard]] TensorId gradient_of_output(std::size_t i = 0) const { return output_gradients_[i]; }
  /// True when someone needs the gradient of operand i.
  [[nodiscard]] bool wants(std::size_t i) const { return i < wanted_.size() && wanted_[i]; }

  /// Adds backward nodes.
  std::vector<TensorId> emit(std::string_view op, std::vector<TensorId> inputs, Attributes attributes = {});
  TensorId emit1(std::string_view op, std::vector<TensorId> inputs, Attributes attributes = {}) {
    return emit(op, std::move(inputs), std::move(attributes)).front();
  }
  TensorId constant(double value, DType dtype);
  /// Sums `gradient` down to the shape of operand i (undoes broadcasting), and sets it.
  void set_broadcast(std::size_t i, TensorId gradient);
  void set(std::size_t i, TensorId gradient) { input_gradients_[i] = gradient; }

  [[nodiscard]] const std::vector<TensorId>& input_gradients() const { return input_gradients_; }
  [[nodiscard]] const Value* value(TensorId t) const { return builder_.value(t); }

 private:
  GraphBuilder& builder_;
  NodeId forward_;
  Node node_;  ///< a copy: the builder's nodes move when some are added
  std::vector<TensorId> output_gradients_, input_gradients_;
  std::vector<bool> wanted_;
};

/// A node through which no gradient can flow although a parameter needs it, and why.
struct Untrainable {
  NodeId node;
  std::string reason;
};

/// Adds backward nodes for d`loss`/d`wanted[i]` (loss: one element). Returns one gradient per wanted tensor; None where no path leads
/// from it to the loss. Gradients of several consumers are added in the order of the forward nodes. Nodes that block a path are appended to
/// `blocked`.
std::vector<TensorId> differentiate(GraphBuilder& builder, TensorId loss, std::span<const TensorId> wanted,
                                    std::vector<Untrainable>& blocked);

/// What has the same elements in another order, nearest to the product that made them: a gradient is added up over micro-batches there,
/// before it is moved once.
[[nodiscard]] TensorId before_moves(const GraphBuilder&, TensorId);

}  // namespace rehearsal::graph
