// Normalization of each row of trailing axes. Formulas: Ba, Kiros, Hinton, "Layer Normalization", 2016;
// Zhang, Sennrich, "Root Mean Square Layer Normalization", NeurIPS 2019.

#include <algorithm>

#include "base/error.hpp"
#include "graph/gradient.hpp"
#include "graph/ops/labels.hpp"
#include "graph/ops/op_families.hpp"
#include "graph/ops/statistics.hpp"

namespace rehearsal::graph {
namespace {

std::size_t axis_of(const NodeView& node) {
  return static_cast<std::size_t>(normalize_axis(node.attributes.integer("axis", -1), node.input(0).shape.size()));
}

Shape normalized_part(const Shape& x, std::size_t axis) { return {x.begin() + static_cast<std::ptrdiff_t>(axis), x.end()}; }

Shape statistics_shape(Shape x, std::size_t axis) {
  std::fill(x.begin() + static_cast<std::ptrdiff_t>(axis), x.end(), 1);
  return x;
}

std::size_t require_image_of_layer_normalization(const NodeView& node, std::size_t least, std::size_t most) {
  require_inputs(node, least, most);
  require_float(node, 0);
  require_rank(node, 0, 1, 8);
  return axis_of(node);
}

void require_parameter(const NodeView& node, std::size_t i, std::size_t axis, std::string_view what) {
  if (!node.has_input(i)) return;
  require_shape(node, i, normalized_part(node.input(0).shape, axis), what);
  require_same_type(node, 0, i);
}

void require_statistic(const NodeView& node, std::size_t i, std::size_t axis) {
  require_shape(node, i, statistics_shape(node.input(0).shape, axis), "statistics");
}

std::vector<TensorType> infer_layer(const NodeView& node) {
  const std::size_t axis = require_image_of_layer_normalization(node, 1, 3);
  require_parameter(node, 1, axis, "scale");
  require_parameter(node, 2, axis, "bias");
  const TensorType statistic{node.input(0).dtype, statistics_shape(node.input(0).shape, axis)};
  return {node.input(0), statistic, statistic};
}

std::vector<TensorType> infer_rms(const NodeView& node) {
  const std::size_t axis = require_image_of_layer_normalization(node, 1, 2);
  require_parameter(node, 1, axis, "scale");
  return {node.input(0), {node.input(0).dtype, statistics_shape(node.input(0).shape, axis)}};
}

/// X, mean, inverse deviation, dY, scale?
std::vector<TensorType> infer_layer_gradient(const NodeView& node) {
  const std::size_t axis = require_image_of_layer_normalization(node, 4, 5);
  require_statistic(node, 1, axis);
  require_statistic(node, 2, axis);
  require_shape(node, 3, node.input(0).shape, "gradient");
  require_parameter(node, 4, axis, "scale");
  return {node.input(0)};
}

/// X, inverse root mean square, dY, scale?
std::vector<TensorType> infer_rms_gradient(const NodeView& node) {
  const std::size_t axis = require_image_of_layer_normalization(node, 3, 4);
  require_statistic(node, 1, axis);
  require_shape(node, 2, node.input(0).shape, "gradient");
  require_parameter(node, 3, axis, "scale");
  return {node.input(0)};
}

std::vector<TensorType> infer_layer_parameters(const NodeView& node) {
  const std::size_t axis = require_image_of_layer_normalization(node, 4, 4);
  require_statistic(node, 1, axis);
  require_statistic(node, 2, axis);
  require_shape(node, 3, node.input(0).shape, "gradient");
  const TensorType parameter{node.input(0).dtype, normalized_part(node.input(0).shape, axis)};
  return {parameter, parameter};
}

std::vector<TensorType> infer_rms_parameters(const NodeView& node) {
  const std::size_t axis = require_image_of_layer_normalization(node, 3, 3);
  require_statistic(node, 1, axis);
  require_shape(node, 2, node.input(0).shape, "gradient");
  return {{node.input(0).dtype, normalized_part(node.input(0).shape, axis)}};
}

/// Tensors aligned with X: from the left when they have its rank, from the right when they have the normalized axes only.
TensorLabels labels_of(const Shape& shape, const Shape& x) {
  TensorLabels labels(shape.size());
  const std::size_t skipped = x.size() - shape.size();
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == x[d + skipped]) labels[d] = whole(static_cast<int>(d + skipped), shape[d]);
  }
  return labels;
}

