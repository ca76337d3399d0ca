// Reductions. A mean is ReduceSum with scale 1 / (number of elements reduced in the unsplit tensor); other ONNX reductions are composed.

#include <algorithm>
#include <functional>
#include <limits>
#include <string>

#include "base/error.hpp"
#include "graph/gradient.hpp"
#include "graph/ops/axes.hpp"
#include "graph/ops/op_families.hpp"
#include "graph/ops/scalar_functions.hpp"

namespace rehearsal::graph {
namespace {

using ReductionOperands = std::span<const Value* const>;

Shape reduced_shape(const NodeView& node, const std::vector<bool>& reduced) {
  const Shape& shape = node.input(0).shape;
  if (node.attributes.integer("keepdims", 1) != 0) return kept_shape(shape, reduced);
  Shape result;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (!reduced[d]) result.push_back(shape[d]);
  }
  return result;
}

std::vector<TensorType> infer_sum(const NodeView& node) {
  require_inputs(node, 1, 1);
  if (node.attributes.has("scale")) require_float(node, 0);
  return {{node.input(0).dtype, reduced_shape(node, reduced_dimensions(node))}};
}

std::vector<TensorType> infer_extremum(const NodeView& node) {
  require_inputs(node, 1, 1);
  const auto reduced = reduced_dimensions(node);
  for (std::size_t d = 0; d < reduced.size(); ++d) {
    if (reduced[d] && node.input(0).shape[d] == 0)
      throw BadInput("operand 0 has no elements along axis " + std::to_string(d) + ", nothing is the largest or smallest of them");
  }
  return {{node.input(0).dtype, reduced_shape(node, reduced)}};
}

/// Label d is dimension d of the operand.
template <LabelKind kKind>
SplitRule reduction_labels(const NodeView& node) {
  const Shape& shape = node.input(0).shape;
  const auto reduced = reduced_dimensions(node);
  const bool keep = node.attributes.integer("keepdims", 1) != 0;
  SplitRule rule{{aligned_labels(shape, shape)}, {{}}, {}};
  for (std::size_t d = 0; d < shape.size(); ++d) {
    rule.kinds.push_back(reduced[d] ? kKind : LabelKind::Parallel);
    if (!reduced[d]) rule.outputs[0].push_back(rule.inputs[0][d]);
    if (reduced[d] && keep) rule.outputs[0].emplace_back();
  }
  return rule;
}

/// The result or its gradient with the reduced dimensions back as 1.
TensorId with_kept_dimensions(GradientContext& g, TensorId t, const Shape& kept) {
  return g.type(t).shape == kept ? t : g.emit1("Reshape", {t}, {{"shape", kept}});
}

Shape kept_shape_of(GradientContext& g) {
  const std::optional<TensorType> operand = g.type(g.input(0));
  return kept_shape(operand->shape, reduced_dimensions({{&operand, 1}, {}, g.attributes()}));
}

TensorId expanded(GradientContext& g, TensorId t) {
  const Shape& shape = g.type(g.input(0)).shape;
  return g.type(t).shape == shape ? t : g.emit1("Expand", {t}, {{"shape", shape}});
}

void sum_gradient(GradientContext& g) {
  const double scale = g.attributes().number("scale", 1.0);
  TensorId dy = with_kept_dimensions(g, g.gradient_of_output(), kept_shape_of(g));
  if (scale != 1.0) dy = g.emit1("Scale", {dy}, {{"factor", scale}});
  g.set(0, expanded(g, dy));
}

/// Elements equal to the extremum share its gradient evenly, as torch.amax does.
void extremum_gradient_of_reduction(GradientContext& g) {
  const Shape kept = kept_shape_of(g);
  const std::string type(name(g.type(g.input(0)).dtype));
  const TensorId y = with_kept_dimensions(g, g.output(), kept), dy = with_kept_dimensions(g, g.gradient_of_output(), kept);
  const TensorId mask = g.emit1("Cast", {g.emit1("Equal", {g.input(0), y})}, {{"to", type}});
  const TensorId ties = with_kept_dimensions(g, g.emit1("ReduceSum", {mask}, g.attributes()), kept);
  g.set(0, g.emit1("Mul", {mask, g.emit1("Div", {dy, ties})}));
}

void product_gradient(GradientContext& g) {
  const TensorId dy = with_kept_dimensions(g, g.gradient_of_output(), kept_shape_of(g));
  g.set(0, g.emit1("ReduceProdGrad", {dy, g.input(0)}, g.attributes()));
}

/// The operand's attributes axes, read on operand 1, which has the full shape.
std::vector<bool> reduced_by_gradient(const NodeView& node) { return reduced_dimensions({node.inputs.subspan(1, 1), {}, node.attributes}); }

std::vector<TensorType> infer_product_gradient(const NodeView& node) {
  require_inputs(node, 2, 2);
  require_same_type(node, 0, 1);
  require_float(node, 0);
  const Shape expected = kept_shape(node.input(1).shape, reduced_by_gradient(node));
  if (node.input(0).shape != expected)
    throw BadInput("operand 0 has shape " + to_text(node.input(0).shape) + ", it must be " + to_text(expected));
  return {node.input(1)};
}

SplitRule product_gradient_labels(const NodeView& node) {
  SplitRule rule = elementwise_labels(node);
  const auto reduced = reduced_by_gradient(node);
  for (std::size_t d = 0; d < reduced.size(); ++d) {
    if (reduced[d]) rule.kinds[d] = LabelKind::Opaque;
  }
  return rule;
}

// Folding

/// Number of the result's element to which element i of the operand contributes.
std::vector<std::int64_t> targets_of(const NodeView& node) {
  const Shape kept = kept_shape(node.input(0).shape, reduced_dimensions(node));
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(element_count(kept))),
      targets(static_cast<std::size_t>(element_count(node.input(0).shape)));
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<std::int64_t>(i);
  copy_strided(numbers.data(), broadcast_view(kept, node.input(0).shape), targets.data());
  return targets;
}

