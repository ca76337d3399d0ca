// Matrices scaled until their rows and columns add up to 1 (Sinkhorn, Knopp, "Concerning Nonnegative Matrices and Doubly Stochastic
// Matrices", 1967), as hyper-connections have it (Xie et al., "mHC", 2026).

#include "base/error.hpp"
#include "graph/gradient.hpp"
#include "graph/ops/labels.hpp"
#include "graph/ops/op_families.hpp"

namespace rehearsal::graph {
namespace {

void require_balanced(const NodeView& node) {
  require_square_matrices(node, 0);
  (void)at_least_one(node.attributes, "iterations");
}

std::vector<TensorType> infer_sinkhorn(const NodeView& node) {
  require_inputs(node, 1, 1);
  require_balanced(node);
  return infer_same(node);
}

std::vector<TensorType> infer_sinkhorn_gradient(const NodeView& node) {
  require_inputs(node, 2, 2);
  require_balanced(node);
  require_same_type(node, 0, 1);
  if (node.input(0).shape != node.input(1).shape)
    throw BadInput("operand 1 has shape " + to_text(node.input(1).shape) + ", it must be " + to_text(node.input(0).shape));
  return {node.input(1)};
}

/// Matrices are independent of each other, and whole.
SplitRule sinkhorn_labels(const NodeView& node) {
  SplitRule rule = elementwise_labels(node);
  rule.kinds[rule.kinds.size() - 1] = rule.kinds[rule.kinds.size() - 2] = LabelKind::Opaque;
  return rule;
}

/// A sum and a division of every element, by columns and by rows.
Work sinkhorn_work(const NodeView& node) {
  return elementwise_work(node, 2 * static_cast<double>(2 * node.attributes.integer("iterations", 1) - 1));
}

void sinkhorn_gradient(GradientContext& g) { g.set(0, g.emit1("SinkhornGrad", {g.gradient_of_output(), g.input(0)}, g.attributes())); }

constexpr OpSchema kSinkhornRows[] = {
    with_gradient("Sinkhorn",
                  "matrices whose columns are divided by their sums, then in turn rows and columns: attributes iterations (of columns), "
                  "epsilon (added to the sums)",
                  CostFamily::Normalization, {infer_sinkhorn, sinkhorn_labels, sinkhorn_work}, sinkhorn_gradient),
    without_gradient("SinkhornGrad", "gradient of Sinkhorn: (gradient, matrices)", CostFamily::Normalization,
                     {infer_sinkhorn_gradient, sinkhorn_labels, sinkhorn_work}),
};

}  // namespace

std::span<const OpSchema> sinkhorn_ops() { return kSinkhornRows; }

}  // namespace rehearsal::graph