/// Label d is dimension d of X. The normalized axes stay whole; `leading` says what the others are.
SplitRule rule(const NodeView& node, LabelKind leading) {
  const Shape& x = node.input(0).shape;
  SplitRule result;
  for (const auto& type : node.inputs) result.inputs.push_back(type ? labels_of(type->shape, x) : TensorLabels{});
  for (const auto& type : node.outputs) result.outputs.push_back(type ? labels_of(type->shape, x) : TensorLabels{});
  result.kinds.assign(x.size(), leading);
  std::fill(result.kinds.begin() + static_cast<std::ptrdiff_t>(axis_of(node)), result.kinds.end(), LabelKind::Opaque);
  return result;
}
SplitRule row_labels(const NodeView& node) { return rule(node, LabelKind::Parallel); }
SplitRule parameter_labels(const NodeView& node) { return rule(node, LabelKind::Sum); }

/// The saved statistics: results of the forward node, or computed again where the model left them out.
std::vector<TensorId> results_of(GradientContext& context, std::size_t count) {
  std::vector<TensorId> results;
  for (std::size_t i = 0; i < count; ++i) results.push_back(context.output(i));
  for (std::size_t i = 1; i < count; ++i) {
    if (results[i] != TensorId::None && context.gradient_of_output(i) != TensorId::None)
      throw Refusal("node '" + context.node().name + "': no gradient flows through its statistics");
    if (results[i] == TensorId::None) return context.emit(schema(context.node()).name, context.node().inputs, context.attributes());
  }
  return results;
}

void layer_gradient(GradientContext& context) {
  const std::vector<TensorId> saved = results_of(context, 3);
  const TensorId x = context.input(0), dy = context.gradient_of_output();
  if (dy == TensorId::None) return;
  if (context.wants(0))
    context.set(0, context.emit1("LayerNormalizationGradInput", {x, saved[1], saved[2], dy, context.input(1)}, context.attributes()));
  if (!context.wants(1) && !context.wants(2)) return;
  const std::vector<TensorId> gradients =
      context.emit("LayerNormalizationGradParameters", {x, saved[1], saved[2], dy}, context.attributes());
  if (context.wants(1)) context.set(1, gradients[0]);
  if (context.wants(2)) context.set(2, gradients[1]);
}

void rms_gradient(GradientContext& context) {
  const std::vector<TensorId> saved = results_of(context, 2);
  const TensorId x = context.input(0), dy = context.gradient_of_output();
  if (dy == TensorId::None) return;
  if (context.wants(0))
    context.set(0, context.emit1("RMSNormalizationGradInput", {x, saved[1], dy, context.input(1)}, context.attributes()));
  if (context.wants(1)) context.set(1, context.emit1("RMSNormalizationGradParameters", {x, saved[1], dy}, context.attributes()));
}

const OpSchema kLayerNormalizationRows[] = {
    with_gradient(
        "LayerNormalization",
        "(X - mean) / sqrt(var + epsilon) * scale + bias over the axes from 'axis' on; also the mean and 1 / sqrt(var + epsilon).",
        CostFamily::Normalization, {infer_layer, row_labels, work_per_operand<7>}, layer_gradient),
    without_gradient("LayerNormalizationGradInput", "Gradient of LayerNormalization for X.", CostFamily::Normalization,
                     {infer_layer_gradient, row_labels, work_per_operand<10>}),
    without_gradient("LayerNormalizationGradParameters", "Gradients of LayerNormalization for scale and bias: sums over the leading axes.",
                     CostFamily::Normalization, {infer_layer_parameters, parameter_labels, work_per_operand<5>}),
    with_gradient("RMSNormalization", "X / sqrt(mean of X^2 + epsilon) * scale over the axes from 'axis' on; also that inverse root.",
                  CostFamily::Normalization, {infer_rms, row_labels, work_per_operand<4>}, rms_gradient),
    without_gradient("RMSNormalizationGradInput", "Gradient of RMSNormalization for X.", CostFamily::Normalization,
                     {infer_rms_gradient, row_labels, work_per_operand<10>}),
    without_gradient("RMSNormalizationGradParameters", "Gradient of RMSNormalization for scale: a sum over the leading axes.",
                     CostFamily::Normalization, {infer_rms_parameters, parameter_labels, work_per_operand<5>}),
};

}  // namespace

std::span<const OpSchema> layer_normalization_ops() { return kLayerNormalizationRows; }

}  // namespace rehearsal::graph
