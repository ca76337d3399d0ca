// Group and instance normalization as sums per sample and group, and an elementwise use of them.
// Formulas: Wu, He, "Group Normalization", ECCV 2018.

#include <string>

#include "base/error.hpp"
#include "graph/gradient.hpp"
#include "graph/ops/labels.hpp"
#include "graph/ops/op_families.hpp"
#include "graph/ops/statistics.hpp"
#include "graph/ops/window.hpp"

namespace rehearsal::graph {
namespace {

enum GroupNormalizationLabel : std::int16_t { GroupNormBatch, GroupNormGroup, GroupNormChannel, GroupNormSpatial };

/// What an operand or result is: image (I), sums (S), one number a channel (C).
TensorLabels labels_of(char part, const Shape& shape, std::int64_t groups) {
  if (part == 'S') return {DimLabels{}, whole(GroupNormBatch, shape[1]), whole(GroupNormGroup, shape[2])};
  const std::int64_t channels = shape[part == 'I' ? 1 : 0];
  const DimLabels channel = nested({GroupNormGroup, groups}, {GroupNormChannel, channels / groups});
  if (part == 'C') return {channel};
  TensorLabels labels{whole(GroupNormBatch, shape[0]), channel};
  labels.resize(shape.size());
  label_spatial(labels, shape, GroupNormSpatial);
  return labels;
}

/// What the channels of a group, the batch and the spatial dimensions are.
struct Kinds {
  LabelKind batch, channel, spatial;
};
constexpr Kinds kElementwise{LabelKind::Parallel, LabelKind::Parallel, LabelKind::Parallel};
constexpr Kinds kPerGroup{LabelKind::Parallel, LabelKind::Sum, LabelKind::Sum};
constexpr Kinds kPerChannel{LabelKind::Sum, LabelKind::Parallel, LabelKind::Sum};

/// Groups of the block at hand, which may have fewer than the whole tensor.
std::int64_t local_groups(const NodeView& node) { return node.has_input(1) ? node.input(1).shape[2] : node.output().shape[2]; }

SplitRule rule(const NodeView& node, std::string_view inputs, std::string_view outputs, Kinds kinds) {
  SplitRule result;
  for (const char part : inputs) result.inputs.push_back(labels_of(part, node.input(result.inputs.size()).shape, local_groups(node)));
  for (const char part : outputs) {
    const std::size_t i = result.outputs.size();
    result.outputs.push_back(node.has_output(i) ? labels_of(part, node.output(i).shape, local_groups(node)) : TensorLabels{});
  }
  result.kinds.assign(node.input(0).shape.size() + 1, kinds.spatial);
  result.kinds[GroupNormBatch] = kinds.batch;
  result.kinds[GroupNormGroup] = LabelKind::Parallel;
  result.kinds[GroupNormChannel] = kinds.channel;
  return result;
}

SplitRule sums_labels(const NodeView& node) { return rule(node, "I", "S", kPerGroup); }
SplitRule apply_labels(const NodeView& node) { return rule(node, "ISCC", "I", kElementwise); }
SplitRule grad_sums_labels_of_group_normalization(const NodeView& node) { return rule(node, "ISCI", "S", kPerGroup); }
SplitRule grad_input_labels_of_group_normalization(const NodeView& node) { return rule(node, "ISCIS", "I", kElementwise); }
SplitRule grad_parameters_labels_of_group_normalization(const NodeView& node) { return rule(node, "ISI", "CC", kPerChannel); }

TensorType require_image_of_group_normalization(const NodeView& node, std::size_t operands) {
  require_inputs(node, operands, operands);
  require_float(node, 0);
  require_rank(node, 0, 2, 5);
  const Shape& x = node.input(0).shape;
  const std::int64_t groups = node.attributes.integer("num_groups", 0);
  if (groups < 1 || x[1] % groups != 0) {
    throw BadInput("attribute 'num_groups' is " + std::to_string(groups) + ", it must divide the " + std::to_string(x[1]) + " channels");
  }
  return {DType::F64, {2, x[0], groups}};
}

void require_group_channels(const NodeView& node, std::size_t i, std::string_view what) {
  require_shape(node, i, {node.input(0).shape[1]}, what);
  require_same_type(node, 0, i);
}

std::vector<TensorType> infer_sums(const NodeView& node) { return {require_image_of_group_normalization(node, 1)}; }

std::vector<TensorType> infer_apply(const NodeView& node) {
  require_sums(node, 1, require_image_of_group_normalization(node, 4).shape);
  require_group_channels(node, 2, "scale");
  require_group_channels(node, 3, "bias");
  (void)statistic_count(node.attributes);
  return {node.input(0)};
}

std::vector<TensorType> infer_grad_sums_of_group_normalization(const NodeView& node) {
  const TensorType sums = require_image_of_group_normalization(node, 4);
  require_sums(node, 1, sums.shape);
  require_group_channels(node, 2, "scale");
  require_shape(node, 3, node.input(0).shape, "gradient");
  (void)statistic_count(node.attributes);
  return {sums};
}

std::vector<TensorType> infer_grad_input_of_group_normalization(const NodeView& node) {
  const TensorType sums = require_image_of_group_normalization(node, 5);
  require_sums(node, 1, sums.shape);
  require_group_channels(node, 2, "scale");
  require_shape(node, 3, node.input(0).shape, "gradient");
  require_sums(node, 4, sums.shape);
  (void)statistic_count(node.attributes);
  return {node.input(0)};
}

std::vector<TensorType> infer_grad_parameters_of_group_normalization(const NodeView& node) {
  require_sums(node, 1, require_image_of_group_normalization(node, 3).shape);
  require_shape(node, 2, node.input(0).shape, "gradient");
  (void)statistic_count(node.attributes);
  const TensorType parameter{node.input(0).dtype, {node.input(0).shape[1]}};
  return {parameter, parameter};
}

/// The path through the sums is inside GroupNormGradInput, so operand 1 gets no gradient of its own.
void apply_gradient(GradientContext& context) {
  const TensorId x = context.input(0), sums = context.input(1), scale = context.input(2), dy = context.gradient_of_output();
  const Attributes& attributes = context.attributes();
  if (context.wants(0)) {
    const TensorId grad_sums = context.emit1("GroupNormGradSums", {x, sums, scale, dy}, attributes);
    context.set(0, context.emit1("GroupNormGradInput", {x, sums, scale, dy, grad_sums}, attributes));
  }
  if (!context.wants(2) && !context.wants(3)) return;
  const std::vector<TensorId> gradients = context.emit("GroupNormGradParameters", {x, sums, dy}, attributes);
  context.set(2, gradients[0]);
  context.set(3, gradients[1]);
}

const OpSchema kGroupNormalizationRows[] = {
    without_gradient("GroupNormSums",
                     "Sum and sum of squares of each sample's channel groups over their channels and spatial axes: [2, n, groups] in f64.",
                     CostFamily::Normalization, {infer_sums, sums_labels, work_per_operand<3>},
                     "the gradient through the statistics is part of GroupNormApply's"),
    {.name = "GroupNormApply",
     .description = "(X - mean) / sqrt(var + epsilon) * scale + bias, with mean and var of X's sample and channel group.",
     .family = CostFamily::Normalization,
     .traits = Trait::InPlace,
     .infer = infer_apply,
     .labels = apply_labels,
     .work = work_per_operand<2>,
     .gradient = apply_gradient},
    without_gradient(
        "GroupNormGradSums", "Per sample and group: sum of scale * dY, and of that times the normalized X: [2, n, groups] in f64.",
        CostFamily::Normalization, {infer_grad_sums_of_group_normalization, grad_sums_labels_of_group_normalization, work_per_operand<6>}),
    without_gradient("GroupNormGradInput", "Gradient of group normalization for X, including the path through its statistics.",
                     CostFamily::Normalization,
                     {infer_grad_input_of_group_normalization, grad_input_labels_of_group_normalization, work_per_operand<6>}),
    without_gradient("GroupNormGradParameters", "Gradients of group normalization for scale and bias: sums over batch and spatial axes.",
                     CostFamily::Normalization,
                     {infer_grad_parameters_of_group_normalization, grad_parameters_labels_of_group_normalization, work_per_operand<6>}),
};

}  // namespace

std::span<const OpSchema> group_normalization_ops() { return kGroupNormalizationRows; }

}  // namespace rehearsal::graph
