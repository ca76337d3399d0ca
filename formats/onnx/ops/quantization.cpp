// Numbers stored as small integers: integers are cast, and products are taken in f64, which holds them exactly.

#include <algorithm>

#include "formats/onnx/ops/convolution.hpp"
#include "formats/onnx/ops/import_families.hpp"

namespace rehearsal::formats {
namespace {

using graph::Shape;
using graph::TensorId;

TensorId cast(NodeImport& n, TensorId t, DType type) {
  return n.builder().type(t).dtype == type ? t : n.emit("Cast", {t}, {{"to", std::string(name(type))}});
}

/// Operand i, one number or one for every index along `axis` of a tensor of `rank` dimensions, in a shape that broadcasts.
TensorId along(NodeImport& n, std::size_t i, std::size_t rank, std::int64_t axis) {
  const Shape shape = n.shape(i);
  if (shape.size() != 1 || rank < 2) return n.input(i);
  Shape wide(rank, 1);
  wide[static_cast<std::size_t>(graph::normalize_axis(shape[0] == 1 ? 0 : axis, rank))] = shape[0];
  return n.reshape(n.input(i), wide);
}

/// What the integer types hold.
struct QuantizedRange {
  DType type;
  double least, most;
};
constexpr QuantizedRange kRanges[] = {{DType::U8, 0, 255}, {DType::I8, -128, 127}, {DType::U16, 0, 65535}, {DType::I16, -32768, 32767}};

/// Rounded, moved and limited to what the integer type holds. The gradient passes straight through the rounding (Bengio et al. 2013), as in
/// the fake quantization that such models are trained with.
TensorId stored_as(NodeImport& n, TensorId scaled, TensorId zero_point, DType type) {
  const auto* range = std::find_if(std::begin(kRanges), std::end(kRanges), [&](const QuantizedRange& r) { return r.type == type; });
  if (range == std::end(kRanges)) n.unsupported("quantizing to " + std::string(name(type)) + " is not supported");
  TensorId rounded = n.emit("Round", {scaled});
  if (n.training()) rounded = n.emit("Add", {rounded, n.emit("Sub", {scaled, n.emit("StopGradient", {scaled})})});
  if (zero_point != TensorId::None) rounded = n.emit("Add", {rounded, cast(n, zero_point, n.builder().type(rounded).dtype)});
  return cast(n, n.emit("Clip", {rounded}, {{"min", range->least}, {"max", range->most}}), type);
}

/// Newer versions have a scale for every block of elements, and smaller types.
void require_whole_scale(const NodeImport& n) {
  if (n.integer("block_size", 0) != 0) n.unsupported("a scale for every block is not supported");
}

void quantize(NodeImport& n) {
  require_whole_scale(n);
  const std::int64_t axis = n.integer("axis", 1);
  const DType type = n.has(2) ? n.type(2).dtype : DType::U8;
  const DType real = n.type(1).dtype;
  const TensorId scaled = n.emit("Div", {cast(n, n.input(0), real), along(n, 1, n.rank(0), axis)});
  n.set(0, stored_as(n, scaled, n.has(2) ? along(n, 2, n.rank(0), axis) : TensorId::None, type));
}

/// The numbers that were just quantized, before they became integers; `t` itself when it was stored as integers.
TensorId before_storing(const NodeImport& n, TensorId t, DType type) {
  const graph::NodeId producer = n.builder()[t].producer;
  if (producer == graph::NodeId::None) return t;
  const graph::Node& node = n.builder()[producer];
  return graph::schema(node).name == "Cast" && n.builder().type(node.inputs[0]).dtype == type ? node.inputs[0] : t;
}

/// x - zero point, as numbers of `type`.
TensorId centered(NodeImport& n, std::size_t x, std::size_t zero_point, std::int64_t axis, DType type) {
  const TensorId value = cast(n, before_storing(n, n.input(x), type), type);
  return n.has(zero_point) ? n.emit("Sub", {value, cast(n, along(n, zero_point, n.rank(x), axis), type)}) : value;
}

void dequantize(NodeImport& n) {
  require_whole_scale(n);
  const std::int64_t axis = n.integer("axis", 1);
  n.set(0, n.emit("Mul", {centered(n, 0, 2, axis, n.type(1).dtype), along(n, 1, n.rank(0), axis)}));
}

/// Scale and zero point so that the range of x, with 0, covers all 256 values.
void dynamic_quantize(NodeImport& n) {
  const DType type = n.type(0).dtype;
  const TensorId zero = n.scalar(0, type), x = n.input(0);
  const TensorId high = n.emit("Max", {n.emit("ReduceMax", {x}, {{"keepdims", std::int64_t{0}}}), zero});
  const TensorId low = n.emit("Min", {n.emit("ReduceMin", {x}, {{"keepdims", std::int64_t{0}}}), zero});
  const TensorId scale = n.emit("Div", {n.emit("Sub", {high, low}), n.scalar(255, type)});
  const TensorId point = stored_as(n, n.emit("Div", {n.emit("Neg", {low}), scale}), TensorId::None, DType::U8);
  n.set(0, stored_as(n, n.emit("Div", {x, scale}), point, DType::U8));
  n.set(1, scale);
  n.set(2, point);
}

void matmul_integer(NodeImport& n) {
  const TensorId a = centered(n, 0, 2, -2, DType::F64), b = centered(n, 1, 3, -1, DType::F64);
  n.set(0, cast(n, n.emit("MatMul", {a, b}), DType::I32));
}

void conv_integer(NodeImport& n) {
  const TensorId x = centered(n, 0, 2, 1, DType::F64), w = centered(n, 1, 3, 0, DType::F64);
  n.set(0, cast(n, emit_convolution(n, {x, w}), DType::I32));
}

/// Operands: x, its scale and zero point, w, its scale and zero point, scale and zero point of the result.
void qlinear_matmul(NodeImport& n) {
  const TensorId product = n.emit("MatMul", {centered(n, 0, 2, -2, DType::F64), centered(n, 3, 5, -1, DType::F64)});
  const auto scale = [&](std::size_t i, std::size_t of, std::int64_t axis) { return cast(n, along(n, i, n.rank(of), axis), DType::F64); };
  const TensorId real = n.emit("Mul", {product, n.emit("Mul", {scale(1, 0, -2), scale(4, 3, -1)})});
  const std::size_t rank = n.builder().type(real).shape.size();
  n.set(0, stored_as(n, n.emit("Div", {real, scale(6, 0, -2)}), along(n, 7, rank, -2), n.type(7).dtype));
}

void qlinear_conv(NodeImport& n) {
  const TensorId x = centered(n, 0, 2, 1, DType::F64);
  const Shape weight = n.shape(3);
  TensorId w = cast(n, n.input(3), DType::F64);
  w = n.emit("Sub", {w, cast(n, along(n, 5, weight.size(), 0), DType::F64)});
  std::vector<TensorId> operands{x, w};
  if (n.has(8)) operands.push_back(cast(n, n.input(8), DType::F64));
  const TensorId product = emit_convolution(n, std::move(operands), 3);
  const std::size_t rank = n.rank(0);
  const TensorId scale = n.emit("Mul", {cast(n, along(n, 1, rank, 1), DType::F64), cast(n, along(n, 4, rank, 1), DType::F64)});
  const TensorId real = n.emit("Div", {n.emit("Mul", {product, scale}), cast(n, along(n, 6, rank, 1), DType::F64)});
  n.set(0, stored_as(n, real, along(n, 7, rank, 1), n.type(7).dtype));
}

constexpr ImportRow kQuantizationRows[] = {
    {kDefaultDomain, "QuantizeLinear", 10, kNewest, quantize},
    {kDefaultDomain, "DequantizeLinear", 10, kNewest, dequantize},
    {kDefaultDomain, "DynamicQuantizeLinear", 11, kNewest, dynamic_quantize},
    {kDefaultDomain, "MatMulInteger", 10, kNewest, matmul_integer},
    {kDefaultDomain, "ConvInteger", 10, kNewest, conv_integer},
    {kDefaultDomain, "QLinearMatMul", 10, kNewest, qlinear_matmul},
    {kDefaultDomain, "QLinearConv", 10, kNewest, qlinear_conv},
};

}  // namespace

std::span<const ImportRow> quantization_rows() { return kQuantizationRows; }

}  // namespace rehearsal::formats
