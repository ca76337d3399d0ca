// Maximum and average over sliding windows. The average over a whole image is a ReduceMean.

#include <string>

#include "base/error.hpp"
#include "graph/gradient.hpp"
#include "graph/ops/labels.hpp"
#include "graph/ops/op_families.hpp"
#include "graph/ops/window.hpp"

namespace rehearsal::graph {
namespace {

Window pool_window(const NodeView& node) {
  const auto kernel = node.attributes.integers("kernel_shape");
  const std::size_t spatial = node.input(0).shape.size() - 2;
  // Ahead of the other attributes, of which there are as many.
  if (kernel.size() != spatial) {
    throw BadInput("attribute 'kernel_shape' " + (kernel.empty() ? "is missing" : "has " + std::to_string(kernel.size()) + " entries") +
                   ", operand 0 has " + std::to_string(spatial) + " spatial axes");
  }
  const Window window = window_of(node.attributes, kernel);
  for (std::size_t d = 0; d < window.rank(); ++d) {
    if (window.low[d] >= window.span(d) || window.high[d] >= window.span(d)) {
      throw BadInput("attribute 'pads' on spatial axis " + std::to_string(d) + " must be less than the window's span of " +
                     std::to_string(window.span(d)));
    }
  }
  return window;
}

/// Sizes of the pool of an image with these spatial sizes.
std::vector<std::int64_t> pooled(const NodeView& node, const std::vector<std::int64_t>& spatial) {
  return windows_in(spatial, pool_window(node), node.attributes.integer("ceil_mode", 0) != 0);
}

std::vector<TensorType> infer_pool(const NodeView& node) {
  require_inputs(node, 1, 1);
  require_float(node, 0);
  require_rank(node, 0, 3, 5);
  const Shape& x = node.input(0).shape;
  return {{node.input(0).dtype, image_shape(x[0], x[1], pooled(node, spatial_of(x)))}};
}

std::vector<TensorType> infer_positions(const NodeView& node) {
  auto types = infer_pool(node);
  types[0].dtype = DType::I64;
  return types;
}

void require_gradient_shape(const NodeView& node, std::size_t operand, const Shape& expected) {
  if (node.input(operand).shape == expected) return;
  throw BadInput("operand " + std::to_string(operand) + " has shape " + to_text(node.input(operand).shape) + ", the pool's result has " +
                 to_text(expected));
}

std::vector<TensorType> infer_max_gradient(const NodeView& node) {
  require_inputs(node, 2, 2);
  require_same_type(node, 0, 1);
  const Shape& x = node.input(0).shape;
  require_gradient_shape(node, 1, image_shape(x[0], x[1], pooled(node, spatial_of(x))));
  return {node.input(0)};
}

std::vector<TensorType> infer_average_gradient(const NodeView& node) {
  require_inputs(node, 1, 1);
  require_rank(node, 0, 3, 5);
  const Shape& dy = node.input(0).shape;
  const std::vector<std::int64_t> spatial = node.attributes.integers("shape");
  if (spatial.size() != dy.size() - 2)
    throw BadInput("attribute 'shape' needs the " + std::to_string(dy.size() - 2) + " spatial sizes of the result");
  require_gradient_shape(node, 0, image_shape(dy[0], dy[1], pooled(node, spatial)));
  return {{node.input(0).dtype, image_shape(dy[0], dy[1], spatial)}};
}

TensorLabels image_labels(const Shape& shape) {
  TensorLabels labels{whole(0, shape[0]), whole(1, shape[1])};
  labels.resize(shape.size());
  label_spatial(labels, shape, 2);
  return labels;
}

SplitRule pool_labels(const NodeView& node) {
  SplitRule rule;
  for (const auto& type : node.inputs) rule.inputs.push_back(image_labels(type->shape));
  for (const auto& type : node.outputs) rule.outputs.push_back(type ? image_labels(type->shape) : TensorLabels{});
  rule.kinds.assign(node.input(0).shape.size(), LabelKind::Window);
  rule.kinds[0] = rule.kinds[1] = LabelKind::Parallel;
  return rule;
}

/// One comparison or addition per tap of every window; `windows` is the tensor at the pooled resolution.
Work taps_work(const NodeView& node, const Shape& windows) {
  const auto taps = static_cast<double>(element_count(node.attributes.integers("kernel_shape")));
  return {Flops(taps * static_cast<double>(element_count(windows))), traffic(node)};
}
Work pool_work(const NodeView& node) { return taps_work(node, node.output().shape); }
Work gradient_work_of_pooling(const NodeView& node) { return taps_work(node, node.inputs.back()->shape); }

void max_gradient(GradientContext& context) {
  context.set(0, context.emit1("MaxPoolGrad", {context.input(0), context.gradient_of_output()}, context.attributes()));
}

void average_gradient(GradientContext& context) {
  Attributes attributes = context.attributes();
  attributes.set("shape", spatial_of(context.type(context.input(0)).shape));
  context.set(0, context.emit1("AveragePoolGrad", {context.gradient_of_output()}, std::move(attributes)));
}

const OpSchema kPoolingRows[] = {
    {.name = "MaxPool",
     .description = "Largest element of each window; padding never wins.",
     .family = CostFamily::Pooling,
     .infer = infer_pool,
     .labels = pool_labels,
     .work = pool_work,
     .gradient = max_gradient,
     .window = WindowSides{.large = 0, .small = -1}},
    {.name = "MaxPoolGrad",
     .description = "Sends dY to the first largest element of each window of X.",
     .family = CostFamily::Pooling,
     .infer = infer_max_gradient,
     .labels = pool_labels,
     .work = gradient_work_of_pooling,
     .no_gradient = kSecondDerivative,
     .window = WindowSides{.large = 0, .small = 1, .crops = true}},
    {.name = "MaxPoolPositions",
     .description = "Position of the first largest element of each window in the whole operand; column_major counts the first image axis "
                    "fastest.",
     .family = CostFamily::Pooling,
     .dims = DimsRule::Opaque,
     .infer = infer_positions,
     .work = pool_work,
     .no_gradient = "a position has no gradient"},
    {.name = "AveragePool",
     .description = "Mean of each window, over the elements in the tensor or (count_include_pad) also its padding.",
     .family = CostFamily::Pooling,
     .infer = infer_pool,
     .labels = pool_labels,
     .work = pool_work,
     .gradient = average_gradient,
     .window = WindowSides{.large = 0, .small = -1}},
    {.name = "AveragePoolGrad",
     .description = "Spreads dY evenly over each window; attribute 'shape' has the spatial sizes of the result.",
     .family = CostFamily::Pooling,
     .infer = infer_average_gradient,
     .labels = pool_labels,
     .work = gradient_work_of_pooling,
     .no_gradient = kSecondDerivative,
     .window = WindowSides{.large = -1, .small = 0, .averages = true}},
};

}  // namespace

std::span<const OpSchema> pooling_ops() { return kPoolingRows; }

}  // namespace rehearsal::graph
