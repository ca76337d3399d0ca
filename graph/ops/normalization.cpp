// Batch normalization as sums over the batch, and an elementwise use of them. Formulas: Ioffe, Szegedy, "Batch Normalization", ICML 2015.

#include <string>

#include "base/error.hpp"
#include "graph/gradient.hpp"
#include "graph/ops/labels.hpp"
#include "graph/ops/op_families.hpp"
#include "graph/ops/statistics.hpp"

namespace rehearsal::graph {

std::int64_t statistic_count(const Attributes& attributes) {
  const std::int64_t count = attributes.integer("count", 0);
  if (count < 1) throw BadInput("attribute 'count' is " + std::to_string(count) + ", it must be the number of elements of one statistic");
  return count;
}

void require_shape(const NodeView& node, std::size_t i, const Shape& expected, std::string_view what) {
  if (node.input(i).shape == expected) return;
  throw BadInput("operand " + std::to_string(i) + " (" + std::string(what) + ") has shape " + to_text(node.input(i).shape) +
                 ", it must be " + to_text(expected));
}

void require_sums(const NodeView& node, std::size_t i, const Shape& expected) {
  require_shape(node, i, expected, "statistics");
  if (node.input(i).dtype != DType::F64) throw BadInput("operand " + std::to_string(i) + " (statistics) must be f64");
}

namespace {

/// What an operand or result is: image (I), sums (S), one number a channel (C). Labels follow from it: label d is dimension d of the image,
/// 1 the channel.
TensorLabels labels_of(char part, const Shape& shape) {
  if (part == 'C') return {whole(1, shape[0])};
  if (part == 'S') return {DimLabels{}, whole(1, shape[1])};
  TensorLabels labels;
  for (std::size_t d = 0; d < shape.size(); ++d) labels.push_back(whole(static_cast<int>(d), shape[d]));
  return labels;
}

std::vector<TensorLabels> labels_of(std::string_view parts, std::span<const std::optional<TensorType>> types) {
  std::vector<TensorLabels> labels;
  for (const char part : parts) {
    const auto& type = types[labels.size()];
    labels.push_back(type ? labels_of(part, type->shape) : TensorLabels{});
  }
  return labels;
}

/// `others`: what batch and spatial dimensions are.
SplitRule rule(const NodeView& node, std::string_view inputs, std::string_view outputs, LabelKind others) {
  SplitRule result{labels_of(inputs, node.inputs), labels_of(outputs, node.outputs),
                   std::vector<LabelKind>(std::max<std::size_t>(2, node.input(0).shape.size()), others)};
  result.kinds[1] = LabelKind::Parallel;
  return result;
}

SplitRule batch_sums_labels(const NodeView& node) { return rule(node, "I", "S", LabelKind::Sum); }
SplitRule batch_apply_labels(const NodeView& node) { return rule(node, "ISCC", "I", LabelKind::Parallel); }
SplitRule grad_sums_labels_of_normalization(const NodeView& node) { return rule(node, "ISI", "S", LabelKind::Sum); }
SplitRule grad_input_labels_of_normalization(const NodeView& node) { return rule(node, "ISCIS", "I", LabelKind::Parallel); }
SplitRule grad_parameters_labels_of_normalization(const NodeView& node) { return rule(node, "SC", "CC", LabelKind::Parallel); }
SplitRule running_labels(const NodeView& node) { return rule(node, "SCC", "CC", LabelKind::Parallel); }
SplitRule inference_labels(const NodeView& node) { return rule(node, "ICCCC", "I", LabelKind::Parallel); }
SplitRule inference_grad_labels(const NodeView& node) { return rule(node, "ICC", "I", LabelKind::Parallel); }
SplitRule inference_parameters_labels(const NodeView& node) { return rule(node, "ICCI", "CC", LabelKind::Sum); }

std::int64_t require_image_of_normalization(const NodeView& node, std::size_t operands) {
  require_inputs(node, operands, operands);
  require_float(node, 0);
  require_rank(node, 0, 2, 5);
  return node.input(0).shape[1];
}

void require_channels(const NodeView& node, std::size_t i, std::int64_t channels, std::string_view what) {
  require_shape(node, i, {channels}, what);
  require_same_type(node, 0, i);
}

TensorType sums_type(std::int64_t channels) { return {DType::F64, {2, channels}}; }

std::vector<TensorType> infer_batch_sums(const NodeView& node) { return {sums_type(require_image_of_normalization(node, 1))}; }

std::vector<TensorType> infer_batch_apply(const NodeView& node) {
  const std::int64_t channels = require_image_of_normalization(node, 4);
  require_sums(node, 1, {2, channels});
  require_channels(node, 2, channels, "scale");
  require_channels(node, 3, channels, "bias");
  (void)statistic_count(node.attributes);
  return {node.input(0)};
}

std::vector<TensorType> infer_grad_sums_of_normalization(const NodeView& node) {
  const std::int64_t channels = require_image_of_normalization(node, 3);
  require_sums(node, 1, {2, channels});
  require_shape(node, 2, node.input(0).shape, "gradient");
  (void)statistic_count(node.attributes);
  return {sums_type(channels)};
}

std::vector<TensorType> infer_grad_input_of_normalization(const NodeView& node) {
  const std::int64_t channels = require_image_of_normalization(node, 5);
  require_sums(node, 1, {2, channels});
  require_channels(node, 2, channels, "scale");
  require_shape(node, 3, node.input(0).shape, "gradient");
  require_sums(node, 4, {2, channels});
  (void)statistic_count(node.attributes);
  return {node.input(0)};
}

std::vector<TensorType> infer_grad_parameters_of_normalization(const NodeView& node) {
  require_inputs(node, 2, 2);
  require_float(node, 1);
  require_rank(node, 1, 1, 1);
  require_sums(node, 0, {2, node.input(1).shape[0]});
  return {node.input(1), node.input(1)};
}

std::vector<TensorType> infer_running(const NodeView& node) {
  require_inputs(node, 3, 3);
  require_float(node, 1);
  require_rank(node, 1, 1, 1);
  require_sums(node, 0, {2, node.input(1).shape[0]});
  require_shape(node, 2, node.input(1).shape, "running variance");
  require_same_type(node, 1, 2);
  (void)statistic_count(node.attributes);
  return {node.input(1), node.input(2)};
}

std::vector<TensorType> infer_inference(const NodeView& node) {
  const std::int64_t channels = require_image_of_normalization(node, 5);
  require_channels(node, 1, channels, "scale");
  require_channels(node, 2, channels, "bias");
  require_channels(node, 3, channels, "mean");
  require_channels(node, 4, channels, "variance");
  return {node.input(0)};
}

std::vector<TensorType> infer_inference_grad(const NodeView& node) {
  const std::int64_t channels = require_image_of_normalization(node, 3);
  require_channels(node, 1, channels, "scale");
  require_channels(node, 2, channels, "variance");
  return {node.input(0)};
}

std::vector<TensorType> infer_inference_parameters(const NodeView& node) {
  const std::int64_t channels = require_image_of_normalization(node, 4);
  require_channels(node, 1, channels, "mean");
  require_channels(node, 2, channels, "variance");
  require_shape(node, 3, node.input(0).shape, "gradient");
  return {node.input(1), node.input(1)};
}

/// The path through the sums is inside BatchNormGradInput, so operand 1 gets no gradient of its own.
void batch_apply_gradient(GradientContext& context) {
  const TensorId x = context.input(0), sums = context.input(1), scale = context.input(2), dy = context.gradient_of_output();
  const TensorId grad_sums = context.emit1("BatchNormGradSums", {x, sums, dy}, context.attributes());
  if (context.wants(0)) context.set(0, context.emit1("BatchNormGradInput", {x, sums, scale, dy, grad_sums}, context.attributes()));
  if (!context.wants(2) && !context.wants(3)) return;
  const std::vector<TensorId> gradients = context.emit("BatchNormGradParameters", {grad_sums, scale});
  context.set(2, gradients[0]);
  context.set(3, gradients[1]);
}

/// From those of scale and bias: d mean = -scale / deviation * d bias, d variance = -scale / (2 deviation^2) * d scale.
void statistics_gradient(GradientContext& context, const std::vector<TensorId>& parameters) {
  if (!context.wants(3) && !context.wants(4)) return;
  const TensorId epsilon = context.constant(context.attributes().number("epsilon", 1e-5), context.type(context.input(4)).dtype);
  const TensorId precision = context.emit1("Reciprocal", {context.emit1("Add", {context.input(4), epsilon})});
  const auto scaled = [&](TensorId a, TensorId b, double factor) {
    return context.emit1("Scale", {context.emit1("Mul", {context.emit1("Mul", {a, context.input(1)}), b})}, {{"factor", factor}});
  };
  if (context.wants(3)) context.set(3, scaled(parameters[1], context.emit1("Sqrt", {precision}), -1));
  if (context.wants(4)) context.set(4, scaled(parameters[0], precision, -0.5));
}

void inference_gradient(GradientContext& context) {
  const TensorId scale = context.input(1), mean = context.input(3), variance = context.input(4), dy = context.gradient_of_output();
  if (context.wants(0)) context.set(0, context.emit1("BatchNormInferenceGradInput", {dy, scale, variance}, context.attributes()));
  if (!context.wants(1) && !context.wants(2) && !context.wants(3) && !context.wants(4)) return;
  const std::vector<TensorId> gradients =
      context.emit("BatchNormInferenceGradParameters", {context.input(0), mean, variance, dy}, context.attributes());
  context.set(1, gradients[0]);
  context.set(2, gradients[1]);
  statistics_gradient(context, gradients);
}

const OpSchema kNormalizationRows[] = {
    without_gradient("BatchNormSums", "Sum and sum of squares of each channel over batch and spatial axes: [2, c] in f64.",
                     CostFamily::Normalization, {infer_batch_sums, batch_sums_labels, work_per_operand<3>},
                     "the gradient through the statistics is part of BatchNormApply's"),
    {.name = "BatchNormApply",
     .description = "(X - mean) / sqrt(var + epsilon) * scale + bias, with mean and var from the sums over 'count' elements.",
     .family = CostFamily::Normalization,
     .traits = Trait::InPlace,
     .infer = infer_batch_apply,
     .labels = batch_apply_labels,
     .work = work_per_operand<2>,
     .gradient = batch_apply_gradient,
     .batch_statistics = 0b10},
    {.name = "BatchNormGradSums",
     .description = "Per channel: sum of dY, and of dY times the normalized X: [2, c] in f64.",
     .family = CostFamily::Normalization,
     .infer = infer_grad_sums_of_normalization,
     .labels = grad_sums_labels_of_normalization,
     .work = work_per_operand<5>,
     .no_gradient = kSecondDerivative,
     .batch_statistics = 0b10},
    {.name = "BatchNormGradInput",
     .description = "Gradient of batch normalization for X, including the path through its statistics.",
     .family = CostFamily::Normalization,
     .infer = infer_grad_input_of_normalization,
     .labels = grad_input_labels_of_normalization,
     .work = work_per_operand<6>,
     .no_gradient = kSecondDerivative,
     .batch_statistics = 0b10010},
    without_gradient("BatchNormGradParameters", "Gradients for scale and bias from the sums of BatchNormGradSums, in the type of scale.",
                     CostFamily::Normalization, {infer_grad_parameters_of_normalization, grad_parameters_labels_of_normalization}),
    without_gradient("BatchNormRunning", "running * momentum + batch * (1 - momentum), for the mean and the unbiased variance.",
                     CostFamily::Normalization, {infer_running, running_labels}, "running statistics are not trained"),
    {.name = "BatchNormInference",
     .description = "(X - mean) / sqrt(var + epsilon) * scale + bias with given statistics.",
     .family = CostFamily::Normalization,
     .traits = Trait::InPlace,
     .infer = infer_inference,
     .labels = inference_labels,
     .work = work_per_operand<2>,
     .gradient = inference_gradient},
    without_gradient("BatchNormInferenceGradInput", "dY * scale / sqrt(var + epsilon).", CostFamily::Normalization,
                     {infer_inference_grad, inference_grad_labels, work_per_operand<1>}),
    without_gradient("BatchNormInferenceGradParameters",
                     "Gradients for scale and bias with given statistics: sums over batch and spatial axes.", CostFamily::Normalization,
                     {infer_inference_parameters, inference_parameters_labels, work_per_operand<5>}),
};

}  // namespace

std::span<const OpSchema> normalization_ops() { return kNormalizationRows; }

}  // namespace rehearsal::graph
