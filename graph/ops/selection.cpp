// Rows that pick elements by their values.

#include <bit>
#include <string>

#include "base/error.hpp"
#include "graph/gradient.hpp"
#include "graph/ops/axes.hpp"
#include "graph/ops/op_families.hpp"

namespace rehearsal::graph {
namespace {

// TopK: attributes axis, k, largest, sorted. Results are values and positions; of equal elements the earlier comes first.

std::vector<TensorType> infer_top_k(const NodeView& node) {
  require_inputs(node, 1, 1);
  const std::size_t axis = axis_of(node, -1);
  Shape shape = node.input(0).shape;
  const std::int64_t k = node.attributes.integer("k", 0);
  if (k < 0 || k > shape[axis])
    throw BadInput("attribute k", "is " + std::to_string(k) + "; axis " + std::to_string(axis) + " has " + std::to_string(shape[axis]));
  shape[axis] = k;
  return {{node.input(0).dtype, shape}, {DType::I64, shape}};
}

SplitRule top_k_labels(const NodeView& node) {
  const Shape& shape = node.input(0).shape;
  const std::size_t axis = axis_of(node, -1);
  SplitRule rule{{aligned_labels(shape, shape)}, {}, std::vector<LabelKind>(shape.size(), LabelKind::Parallel)};
  rule.kinds[axis] = LabelKind::Opaque;
  TensorLabels picked = rule.inputs[0];
  picked[axis].clear();
  rule.outputs = {picked, picked};
  return rule;
}

/// About one comparison for every element and level of a heap of k.
Work top_k_work(const NodeView& node) {
  const auto levels = std::bit_width(static_cast<std::uint64_t>(node.attributes.integer("k", 0)));
  return {Flops(static_cast<double>(levels) * static_cast<double>(element_count(node.input(0).shape))), traffic(node)};
}

void top_k_gradient(GradientContext& g) {
  if (g.gradient_of_output(0) == TensorId::None) return;
  g.set(0, g.emit1("GatherElementsGrad", {g.gradient_of_output(0), g.output(1)},
                   {{"axis", g.attributes().integer("axis", -1)}, {"shape", g.type(g.input(0)).shape}}));
}

constexpr OpSchema kSelectionRows[] = {
    with_gradient("TopK",
                  "the k largest (attribute largest = 0: smallest) elements along the attribute axis, in order, and their positions",
                  CostFamily::Reduction, {infer_top_k, top_k_labels, top_k_work}, top_k_gradient),
};

}  // namespace

std::span<const OpSchema> selection_ops() { return kSelectionRows; }

}  // namespace rehearsal::graph
