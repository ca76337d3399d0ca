// Rows that turn elements round: cyclic shifts (Liu et al., "Swin Transformer", 2021), and rotary position embedding (Su et al.,
// "RoFormer", 2021).

#include <string>

#include "base/error.hpp"
#include "graph/gradient.hpp"
#include "graph/ops/axes.hpp"
#include "graph/ops/labels.hpp"
#include "graph/ops/op_families.hpp"

namespace rehearsal::graph {
namespace {

// Roll: attributes axis and shift

SplitRule roll_labels(const NodeView& node) { return labels_with_whole_axis(node, axis_of(node, 0)); }

void roll_gradient(GradientContext& g) {
  Attributes attributes = g.attributes();
  attributes.set("shift", -attributes.integer("shift", 0));
  g.set(0, g.emit1("Roll", {g.gradient_of_output()}, std::move(attributes)));
}

// RotaryEmbedding and its gradient: x, cos, sin

std::vector<TensorType> infer_rotary(const NodeView& node) {
  require_inputs(node, 3, 3);
  require_float(node, 0);
  const Shape& x = node.input(0).shape;
  if (x.empty() || x.back() % 2 != 0) throw BadInput("operand 0 has shape " + to_text(x) + ", the last dimension must have two halves");
  for (const std::size_t i : {std::size_t{1}, std::size_t{2}}) {
    require_same_type(node, 0, i);
    if (broadcast(x, node.input(i).shape) != x)
      throw BadInput("operand " + std::to_string(i) + " has shape " + to_text(node.input(i).shape) + ", it must be broadcast to " +
                     to_text(x));
  }
  return {node.input(0)};
}

/// The halves of the last dimension meet: it stays whole.
SplitRule rotary_labels(const NodeView& node) {
  SplitRule rule = elementwise_labels(node);
  rule.kinds.back() = LabelKind::Opaque;
  return rule;
}

/// Two products and a sum.

void rotary_gradient(GradientContext& g) {
  const TensorId dy = g.gradient_of_output(), x = g.input(0);
  const DType dtype = g.type(x).dtype;
  if (g.wants(0)) g.set(0, g.emit1("RotaryEmbeddingGrad", {dy, g.input(1), g.input(2)}));
  if (g.wants(1)) g.set_broadcast(1, g.emit1("Mul", {dy, x}));
  if (g.wants(2)) {
    const TensorId turned = g.emit1("RotaryEmbedding", {x, g.constant(0, dtype), g.constant(1, dtype)});
    g.set_broadcast(2, g.emit1("Mul", {dy, turned}));
  }
}

constexpr OpSchema kRotationRows[] = {
    {.name = "Roll",
     .description = "elements along the attribute axis shifted by the attribute shift, those that leave at one end enter at the other",
     .family = CostFamily::Movement,
     .infer = infer_along_axis,
     .labels = roll_labels,
     .gradient = roll_gradient,
     .linear = LinearIn::First},
    {.name = "RotaryEmbedding",
     .description = "x cos + (-x2, x1) sin, x1 and x2 being the halves of the last dimension: (x, cos, sin)",
     .infer = infer_rotary,
     .labels = rotary_labels,
     .work = work_per_result<3>,
     .gradient = rotary_gradient,
     .linear = LinearIn::First},
    {.name = "RotaryEmbeddingGrad",
     .description = "gradient of RotaryEmbedding: (gradient, cos, sin)",
     .infer = infer_rotary,
     .labels = rotary_labels,
     .work = work_per_result<3>,
     .no_gradient = kSecondDerivative,
     .linear = LinearIn::First},
};

}  // namespace

std::span<const OpSchema> rotation_ops() { return kRotationRows; }

}  // namespace rehearsal::graph
