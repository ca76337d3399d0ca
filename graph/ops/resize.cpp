// Interpolation and padding of trailing axes, and their gradients (the transposed maps).

#include <algorithm>
#include <string>

#include "base/error.hpp"
#include "graph/gradient.hpp"
#include "graph/ops/interpolation.hpp"
#include "graph/ops/labels.hpp"
#include "graph/ops/op_families.hpp"

namespace rehearsal::graph {
namespace {

using ResizeSizes = std::vector<std::int64_t>;

void require_trailing(std::size_t count, const Shape& shape, const char* key) {
  if (count > 0 && count <= shape.size()) return;
  throw BadInput(std::string("attribute '") + key + "' is about " + std::to_string(count) + " trailing axes, the operand has " +
                 std::to_string(shape.size()));
}

void require_positive(const ResizeSizes& sizes, const char* key) {
  for (const std::int64_t size : sizes) {
    if (size < 1)
      throw BadInput(std::string("attribute '") + key + "' has a size of " + std::to_string(size) + ", each must be at least 1");
  }
}

Shape with_trailing(Shape shape, const ResizeSizes& sizes) {
  std::copy(sizes.begin(), sizes.end(), shape.end() - static_cast<std::ptrdiff_t>(sizes.size()));
  return shape;
}

ResizeSizes trailing(const Shape& shape, std::size_t count) { return {shape.end() - static_cast<std::ptrdiff_t>(count), shape.end()}; }

/// One float operand whose trailing axes the attribute `key` describes; returns its sizes.
ResizeSizes require_image_of_resize(const NodeView& node, const char* key) {
  require_inputs(node, 1, 1);
  require_float(node, 0);
  ResizeSizes sizes = node.attributes.integers(key);
  require_trailing(sizes.size(), node.input(0).shape, key);
  require_positive(sizes, key);
  return sizes;
}

/// Checks modes and scales by asking for the taps of the first element of each axis.
void require_resizable(const Attributes& attributes, const ResizeSizes& from, const ResizeSizes& to) {
  const std::vector<double> scales = attributes.numbers("scales");
  if (!scales.empty() && scales.size() != to.size())
    throw BadInput("attribute 'scales' must have one entry per entry of 'sizes': " + std::to_string(to.size()));
  require_positive(from, "shape");
  for (const double scale : scales) {
    if (!(scale > 0)) throw BadInput("attribute 'scales' has an entry that is not positive");
  }
  (void)resize_taps(attributes, {1, 2, 2.0}, 0);
}

std::vector<TensorType> infer_resize(const NodeView& node) {
  const ResizeSizes sizes = require_image_of_resize(node, "sizes");
  require_resizable(node.attributes, trailing(node.input(0).shape, sizes.size()), sizes);
  return {{node.input(0).dtype, with_trailing(node.input(0).shape, sizes)}};
}

std::vector<TensorType> infer_resize_gradient(const NodeView& node) {
  const ResizeSizes shape = require_image_of_resize(node, "shape"), sizes = node.attributes.integers("sizes");
  if (sizes != trailing(node.input(0).shape, shape.size()))
    throw BadInput("attribute 'sizes' must be the trailing sizes of operand 0, " + to_text(node.input(0).shape));
  require_resizable(node.attributes, shape, sizes);
  return {{node.input(0).dtype, with_trailing(node.input(0).shape, shape)}};
}

/// Sizes after padding `shape` with the attribute "pads" (all low sides of the trailing axes, then all high sides).
ResizeSizes padded(const Attributes& attributes, const ResizeSizes& shape) {
  const ResizeSizes pads = attributes.integers("pads");
  ResizeSizes sizes = shape;
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    sizes[d] += pads[d] + pads[d + sizes.size()];
    if (sizes[d] < 1) throw BadInput("'pads' leave nothing of an axis of " + std::to_string(shape[d]));
    if (attributes.text("mode", "constant") == "reflect" && std::max(pads[d], pads[d + sizes.size()]) >= shape[d]) {
      throw BadInput("reflected 'pads' must be smaller than the axis of " + std::to_string(shape[d]));
    }
  }
  (void)pad_taps(attributes, 1, 0, 0);
  return sizes;
}

std::size_t padded_axes(const NodeView& node) {
  require_inputs(node, 1, 1);
  require_float(node, 0);
  const std::size_t entries = node.attributes.integers("pads").size();
  if (entries % 2 != 0) throw BadInput("attribute 'pads' has " + std::to_string(entries) + " entries, it needs two per axis");
  require_trailing(entries / 2, node.input(0).shape, "pads");
  return entries / 2;
}

std::vector<TensorType> infer_pad(const NodeView& node) {
  const std::size_t axes = padded_axes(node);
  const Shape& x = node.input(0).shape;
  return {{node.input(0).dtype, with_trailing(x, padded(node.attributes, trailing(x, axes)))}};
}

std::vector<TensorType> infer_pad_gradient(const NodeView& node) {
  const std::size_t axes = padded_axes(node);
  const ResizeSizes shape = require_image_of_resize(node, "shape");
  const Shape& dy = node.input(0).shape;
  if (shape.size() != axes || padded(node.attributes, shape) != trailing(dy, axes)) {
    throw BadInput("operand 0 has shape " + to_text(dy) + ", which is not 'shape' padded by 'pads'");
  }
  return {{node.input(0).dtype, with_trailing(dy, shape)}};
}

/// Label d is dimension d. An axis that keeps its size and is not padded maps element to element.
SplitRule window_labels(const NodeView& node) {
  const Shape &from = node.input(0).shape, &to = node.output().shape;
  const ResizeSizes pads = node.attributes.integers("pads");
  const std::size_t axes = pads.size() / 2, leading = from.size() - axes;
  SplitRule rule{{TensorLabels(from.size())}, {TensorLabels(to.size())}, std::vector<LabelKind>(from.size(), LabelKind::Parallel)};
  for (std::size_t d = 0; d < from.size(); ++d) {
    rule.inputs[0][d] = whole(static_cast<int>(d), from[d]);
    rule.outputs[0][d] = whole(static_cast<int>(d), to[d]);
    // What is put before an axis that keeps its size is cut off behind.
    const bool shifted = d >= leading && pads[d - leading] != 0;
    if (from[d] != to[d] || shifted) rule.kinds[d] = LabelKind::Window;
  }
  return rule;
}

/// A multiply-add per tap: 1, 2 or 4 per resized axis.
Work resize_work(const NodeView& node) {
  const std::string mode = node.attributes.text("mode", "nearest");
  const double taps = mode == "nearest" ? 0 : mode == "linear" ? 2 : 4;
  const auto larger = std::max(element_count(node.input(0).shape), element_count(node.output().shape));
  return {Flops(2 * taps * static_cast<double>(node.attributes.integers("sizes").size()) * static_cast<double>(larger)), traffic(node)};
}

/// Emits row `op` with the operand's sizes of as many trailing axes as `axes`.
void emit_transposed(GradientContext& context, std::string_view op, std::size_t axes) {
  Attributes attributes = context.attributes();
  attributes.set("shape", trailing(context.type(context.input(0)).shape, axes));
  context.set(0, context.emit1(op, {context.gradient_of_output()}, std::move(attributes)));
}
void resize_gradient(GradientContext& context) { emit_transposed(context, "ResizeGrad", context.attributes().integers("sizes").size()); }
void pad_gradient(GradientContext& context) { emit_transposed(context, "PadGrad", context.attributes().integers("pads").size() / 2); }

const OpSchema kResizeRows[] = {
    with_gradient("Resize", "Interpolates the trailing axes to 'sizes' (nearest, linear, cubic).", CostFamily::Movement,
                  {infer_resize, window_labels, resize_work}, resize_gradient),
    without_gradient("ResizeGrad",
                     "Gradient of Resize: each element goes back to those it was made of; 'shape' has the trailing sizes of the result.",
                     CostFamily::Movement, {infer_resize_gradient, window_labels, resize_work}),
    with_gradient(
        "Pad", "Puts elements around the trailing axes: a constant 'value', or reflected, edge or wrapped ones; negative 'pads' cut off.",
        CostFamily::Movement, {infer_pad, window_labels}, pad_gradient),
    without_gradient("PadGrad",
                     "Gradient of Pad: padding goes back to the element it repeated; 'shape' has the trailing sizes of the result.",
                     CostFamily::Movement, {infer_pad_gradient, window_labels}),
};

}  // namespace

std::span<const OpSchema> resize_ops() { return kResizeRows; }

}  // namespace rehearsal::graph