template <class T, class Combine>
std::vector<T> reduce(const std::vector<T>& values, const NodeView& node, T start, const Combine& combine) {
  std::vector<T> result(static_cast<std::size_t>(element_count(node.output().shape)), start);
  const auto targets = targets_of(node);
  for (std::size_t i = 0; i < values.size(); ++i) {
    T& target = result[static_cast<std::size_t>(targets[i])];
    target = combine(target, values[i]);
  }
  return result;
}

template <class Combine>
std::vector<Value> evaluate_with(const NodeView& node, ReductionOperands inputs, std::pair<std::int64_t, double> start,
                                 const Combine& combine) {
  Value result;
  result.type = node.output();
  if (inputs[0]->integral()) {
    result.integers = reduce<std::int64_t>(inputs[0]->integers, node, start.first, combine);
  } else {
    result.reals = reduce<double>(inputs[0]->reals, node, start.second, combine);
    const double scale = node.attributes.number("scale", 1.0);
    for (double& x : result.reals) x = scalar::rounded(x * scale, result.type.dtype);
  }
  return {std::move(result)};
}

std::vector<Value> evaluate_sum(const NodeView& node, ReductionOperands inputs) {
  return evaluate_with(node, inputs, {0, 0.0}, std::plus<>());
}
std::vector<Value> evaluate_product(const NodeView& node, ReductionOperands inputs) {
  return evaluate_with(node, inputs, {1, 1.0}, std::multiplies<>());
}
std::vector<Value> evaluate_max(const NodeView& node, ReductionOperands inputs) {
  return evaluate_with(node, inputs, {std::numeric_limits<std::int64_t>::min(), -std::numeric_limits<double>::infinity()},
                       [](auto a, auto b) { return std::max(a, b); });
}
std::vector<Value> evaluate_min(const NodeView& node, ReductionOperands inputs) {
  return evaluate_with(node, inputs, {std::numeric_limits<std::int64_t>::max(), std::numeric_limits<double>::infinity()},
                       [](auto a, auto b) { return std::min(a, b); });
}

// ArgMax, ArgMin: position of the (first) extremum along the attribute axis

std::vector<TensorType> infer_position(const NodeView& node) {
  require_inputs(node, 1, 1);
  Shape shape = node.input(0).shape;
  const std::size_t axis = axis_of(node, 0);
  if (shape[axis] == 0) throw BadInput("operand 0 has no elements along axis " + std::to_string(axis));
  shape[axis] = 1;
  if (node.attributes.integer("keepdims", 1) == 0) shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(axis));
  return {{DType::I64, shape}};
}

