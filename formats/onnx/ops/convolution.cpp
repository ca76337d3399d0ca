// Convolutions and pools: padding rules become explicit padding.

#include "formats/onnx/ops/convolution.hpp"

#include <algorithm>
#include <numeric>

#include "formats/onnx/ops/import_families.hpp"

namespace rehearsal::formats {
namespace {

using graph::Attributes;
using graph::Shape;
using graph::TensorId;
using ConvolutionSizes = std::vector<std::int64_t>;

constexpr std::int64_t kLargest = std::int64_t{1} << 30;  ///< of a kernel, stride or dilation: products of two cannot overflow

ConvolutionSizes or_ones(ConvolutionSizes sizes, std::size_t count) {
  if (sizes.empty()) sizes.assign(count, 1);
  return sizes;
}

void require_spatial(const NodeImport& n, const ConvolutionSizes& sizes, const char* key) {
  const std::size_t spatial = n.rank(0) < 2 ? 0 : n.rank(0) - 2;
  if (sizes.size() != spatial)
    n.fail(std::string(key) + " has " + std::to_string(sizes.size()) + " entries, operand 0 of shape " + graph::to_text(n.shape(0)) +
           " has " + std::to_string(spatial) + " spatial axes");
}

/// Low and high padding that give ceil(size / stride) windows; an odd one goes to the end for SAME_UPPER.
ConvolutionSizes same_padding(const NodeImport& n, const ConvolutionSizes& kernel, const ConvolutionSizes& strides,
                              const ConvolutionSizes& dilations) {
  const std::size_t rank = kernel.size();
  ConvolutionSizes pads(2 * rank);
  for (std::size_t d = 0; d < rank; ++d) {
    const std::int64_t size = n.shape(0)[d + 2];
    if (size > kLargest) n.fail("an image axis of " + std::to_string(size) + " is not possible");
    const std::int64_t windows = (size + strides[d] - 1) / strides[d];
    const std::int64_t total = std::max<std::int64_t>(0, (windows - 1) * strides[d] + (kernel[d] - 1) * dilations[d] + 1 - size);
    const bool upper = n.text("auto_pad", "NOTSET") == "SAME_UPPER";
    pads[d] = upper ? total / 2 : total - total / 2;
    pads[d + rank] = total - pads[d];
  }
  return pads;
}

struct WindowAttributes {
  ConvolutionSizes kernel, strides, dilations, pads;
};

WindowAttributes window_attributes(const NodeImport& n, ConvolutionSizes kernel) {
  require_spatial(n, kernel, "kernel_shape");
  const std::size_t rank = kernel.size();
  WindowAttributes w{std::move(kernel), or_ones(n.integers("strides"), rank), or_ones(n.integers("dilations"), rank), n.integers("pads")};
  require_spatial(n, w.strides, "strides");
  require_spatial(n, w.dilations, "dilations");
  for (const ConvolutionSizes* sizes : {&w.kernel, &w.strides, &w.dilations}) {
    if (std::any_of(sizes->begin(), sizes->end(), [](std::int64_t s) { return s < 1 || s > kLargest; }))
      n.fail("kernel sizes, strides and dilations must be at least 1, and not absurd");
  }
  if (n.text("auto_pad", "NOTSET").starts_with("SAME")) w.pads = same_padding(n, w.kernel, w.strides, w.dilations);
  if (w.pads.empty() || n.text("auto_pad", "NOTSET") == "VALID") w.pads.assign(2 * rank, 0);
  return w;
}

ConvolutionSizes kernel_of_weight(const NodeImport& n, std::size_t weight = 1) {
  const Shape shape = n.shape(weight);
  if (shape.size() < 3) n.fail("the weight has shape " + graph::to_text(shape) + ", it must have a kernel of one or more axes");
  return {shape.begin() + 2, shape.end()};
}

/// Exporters of today write a bias of zeros in a wrong shape for an unbiased convolution: it adds nothing.
bool is_broken_zero_bias(NodeImport& n, std::int64_t channels) {
  if (!n.has(2) || n.shape(2) == Shape{channels}) return false;
  const graph::Tensor& bias = n.builder()[n.input(2)];
  if (bias.producer != graph::NodeId::None || !bias.contents.known() || graph::element_count(bias.type.shape) > graph::kLargestFolded)
    return false;
  const auto values = graph::read_reals(bias.contents, bias.type.shape, 0, 0);
  if (std::any_of(values.begin(), values.end(), [](double x) { return x != 0; })) return false;
  n.warn("its bias of zeros has shape " + graph::to_text(bias.type.shape) + " instead of [" + std::to_string(channels) +
         "]; it is left out");
  return true;
}

std::vector<TensorId> weighted_operands(NodeImport& n, std::int64_t channels) {
  std::vector<TensorId> operands{n.input(0), n.input(1)};
  if (n.has(2) && !is_broken_zero_bias(n, channels)) operands.push_back(n.input(2));
  return operands;
}

void conv(NodeImport& n) { n.set(0, emit_convolution(n, weighted_operands(n, n.shape(1).at(0)))); }

/// Padding of a transposed convolution whose result has the sizes in "output_shape", or size times stride for SAME.
void pad_to_output(const NodeImport& n, WindowAttributes& w, ConvolutionSizes& output_padding) {
  const std::string mode = n.text("auto_pad", "NOTSET");
  const std::size_t rank = w.kernel.size();
  ConvolutionSizes wanted = n.integers("output_shape");
  if (wanted.size() == rank + 2) wanted.erase(wanted.begin(), wanted.begin() + 2);
  if (wanted.empty() && !mode.starts_with("SAME")) return;
  if (!wanted.empty()) require_spatial(n, wanted, "output_shape");
  require_spatial(n, output_padding, "output_padding");
  for (std::size_t d = 0; d < rank; ++d) {
    const std::int64_t size = n.shape(0)[d + 2];
    if (size > kLargest) n.fail("an image axis of " + std::to_string(size) + " is not possible");
    const std::int64_t result = wanted.empty() ? size * w.strides[d] : wanted[d];
    const std::int64_t whole = (size - 1) * w.strides[d] + (w.kernel[d] - 1) * w.dilations[d] + 1;
    // what is missing is added at the high end, as rows that see no kernel
    output_padding[d] = std::max(output_padding[d], result - whole);
    const std::int64_t total = std::max<std::int64_t>(0, whole + output_padding[d] - result);
    w.pads[d] = mode == "SAME_UPPER" ? total / 2 : total - total / 2;
    w.pads[d + rank] = total - w.pads[d];
  }
}

void conv_transpose(NodeImport& n) {
  WindowAttributes w = window_attributes(n, kernel_of_weight(n));
  ConvolutionSizes output_padding = n.integers("output_padding");
  if (output_padding.empty()) output_padding.assign(w.kernel.size(), 0);
  pad_to_output(n, w, output_padding);
  const std::int64_t group = n.integer("group", 1);
  Attributes attributes{{"strides", w.strides}, {"dilations", w.dilations}, {"pads", w.pads}, {"group", group}};
  if (std::any_of(output_padding.begin(), output_padding.end(), [](std::int64_t p) { return p != 0; }))
    attributes.set("output_padding", output_padding);
  n.set(0, n.emit("ConvTranspose", weighted_operands(n, n.shape(1)[1] * group), std::move(attributes)));
}

/// Positions of the maxima in the whole tensor; storage_order 1 counts the first image axis fastest.
void set_positions(NodeImport& n, const TensorId x, Attributes attributes) {
  if (!n.reads(1)) return;
  if (n.integer("storage_order", 0) != 0) attributes.set("column_major", std::int64_t{1});
  n.set(1, n.emit("MaxPoolPositions", {x}, std::move(attributes)));
}

void pool(NodeImport& n) {
  const WindowAttributes w = window_attributes(n, n.integers("kernel_shape"));
  const bool same = n.text("auto_pad", "NOTSET").starts_with("SAME");
  Attributes attributes{{"kernel_shape", w.kernel}, {"strides", w.strides}, {"dilations", w.dilations}, {"pads", w.pads}};
  if (n.integer("ceil_mode", 0) != 0 && !same) attributes.set("ceil_mode", std::int64_t{1});
  if (n.op() == "AveragePool") attributes.set("count_include_pad", n.integer("count_include_pad", 0));
  const DType type = n.type(0).dtype;
  const auto cast = [&](TensorId t, DType to) { return is_float(type) ? t : n.emit("Cast", {t}, {{"to", std::string(name(to))}}); };
  const TensorId x = cast(n.input(0), DType::F64);  // the largest of integers is found among numbers that hold them exactly
  const TensorId result = n.emit(n.op(), {x}, attributes);
  n.set(0, cast(result, type));
  if (n.wants(1) && !n.reads(1)) n.declare(1, {DType::I64, n.builder().type(result).shape});
  set_positions(n, x, std::move(attributes));
}

/// Zeros with each element where MaxPool found it.
void max_unpool(NodeImport& n) {
  const Shape x = n.shape(0);
  const WindowAttributes w = window_attributes(n, n.integers("kernel_shape"));
  Shape shape = n.has(2) ? n.known_integers(2, "the shape of the result") : x;
  for (std::size_t d = 0; d < w.kernel.size() && !n.has(2); ++d)
    shape[d + 2] = (x[d + 2] - 1) * w.strides[d] + w.kernel[d] - w.pads[d] - w.pads[d + w.kernel.size()];
  if (shape.size() != x.size()) n.fail("its result has shape " + graph::to_text(shape) + ", which does not fit " + graph::to_text(x));
  // positions count in the image that was pooled: its sizes follow from the window, and the result may be larger
  Shape pooled = x;
  for (std::size_t d = 0; d < w.kernel.size(); ++d)
    pooled[d + 2] = (x[d + 2] - 1) * w.strides[d] + w.kernel[d] - w.pads[d] - w.pads[d + w.kernel.size()];
  const TensorId zeros =
      n.emit("ConstantOfShape", {}, {{"shape", Shape{graph::element_count(pooled)}}, {"dtype", std::string(name(n.type(0).dtype))}});
  const std::int64_t count = graph::element_count(x);
  const TensorId flat = n.emit("ScatterElements", {zeros, n.reshape(n.input(1), {count}), n.reshape(n.input(0), {count})});
  TensorId result = n.reshape(flat, pooled);
  if (pooled != shape) {
    ConvolutionSizes pads(2 * w.kernel.size(), 0);
    for (std::size_t d = 0; d < w.kernel.size(); ++d) pads[w.kernel.size() + d] = shape[d + 2] - pooled[d + 2];
    result = n.emit("Pad", {result}, {{"pads", pads}, {"mode", std::string("constant")}, {"value", 0.0}});
  }
  n.set(0, result);
}

/// Padding at the end that makes the windows that ceil_mode adds whole. They start inside the image or its padding at the low end.
void pad_for_ceil(const NodeImport& n, WindowAttributes& w) {
  const std::size_t rank = w.kernel.size();
  for (std::size_t d = 0; d < rank; ++d) {
    const std::int64_t size = n.shape(0)[d + 2], reach = (w.kernel[d] - 1) * w.dilations[d] + 1;
    const std::int64_t room = size + w.pads[d] + w.pads[d + rank] - reach;
    std::int64_t windows = (room + w.strides[d] - 1) / w.strides[d] + 1;
    if ((windows - 1) * w.strides[d] >= size + w.pads[d]) --windows;
    w.pads[d + rank] += std::max<std::int64_t>(0, (windows - 1) * w.strides[d] - room);
  }
}

TensorId to_power(NodeImport& n, TensorId x, double p) {
  if (p == 1) return x;
  return p == 0.5 ? n.emit("Sqrt", {x}) : n.emit("Pow", {x, n.scalar(p, n.builder().type(x).dtype)});
}

/// |x|^p with p of at least 1.
TensorId size_to_power(NodeImport& n, std::int64_t p) {
  if (p < 1) n.fail("p is " + std::to_string(p) + ", it must be 1 or more");
  return p == 2 ? n.emit("Mul", {n.input(0), n.input(0)}) : to_power(n, n.emit("Abs", {n.input(0)}), static_cast<double>(p));
}

/// The p-norm of every window: sums of powers are a convolution with ones.
void lp_pool(NodeImport& n) {
  WindowAttributes w = window_attributes(n, n.integers("kernel_shape"));
  if (n.integer("ceil_mode", 0) != 0 && !n.text("auto_pad", "NOTSET").starts_with("SAME")) pad_for_ceil(n, w);
  const std::int64_t p = n.integer("p", 2), channels = n.shape(0)[1];
  Shape ones{channels, 1};
  ones.insert(ones.end(), w.kernel.begin(), w.kernel.end());
  const TensorId kernel = n.emit("ConstantOfShape", {}, {{"shape", ones}, {"dtype", std::string(name(n.type(0).dtype))}, {"value", 1.0}});
  const TensorId sums = n.emit("Conv", {size_to_power(n, p), kernel},
                               {{"strides", w.strides}, {"dilations", w.dilations}, {"pads", w.pads}, {"group", channels}});
  n.set(0, to_power(n, sums, 1.0 / static_cast<double>(p)));
}

void global_lp_pool(NodeImport& n) {
  if (n.rank(0) < 3) n.fail("operand 0 has shape " + graph::to_text(n.shape(0)) + ", it must have spatial axes");
  ConvolutionSizes axes(n.rank(0) - 2);
  std::iota(axes.begin(), axes.end(), 2);
  const std::int64_t p = n.integer("p", 2);
  const TensorId sums = n.emit("ReduceSum", {size_to_power(n, p)}, {{"axes", axes}, {"keepdims", std::int64_t{1}}});
  n.set(0, to_power(n, sums, 1.0 / static_cast<double>(p)));
}

void global_pool(NodeImport& n) {
  if (n.rank(0) < 3) n.fail("operand 0 has shape " + graph::to_text(n.shape(0)) + ", it must have spatial axes");
  ConvolutionSizes axes(n.rank(0) - 2);
  std::iota(axes.begin(), axes.end(), 2);
  Attributes attributes{{"axes", axes}, {"keepdims", std::int64_t{1}}};
  if (n.op() == "GlobalMaxPool") return n.set(0, n.emit("ReduceMax", {n.input(0)}, attributes));
  std::int64_t count = 1;
  for (const std::int64_t axis : axes) count *= n.shape(0)[static_cast<std::size_t>(axis)];
  if (count == 0) n.fail("the mean of no elements is not defined");
  if (count != 1) attributes.set("scale", 1.0 / static_cast<double>(count));
  n.set(0, n.emit("ReduceSum", {n.input(0)}, attributes));
}

constexpr ImportRow kConvolutionRows[] = {
    {kDefaultDomain, "Conv", 1, kNewest, conv},
    {kDefaultDomain, "ConvTranspose", 1, kNewest, conv_transpose},
    {kDefaultDomain, "MaxPool", 1, kNewest, pool},
    {kDefaultDomain, "AveragePool", 1, kNewest, pool},
    {kDefaultDomain, "MaxUnpool", 9, kNewest, max_unpool},
    {kDefaultDomain, "LpPool", 2, kNewest, lp_pool},
    {kDefaultDomain, "GlobalLpPool", 2, kNewest, global_lp_pool},
    {kDefaultDomain, "GlobalAveragePool", 1, kNewest, global_pool},
    {kDefaultDomain, "GlobalMaxPool", 1, kNewest, global_pool},
};

}  // namespace

TensorId emit_convolution(NodeImport& n, std::vector<TensorId> operands, std::size_t weight) {
  const WindowAttributes w = window_attributes(n, kernel_of_weight(n, weight));
  return n.emit("Conv", std::move(operands),
                {{"strides", w.strides}, {"dilations", w.dilations}, {"pads", w.pads}, {"group", n.integer("group", 1)}});
}

std::span<const ImportRow> convolution_rows() { return kConvolutionRows; }

}  // namespace rehearsal::formats
