// Convolution, transposed convolution and their gradients. A transposed convolution is the input gradient of a convolution and
// the other way round, so each one's backward pass is made of the other's rows with the operands' roles swapped
// (Dumoulin, Visin, "A guide to convolution arithmetic for deep learning", 2016, chapter 4).

#include <algorithm>
#include <initializer_list>
#include <string>

#include "base/error.hpp"
#include "graph/gradient.hpp"
#include "graph/ops/labels.hpp"
#include "graph/ops/op_families.hpp"
#include "graph/ops/window.hpp"

namespace rehearsal::graph {
namespace {

using ConvolutionSizes = std::vector<std::int64_t>;
enum ConvolutionLabel : std::int16_t { Batch, Group, In, Out, Spatial };

void require_operands(const NodeView& node, std::size_t least, std::size_t most) {
  require_inputs(node, least, most);
  require_float(node, 0);
  require_rank(node, 0, 3, 5);
  for (std::size_t i = 1; i < node.inputs.size(); ++i) {
    if (node.has_input(i)) require_same_type(node, 0, i);
  }
}

void require_weight_rank(const NodeView& node) {
  if (node.input(1).shape.size() == node.input(0).shape.size()) return;
  throw BadInput("operand 1 has shape " + to_text(node.input(1).shape) + " and operand 0 has shape " + to_text(node.input(0).shape) +
                 "; they must have the same rank");
}

/// Groups and positions are counted by dividing by channels.
void require_channels(const NodeView& node, std::size_t operand, std::initializer_list<std::size_t> dimensions) {
  for (const std::size_t d : dimensions) {
    if (node.input(operand).shape[d] < 1)
      throw BadInput("operand " + std::to_string(operand) + " has shape " + to_text(node.input(operand).shape) + ", it has no channels");
  }
}

std::int64_t groups_of(const NodeView& node, std::int64_t channels, const char* what) {
  const std::int64_t group = node.attributes.integer("group", 1);
  if (group < 1 || channels % group != 0) {
    throw BadInput("attribute 'group' is " + std::to_string(group) + ", it must divide the " + std::to_string(channels) + ' ' + what);
  }
  return group;
}

void require_channels(const NodeView& node, std::int64_t expected, const char* why) {
  if (node.input(0).shape[1] == expected) return;
  throw BadInput("operand 0 has " + std::to_string(node.input(0).shape[1]) + " channels, it must have " + std::to_string(expected) + ": " +
                 why);
}

void require_bias(const NodeView& node, std::int64_t channels) {
  if (!node.has_input(2) || node.input(2).shape == Shape{channels}) return;
  throw BadInput("operand 2 (bias) has shape " + to_text(node.input(2).shape) + ", it must be " + to_text(Shape{channels}));
}

void require_spatial(const ConvolutionSizes& expected, const ConvolutionSizes& found, const char* what) {
  if (expected == found) return;
  throw BadInput(std::string(what) + " has spatial sizes " + to_text(found) + ", the window gives " + to_text(expected));
}

// --- Labels. The same five kinds of iteration dimension serve all rows; what differs is which tensors have them. ---

/// Tensors of channels (group, per_group), such as X and Y.
TensorLabels image_labels(const Shape& shape, std::int64_t group, std::int16_t channel) {
  TensorLabels labels(shape.size());
  labels[0] = whole(Batch, shape[0]);
  labels[1] = nested({Group, group}, {channel, shape[1] / group});
  label_spatial(labels, shape, Spatial);
  return labels;
}

TensorLabels weight_labels(const Shape& shape, std::int64_t group, std::int16_t rows, std::int16_t columns) {
  TensorLabels labels(shape.size());
  labels[0] = nested({Group, group}, {rows, shape[0] / group});
  labels[1] = shape[1] > 1 ? whole(columns, shape[1]) : DimLabels{};
  return labels;
}

std::vector<LabelKind> kinds_of(std::size_t rank, ConvolutionLabel summed) {
  std::vector<LabelKind> kinds(rank + Spatial - 2, LabelKind::Window);
  for (const ConvolutionLabel l : {Batch, Group, In, Out}) kinds[l] = l == summed ? LabelKind::Sum : LabelKind::Parallel;
  return kinds;
}

/// X, W, B? -> Y. A bias is added once: where channels that are summed over are split, one block adds it.
SplitRule conv_labels(const NodeView& node) {
  const Shape &x = node.input(0).shape, &w = node.input(1).shape, &y = node.output().shape;
  const std::int64_t group = x[1] / w[1];
  SplitRule rule{{image_labels(x, group, In), weight_labels(w, group, Out, In)}, {image_labels(y, group, Out)}, kinds_of(x.size(), In)};
  if (node.inputs.size() > 2)
    rule.inputs.push_back(node.has_input(2) ? TensorLabels{nested({Group, group}, {Out, y[1] / group})} : TensorLabels{});
  return rule;
}

/// dY, W -> dX, also X, W, B? -> Y of the transposed convolution: contracts dimension 0 of the weight.
SplitRule transposed_labels(const NodeView& node) {
  const Shape &from = node.input(0).shape, &w = node.input(1).shape, &to = node.output().shape;
  const std::int64_t group = to[1] / w[1];
  SplitRule rule{
      {image_labels(from, group, Out), weight_labels(w, group, Out, In)}, {image_labels(to, group, In)}, kinds_of(from.size(), Out)};
  if (node.inputs.size() > 2) rule.inputs.push_back(node.has_input(2) ? TensorLabels{nested({Group, group}, {In, w[1]})} : TensorLabels{});
  return rule;
}

/// X, dY -> dW. Spatial labels are windows that no result has: operands need their halo and the result is a partial sum.
SplitRule weight_gradient_labels(const NodeView& node) {
  const Shape &x = node.input(0).shape, &dy = node.input(1).shape, &dw = node.output().shape;
  const std::int64_t group = x[1] / dw[1];
  return {{image_labels(x, group, In), image_labels(dy, group, Out)}, {weight_labels(dw, group, Out, In)}, kinds_of(x.size(), Batch)};
}

SplitRule bias_gradient_labels(const NodeView& node) {
  const Shape& dy = node.input(0).shape;
  SplitRule rule;
  rule.inputs.push_back(TensorLabels(dy.size()));
  for (std::size_t d = 0; d < dy.size(); ++d) rule.inputs[0][d] = whole(static_cast<int>(d), dy[d]);
  rule.outputs.push_back({whole(1, dy[1])});
  rule.kinds.assign(dy.size(), LabelKind::Sum);
  rule.kinds[1] = LabelKind::Parallel;
  return rule;
}

// --- Work. Each of the three products visits every (small image element, weight element of its channel) pair once. ---

/// `small`: the tensor at the resolution of a convolution's result; `w`: the weight [rows, columns, taps...].
Work product_work(const NodeView& node, const Shape& small, const Shape& w, bool bias) {
  const double positions = static_cast<double>(element_count(small)) / static_cast<double>(small[1]);
  const double added = bias ? static_cast<double>(element_count(node.output().shape)) : 0;
  return {Flops(2 * positions * static_cast<double>(element_count(w)) + added), traffic(node)};
}
Work conv_work(const NodeView& node) { return product_work(node, node.output().shape, node.input(1).shape, node.has_input(2)); }
Work transposed_work(const NodeView& node) { return product_work(node, node.input(0).shape, node.input(1).shape, node.has_input(2)); }
Work weight_gradient_work(const NodeView& node) { return product_work(node, node.input(1).shape, node.output().shape, false); }

// --- Types. ---

std::vector<TensorType> infer_conv(const NodeView& node) {
  require_operands(node, 2, 3);
  require_weight_rank(node);
  require_channels(node, 1, {0, 1});
  const Shape &x = node.input(0).shape, &w = node.input(1).shape;
  const std::int64_t group = groups_of(node, w[0], "output channels");
  require_channels(node, w[1] * group, "the weight's dimension 1 times 'group'");
  require_bias(node, w[0]);
  const Window window = window_of(node.attributes, spatial_of(w));
  return {{node.input(0).dtype, image_shape(x[0], w[0], windows_in(spatial_of(x), window))}};
}

std::vector<TensorType> infer_transposed(const NodeView& node) {
  require_operands(node, 2, 3);
  require_weight_rank(node);
  require_channels(node, 1, {0, 1});
  const Shape &x = node.input(0).shape, &w = node.input(1).shape;
  const std::int64_t group = groups_of(node, w[0], "input channels");
  require_channels(node, w[0], "the weight's dimension 0");
  require_bias(node, w[1] * group);
  const Window window = window_of(node.attributes, spatial_of(w));
  ConvolutionSizes padding = node.attributes.integers("output_padding");
  if (padding.empty()) padding.assign(window.rank(), 0);
  if (padding.size() != window.rank())
    throw BadInput("attribute 'output_padding' needs one entry per spatial axis: " + std::to_string(window.rank()));
  for (std::size_t d = 0; d < padding.size(); ++d) {
    if (padding[d] < 0 || padding[d] >= std::max(window.strides[d], window.dilations[d])) {
      throw BadInput("attribute 'output_padding' is " + std::to_string(padding[d]) + " on spatial axis " + std::to_string(d) +
                     ", it must be less than the stride or the dilation");
    }
  }
  return {{node.input(0).dtype, image_shape(x[0], w[1] * group, windows_from(spatial_of(x), window, padding))}};
}

std::vector<TensorType> infer_input_gradient(const NodeView& node) {
  require_operands(node, 2, 2);
  require_weight_rank(node);
  require_channels(node, 1, {0, 1});
  const Shape &dy = node.input(0).shape, &w = node.input(1).shape;
  const std::int64_t group = groups_of(node, w[0], "output channels");
  require_channels(node, w[0], "the weight's dimension 0");
  const ConvolutionSizes spatial = node.attributes.integers("shape");
  if (spatial.size() != dy.size() - 2)
    throw BadInput("attribute 'shape' needs the " + std::to_string(dy.size() - 2) + " spatial sizes of the result");
  require_spatial(windows_in(spatial, window_of(node.attributes, spatial_of(w))), spatial_of(dy), "operand 0");
  return {{node.input(0).dtype, image_shape(dy[0], w[1] * group, spatial)}};
}

std::vector<TensorType> infer_weight_gradient(const NodeView& node) {
  require_operands(node, 2, 2);
  require_weight_rank(node);
  require_channels(node, 0, {1});
  require_channels(node, 1, {1});
  const Shape &x = node.input(0).shape, &dy = node.input(1).shape;
  const std::int64_t group = groups_of(node, x[1], "input channels");
  (void)groups_of(node, dy[1], "output channels");
  if (x[0] != dy[0]) throw BadInput("operands 0 and 1 hold " + std::to_string(x[0]) + " and " + std::to_string(dy[0]) + " images");
  const Window window = window_of(node.attributes, node.attributes.integers("kernel_shape"));
  if (window.rank() != x.size() - 2) throw BadInput("attribute 'kernel_shape' needs " + std::to_string(x.size() - 2) + " entries");
  require_spatial(windows_in(spatial_of(x), window), spatial_of(dy), "operand 1");
  return {{node.input(0).dtype, image_shape(dy[1], x[1] / group, window.kernel)}};
}

std::vector<TensorType> infer_bias_gradient(const NodeView& node) {
  require_operands(node, 1, 1);
  return {{node.input(0).dtype, {node.input(0).shape[1]}}};
}

// --- Gradients. ---

Attributes with(Attributes attributes, const char* key, ConvolutionSizes values) {
  attributes.erase("output_padding");
  attributes.set(key, std::move(values));
  return attributes;
}

void conv_gradient(GradientContext& context) {
  const TensorId x = context.input(0), w = context.input(1), dy = context.gradient_of_output();
  const Attributes& attributes = context.attributes();
  if (context.wants(0))
    context.set(0, context.emit1("ConvGradInput", {dy, w}, with(attributes, "shape", spatial_of(context.type(x).shape))));
  if (context.wants(1))
    context.set(1, context.emit1("ConvGradWeight", {x, dy}, with(attributes, "kernel_shape", spatial_of(context.type(w).shape))));
  if (context.wants(2)) context.set(2, context.emit1("ConvGradBias", {dy}));
}

/// The convolution whose input gradient this transposed convolution is. Rows added by "output_padding" that would make room for
/// one more window receive nothing, so its high padding shrinks until the sizes agree.
Attributes convolution_behind(const Attributes& transposed, const Shape& x, const Shape& y, const Shape& w) {
  Window window = window_of(transposed, spatial_of(w));
  for (std::size_t d = 0; d < window.rank(); ++d) {
    const std::int64_t used = (x[d + 2] - 1) * window.strides[d] + window.span(d) - window.low[d];
    if (y[d + 2] + window.high[d] - used >= window.strides[d]) window.high[d] = used - y[d + 2];
  }
  ConvolutionSizes pads = window.low;
  pads.insert(pads.end(), window.high.begin(), window.high.end());
  return with(transposed, "pads", std::move(pads));
}

void transposed_gradient(GradientContext& context) {
  const TensorId x = context.input(0), w = context.input(1), dy = context.gradient_of_output();
  const Shape& kernel = context.type(w).shape;
  const Attributes attributes =
      convolution_behind(context.attributes(), context.type(x).shape, context.type(context.output()).shape, kernel);
  if (context.wants(0)) context.set(0, context.emit1("Conv", {dy, w}, attributes));
  if (context.wants(1)) context.set(1, context.emit1("ConvGradWeight", {dy, x}, with(attributes, "kernel_shape", spatial_of(kernel))));
  if (context.wants(2)) context.set(2, context.emit1("ConvGradBias", {dy}));
}

const OpSchema kConvolutionRows[] = {
    {.name = "Conv",
     .description = "Cross-correlation of X [n, c, spatial] with W [o, c / group, kernel], plus an optional bias [o].",
     .family = CostFamily::Convolution,
     .infer = infer_conv,
     .labels = conv_labels,
     .work = conv_work,
     .gradient = conv_gradient,
     .addend = 2,
     .window = WindowSides{.large = 0, .small = -1, .kernel = 1}},
    {.name = "ConvGradInput",
     .description = "Gradient of Conv for X, from dY and W; attribute 'shape' has X's spatial sizes.",
     .family = CostFamily::Convolution,
     .infer = infer_input_gradient,
     .labels = transposed_labels,
     .work = transposed_work,
     .no_gradient = kSecondDerivative,
     .window = WindowSides{.large = -1, .small = 0, .kernel = 1}},
    {.name = "ConvGradWeight",
     .description = "Gradient of Conv for W, from X and dY; attribute 'kernel_shape' has W's spatial sizes.",
     .family = CostFamily::Convolution,
     .infer = infer_weight_gradient,
     .labels = weight_gradient_labels,
     .work = weight_gradient_work,
     .no_gradient = kSecondDerivative,
     .window = WindowSides{.large = 0, .small = 1, .sums_positions = true}},
    without_gradient("ConvGradBias", "Sum of dY over batch and spatial axes: the gradient of a bias per channel.", CostFamily::Reduction,
                     {infer_bias_gradient, bias_gradient_labels, work_per_operand<1>}),
    {.name = "ConvTranspose",
     .description = "Transposed convolution of X [n, c, spatial] with W [c, o / group, kernel], plus an optional bias [o].",
     .family = CostFamily::Convolution,
     .infer = infer_transposed,
     .labels = transposed_labels,
     .work = transposed_work,
     .gradient = transposed_gradient,
     .addend = 2,
     .window = WindowSides{.large = -1, .small = 0, .kernel = 1}},
};

}  // namespace

std::span<const OpSchema> convolution_ops() { return kConvolutionRows; }

}  // namespace rehearsal::graph
