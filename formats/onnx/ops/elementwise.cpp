// Rows that work element by element.

#include <algorithm>
#include <limits>

#include "base/words.hpp"
#include "formats/onnx/ops/import_families.hpp"

namespace rehearsal::formats {
namespace {

using graph::Attributes;
using graph::Shape;
using graph::TensorId;

/// The graph's operator has the same name and meaning, and no attributes.
void same(NodeImport& n) { n.set(0, n.emit(n.op(), n.inputs())); }

/// Before version 7 the second operand was broadcast only when "broadcast" said so, from dimension "axis" on.
TensorId aligned_operand(NodeImport& n) {
  const std::int64_t axis = n.integer("axis", -1);
  const std::size_t rank = n.rank(0);
  if (n.version() >= 7 || n.integer("broadcast", 0) == 0 || axis < 0) return n.input(1);
  Shape shape = n.shape(1);
  const auto end = static_cast<std::size_t>(axis) + shape.size();
  if (end > rank)
    n.fail("operand 1 has shape " + graph::to_text(shape) + ", which from axis " + std::to_string(axis) + " on does not fit into " +
           graph::to_text(n.shape(0)));
  shape.insert(shape.end(), rank - end, 1);
  return n.reshape(n.input(1), shape);
}

void binary(NodeImport& n) { n.set(0, n.emit(n.op(), {n.input(0), aligned_operand(n)})); }

/// Noise below p is true with probability p: where a dropout of ones keeps its element.
void less(NodeImport& n) {
  if (!n.is_noise(0) || !n.training() || !n.value(1)) return binary(n);
  const double p = n.known_number(1, "the probability");
  const DType type = n.type(0).dtype;
  const TensorId ones = n.emit("ConstantOfShape", {}, {{"shape", n.shape(0)}, {"dtype", std::string(name(type))}, {"value", 1.0}});
  const TensorId kept = p < 1 ? n.emit("Dropout", {ones}, {{"ratio", std::clamp(1 - p, 0.0, 1.0)}, {"stream", n.next_stream()}}) : ones;
  n.set(0, n.emit("Greater", {kept, n.scalar(0, type)}));
}

/// Whether operand i is f - x, x being the other one: x + (f - x) is f, and is written for its gradient alone (the straight-through
/// estimator of Bengio et al., arXiv 1308.3432), the difference being detached.
bool is_detached_difference(const NodeImport& n, std::size_t i) {
  const TensorId difference = n.input(i), x = n.input(1 - i);
  const graph::NodeId producer = n.builder()[difference].producer;
  if (producer == graph::NodeId::None || n.builder()[x].type != n.builder()[difference].type) return false;
  const graph::Node node = n.builder()[producer];
  return graph::schema(node).name == "Sub" && node.inputs[1] == x;
}

/// torch writes Add(scores, truth values) for attention with a boolean mask: true stands for 0, false for minus infinity.
void add(NodeImport& n) {
  for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) {
    if (!n.training() || !n.traced() || !is_float(n.type(0).dtype) || !is_detached_difference(n, i)) continue;
    n.warn("adds to a tensor what another is more than it: taken for a straight-through estimator, whose difference has no gradient");
    return n.set(0, n.emit("Add", {n.input(1 - i), n.emit("StopGradient", {n.input(i)})}));
  }
  if (n.type(1).dtype != DType::Bool || !is_float(n.type(0).dtype)) return binary(n);
  n.warn("adds truth values to numbers, which ONNX does not allow; they are taken for an attention mask");
  const DType type = n.type(0).dtype;
  const TensorId mask = n.emit("Where", {n.input(1), n.scalar(0, type), n.scalar(-std::numeric_limits<double>::infinity(), type)});
  n.set(0, n.emit("Add", {n.input(0), mask}));
}

void fold_operands(NodeImport& n) {
  TensorId result = n.input(0);
  const std::string row = n.op() == "Sum" || n.op() == "Mean" ? "Add" : n.op();
  for (std::size_t i = 1; i < n.input_count(); ++i) result = n.emit(row, {result, n.input(i)});
  if (n.op() == "Mean" && n.input_count() > 1) result = n.emit("Scale", {result}, {{"factor", 1.0 / static_cast<double>(n.input_count())}});
  n.set(0, result);
}

struct AttributeDefault {
  std::string_view key;
  double otherwise;
};

void with_numbers(NodeImport& n, std::initializer_list<AttributeDefault> defaults) {
  Attributes attributes;
  for (const auto& d : defaults) attributes.set(d.key, n.number(d.key, d.otherwise));
  n.set(0, n.emit(n.op(), {n.input(0)}, attributes));
}

void leaky_relu(NodeImport& n) { with_numbers(n, {{"alpha", 0.01}}); }
void with_alpha_of_one(NodeImport& n) { with_numbers(n, {{"alpha", 1.0}}); }
void hard_sigmoid(NodeImport& n) { with_numbers(n, {{"alpha", 0.2}, {"beta", 0.5}}); }

void selu(NodeImport& n) {
  // the defaults as the specification writes them; before version 6 they were rounded to 1.6732 and 1.0507
  const bool old = n.version() < 6;
  with_numbers(n, {{"alpha", old ? 1.6732 : 1.67326319217681884765625}, {"gamma", old ? 1.0507 : 1.05070102214813232421875}});
}

void prelu(NodeImport& n) {
  // a slope [c] stands for the channels, as in versions before broadcasting
  Shape slope = n.shape(1);
  const std::size_t rank = n.rank(0);
  const bool channels = slope.size() == 1 && rank > 2 && slope[0] != 1 && slope[0] == n.shape(0)[1] && slope[0] != n.shape(0).back();
  if (channels) slope.insert(slope.end(), rank - 2, 1);
  n.set(0, n.emit("PRelu", {n.input(0), channels ? n.reshape(n.input(1), slope) : n.input(1)}));
}

void gelu(NodeImport& n) { n.set(0, n.emit("Gelu", {n.input(0)}, {{"approximate", n.text("approximate", "none")}})); }

void microsoft_gelu(NodeImport& n) {
  TensorId x = n.input(0);
  if (n.has(1)) x = n.emit("Add", {x, n.input(1)});
  n.set(0, n.emit("Gelu", {x}, {{"approximate", std::string(n.op() == "FastGelu" ? "tanh" : "none")}}));
}

void clip_attributes(NodeImport& n) {
  Attributes attributes;
  for (const char* key : {"min", "max"}) {
    if (n.has_attribute(key)) attributes.set(key, n.number(key, 0));
  }
  n.set(0, n.emit("Clip", {n.input(0)}, attributes));
}

void clip_operands(NodeImport& n) {
  Attributes attributes;
  TensorId x = n.input(0);
  const std::pair<const char*, const char*> bounds[] = {{"min", "Max"}, {"max", "Min"}};
  for (std::size_t i = 1; i <= 2; ++i) {
    if (!n.has(i)) continue;
    if (const graph::Value* bound = n.value(i); bound && bound->count() == 1)
      attributes.set(bounds[i - 1].first, bound->real(0));
    else
      x = n.emit(bounds[i - 1].second, {x, n.input(i)});
  }
  n.set(0, attributes.items().empty() ? x : n.emit("Clip", {x}, attributes));
}

TensorId cast_to(NodeImport& n, TensorId x, DType type) {
  return n.builder().type(x).dtype == type ? x : n.emit("Cast", {x}, {{"to", std::string(name(type))}});
}

void cast(NodeImport& n) {
  const auto type = dtype_from_onnx(static_cast<int>(n.integer("to", 0)));
  if (n.version() < 6) n.unsupported("Cast with a type written as text is not supported");
  if (!type) n.unsupported("element type " + std::to_string(n.integer("to", 0)) + " is not supported");
  // a bound written in f64 keeps its digits, so that a run in f64 uses the number that the author wrote
  const graph::Value* value = n.value(0);
  if (value && n.rank(0) == 0 && value->type.dtype == DType::F64 && *type == DType::F32) {
    return n.set(0, n.constant({{DType::F32, {}}, {}, value->reals}));
  }
  n.set(0, cast_to(n, n.input(0), *type));
}

void cast_like(NodeImport& n) { n.set(0, cast_to(n, n.input(0), n.type(1).dtype)); }

/// Exponents of another type are cast; x^2, x^0.5, 1/x and x have operators of their own, which are cheaper and exact.
void power(NodeImport& n) {
  const TensorId x = n.input(0);
  const graph::Value* exponent = n.value(1);
  const bool constant = exponent && exponent->count() == 1 && n.rank(1) <= n.rank(0) && is_float(n.type(0).dtype);
  const double e = constant ? exponent->real(0) : std::numeric_limits<double>::quiet_NaN();
  if (e == 2) return n.set(0, n.emit("Mul", {x, x}));
  if (e == 0.5) return n.set(0, n.emit("Sqrt", {x}));
  if (e == -1) return n.set(0, n.emit("Reciprocal", {x}));
  if (e == 1) return n.set(0, x);
  n.set(0, n.emit("Pow", {x, cast_to(n, aligned_operand(n), n.type(0).dtype)}));
}

/// Infinities of the signs that are asked for.
void is_infinite(NodeImport& n) {
  const bool above = n.integer("detect_positive", 1) != 0, below = n.integer("detect_negative", 1) != 0;
  const DType type = n.type(0).dtype;
  const TensorId all = n.emit("IsInf", {n.input(0)});
  if (above && below) return n.set(0, all);
  const TensorId sign = n.emit(above ? "Greater" : "Less", {n.input(0), n.scalar(0, type)});
  n.set(0, above || below ? n.emit("And", {all, sign}) : n.emit("And", {all, n.emit("Not", {all})}));
}

void bit_shift(NodeImport& n) {
  const std::string direction = n.text("direction", "");
  if (direction != "LEFT" && direction != "RIGHT") n.fail("direction is '" + direction + "', it must be LEFT or RIGHT");
  n.set(0, n.emit("BitShift", {n.input(0), n.input(1)}, {{"left", std::int64_t{direction == "LEFT"}}}));
}

void modulo(NodeImport& n) { n.set(0, n.emit("Mod", {n.input(0), n.input(1)}, {{"fmod", n.integer("fmod", 0)}})); }

/// tf2onnx writes an operator that ONNX does not have, meaning 1 - Erf.
void complementary_erf(NodeImport& n) { n.set(0, n.emit("Sub", {n.scalar(1, n.type(0).dtype), n.emit("Erf", {n.input(0)})})); }

void swish(NodeImport& n) {
  const double alpha = n.number("alpha", 1.0);
  const TensorId inner = alpha == 1.0 ? n.input(0) : n.emit("Scale", {n.input(0)}, {{"factor", alpha}});
  n.set(0, n.emit("Mul", {n.input(0), n.emit("Sigmoid", {inner})}));
}

/// All bits of two's complement turned: -x - 1.
void bitwise_not(NodeImport& n) { n.set(0, n.emit("Sub", {n.emit("Neg", {n.input(0)}), n.scalar(1, n.type(0).dtype)})); }

/// Swish of a, times b (Shazeer, "GLU Variants Improve Transformer", 2020).
void swiglu(NodeImport& n) {
  const TensorId scaled = n.emit("Scale", {n.input(0)}, {{"factor", n.number("alpha", 1)}});
  n.set(0, n.emit("Mul", {n.emit("Mul", {n.input(0), n.emit("Sigmoid", {scaled})}), n.input(1)}));
}

/// x where |x| > lambd, moved towards 0 by bias; 0 elsewhere.
void shrink(NodeImport& n) {
  const DType type = n.type(0).dtype;
  const TensorId x = n.input(0), bias = n.scalar(n.number("bias", 0), type), lambd = n.scalar(n.number("lambd", 0.5), type);
  const TensorId low = n.emit("Where", {n.emit("Less", {x, n.emit("Neg", {lambd})}), n.emit("Add", {x, bias}), n.scalar(0, type)});
  n.set(0, n.emit("Where", {n.emit("Greater", {x, lambd}), n.emit("Sub", {x, bias}), low}));
}

void thresholded_relu(NodeImport& n) {
  const DType type = n.type(0).dtype;
  n.set(0, n.emit("Where", {n.emit("Greater", {n.input(0), n.scalar(n.number("alpha", 1.0), type)}), n.input(0), n.scalar(0, type)}));
}

/// Identity of a stored tensor is a tensor of its own: exporters merge equal values that way (model_import.hpp).
void identity(NodeImport& n) {
  if (!std::holds_alternative<TensorId>(n.meaning(0))) return n.set_meaning(0, n.meaning(0));
  const graph::Tensor tensor = n.builder()[n.input(0)];
  if (n.training() && is_float(tensor.type.dtype) && n.stands_for("aten.detach.")) return n.set(0, n.emit("StopGradient", {n.input(0)}));
  const bool stored =
      tensor.producer == graph::NodeId::None && (tensor.role == graph::TensorRole::Parameter || tensor.role == graph::TensorRole::State);
  n.set(0, stored && n.is_separate(0) ? n.copy_of_stored(n.input(0), 0) : n.input(0));
}

/// Operators of same() by the version that they are in since.
constexpr std::pair<std::int64_t, std::string_view> kSameSince[] = {
    {1, "Not Relu Sigmoid Tanh Exp Log Sqrt Neg Abs Reciprocal Floor Ceil Softplus Softsign"},
    {7, "Sin Cos Atan Tan Asin Acos"},
    {9, "Where Erf Sinh Cosh Asinh Acosh Atanh Sign IsNaN"},
    {11, "Round"},
    {12, "LessOrEqual GreaterOrEqual"},
    {14, "HardSwish"},
    {18, "BitwiseAnd BitwiseOr BitwiseXor Mish"},
};

constexpr ImportRow kElementwiseRows[] = {
    {kDefaultDomain, "Add", 1, kNewest, add},
    {kDefaultDomain, "Sub", 1, kNewest, binary},
    {kDefaultDomain, "Mul", 1, kNewest, binary},
    {kDefaultDomain, "Div", 1, kNewest, binary},
    {kDefaultDomain, "Pow", 1, kNewest, power},
    {kDefaultDomain, "Mod", 10, kNewest, modulo},
    {kDefaultDomain, "BitShift", 11, kNewest, bit_shift},
    {kDefaultDomain, "BitwiseNot", 18, kNewest, bitwise_not},
    {kDefaultDomain, "SwiGLU", 28, kNewest, swiglu},
    {kDefaultDomain, "Sum", 1, kNewest, fold_operands},
    {kDefaultDomain, "Mean", 1, kNewest, fold_operands},
    {kDefaultDomain, "Max", 1, kNewest, fold_operands},
    {kDefaultDomain, "Min", 1, kNewest, fold_operands},
    {kDefaultDomain, "Equal", 1, kNewest, binary},
    {kDefaultDomain, "Less", 1, kNewest, less},
    {kDefaultDomain, "Greater", 1, kNewest, binary},
    {kDefaultDomain, "And", 1, kNewest, binary},
    {kDefaultDomain, "Or", 1, kNewest, binary},
    {kDefaultDomain, "Xor", 1, kNewest, binary},
    {kDefaultDomain, "Erfc", 1, kNewest, complementary_erf},
    {kDefaultDomain, "IsInf", 10, kNewest, is_infinite},
    {kDefaultDomain, "LeakyRelu", 1, kNewest, leaky_relu},
    {kDefaultDomain, "Elu", 1, kNewest, with_alpha_of_one},
    {kDefaultDomain, "Celu", 12, kNewest, with_alpha_of_one},
    {kDefaultDomain, "Selu", 1, kNewest, selu},
    {kDefaultDomain, "HardSigmoid", 1, kNewest, hard_sigmoid},
    {kDefaultDomain, "ThresholdedRelu", 10, kNewest, thresholded_relu},
    {kDefaultDomain, "Shrink", 9, kNewest, shrink},
    {kDefaultDomain, "Swish", 24, kNewest, swish},
    {kDefaultDomain, "PRelu", 1, kNewest, prelu},
    {kDefaultDomain, "Gelu", 20, kNewest, gelu},
    {kDefaultDomain, "Clip", 1, 10, clip_attributes},
    {kDefaultDomain, "Clip", 11, kNewest, clip_operands},
    {kDefaultDomain, "Cast", 1, kNewest, cast},
    {kDefaultDomain, "CastLike", 15, kNewest, cast_like},
    {kDefaultDomain, "Identity", 1, kNewest, identity},
    {kMicrosoft, "Gelu", 1, kNewest, microsoft_gelu},
    {kMicrosoft, "FastGelu", 1, kNewest, microsoft_gelu},
    {kMicrosoft, "BiasGelu", 1, kNewest, microsoft_gelu},
};

}  // namespace

std::span<const ImportRow> elementwise_rows() {
  static const auto kAll = [] {
    std::vector<ImportRow> rows(std::begin(kElementwiseRows), std::end(kElementwiseRows));
    for (const auto& [since, names] : kSameSince)
      for (const auto name : words_of(names)) rows.push_back({kDefaultDomain, name, since, kNewest, same});
    return rows;
  }();
  return kAll;
}

}  // namespace rehearsal::formats