SplitRule position_labels(const NodeView& node) {
  const Shape& shape = node.input(0).shape;
  const std::size_t axis = axis_of(node, 0);
  SplitRule rule{{aligned_labels(shape, shape)}, {{}}, std::vector<LabelKind>(shape.size(), LabelKind::Parallel)};
  rule.kinds[axis] = LabelKind::Opaque;
  rule.outputs[0] = rule.inputs[0];
  rule.outputs[0][axis].clear();
  if (node.attributes.integer("keepdims", 1) == 0) rule.outputs[0].erase(rule.outputs[0].begin() + static_cast<std::ptrdiff_t>(axis));
  return rule;
}

// CumSum: attributes axis, exclusive, reverse

SplitRule cumsum_labels(const NodeView& node) { return labels_with_whole_axis(node, axis_of(node, 0)); }

void cumsum_gradient(GradientContext& g) {
  Attributes attributes = g.attributes();
  attributes.set("reverse", std::int64_t{attributes.integer("reverse", 0) == 0});
  g.set(0, g.emit1("CumSum", {g.gradient_of_output()}, std::move(attributes)));
}

template <class T>
std::vector<T> cumulated(const std::vector<T>& x, const NodeView& node) {
  if (x.empty()) return {};  // the values are in the other one of a Value's two vectors
  const auto [outer, size, inner] = split_at(node.input(0).shape, axis_of(node, 0));
  const bool exclusive = node.attributes.integer("exclusive", 0) != 0, reverse = node.attributes.integer("reverse", 0) != 0;
  std::vector<T> y(x.size());
  for (std::int64_t o = 0; o < outer; ++o) {
    for (std::int64_t i = 0; i < inner; ++i) {
      T sum = 0;
      for (std::int64_t s = 0; s < size; ++s) {
        const auto at = static_cast<std::size_t>((o * size + (reverse ? size - 1 - s : s)) * inner + i);
        y[at] = exclusive ? sum : sum + x[at];
        sum += x[at];
      }
    }
  }
  return y;
}

std::vector<Value> evaluate_cumsum(const NodeView& node, ReductionOperands inputs) {
  return {{node.output(), cumulated(inputs[0]->integers, node), cumulated(inputs[0]->reals, node)}};
}

constexpr OpSchema position_row(std::string_view name, std::string_view description) {
  return without_gradient(name, description, CostFamily::Reduction, {infer_position, position_labels, work_per_operand<1>},
                          "a position has no gradient");
}

constexpr OpSchema kReductionRows[] = {
    {.name = "ReduceSum",
     .description = "sum over the attribute axes (default: all), times scale; keepdims keeps them as 1",
     .family = CostFamily::Reduction,
     .infer = infer_sum,
     .labels = reduction_labels<LabelKind::Sum>,
     .work = work_per_operand<1>,
     .gradient = sum_gradient,
     .evaluate = evaluate_sum,
     .linear = LinearIn::First},
    {.name = "ReduceMax",
     .description = "maximum over axes",
     .family = CostFamily::Reduction,
     .infer = infer_extremum,
     .labels = reduction_labels<LabelKind::Max>,
     .work = work_per_operand<1>,
     .gradient = extremum_gradient_of_reduction,
     .evaluate = evaluate_max},
    {.name = "ReduceMin",
     .description = "minimum over axes",
     .family = CostFamily::Reduction,
     .infer = infer_extremum,
     .labels = reduction_labels<LabelKind::Min>,
     .work = work_per_operand<1>,
     .gradient = extremum_gradient_of_reduction,
     .evaluate = evaluate_min},
    {.name = "ReduceProd",
     .description = "product over axes",
     .family = CostFamily::Reduction,
     .infer = infer_sum,
     .labels = reduction_labels<LabelKind::Opaque>,
     .work = work_per_operand<1>,
     .gradient = product_gradient,
     .evaluate = evaluate_product},
    without_gradient("ReduceProdGrad", "gradient of ReduceProd: (gradient with the reduced dimensions 1, operand)", CostFamily::Reduction,
                     {infer_product_gradient, product_gradient_labels}),
    position_row("ArgMax", "position of the maximum along the attribute axis; select_last_index picks the last of equals"),
    position_row("ArgMin", "position of the minimum along the attribute axis; select_last_index picks the last of equals"),
    {.name = "CumSum",
     .description = "running sum along the attribute axis; exclusive leaves out the element itself, reverse starts at the end",
     .family = CostFamily::Reduction,
     .infer = infer_along_axis,
     .labels = cumsum_labels,
     .work = work_per_operand<1>,
     .gradient = cumsum_gradient,
     .evaluate = evaluate_cumsum},
};

}  // namespace

std::span<const OpSchema> reduction_ops() { return kReductionRows; }

}  // namespace rehearsal::graph
