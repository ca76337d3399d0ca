// Rows without data operands: constants, ranges, random numbers.

#include <algorithm>

#include "formats/onnx/ops/import_families.hpp"

namespace rehearsal::formats {
namespace {

using graph::Attributes;
using graph::Shape;
using graph::TensorId;
using graph::Value;

/// One of several attributes holds the value.
void constant(NodeImport& n) {
  if (n.has_attribute("value")) return n.set_stored(0, "value");
  if (n.has_attribute("value_float")) return n.set(0, n.scalar(n.number("value_float", 0), DType::F32));
  if (n.has_attribute("value_int")) return n.set(0, n.constant(Value::of_integers({n.integer("value_int", 0)}, {})));
  if (n.has_attribute("value_ints")) return n.set(0, n.constant(Value::vector(n.integers("value_ints"))));
  if (!n.has_attribute("value_floats")) n.unsupported("a constant of text or in sparse form is not supported");
  const auto values = n.numbers("value_floats");
  n.set(0, n.constant(Value::of_reals(values, {static_cast<std::int64_t>(values.size())})));
}

Shape checked_shape(NodeImport& n, Shape shape) {
  if (std::any_of(shape.begin(), shape.end(), [](std::int64_t d) { return d < 0; }))
    n.fail("the shape " + graph::to_text(shape) + " has a negative dimension");
  (void)graph::element_count(shape);
  return shape;
}

void constant_of_shape(NodeImport& n) {
  const auto value = n.tensor("value");
  if (value && value->count() != 1) n.fail("attribute value has " + std::to_string(value->count()) + " elements, it must have one");
  const DType type = value ? value->type.dtype : DType::F32;
  const Shape shape = checked_shape(n, n.known_integers(0, "the shape"));
  const double fill = value ? value->real(0) : 0;
  if (n.stands_for_weight({type, shape})) return n.set_weight(0, {type, shape}, {type, graph::Fill{fill}});
  n.set(0, n.emit("ConstantOfShape", {}, {{"shape", shape}, {"dtype", std::string(name(type))}, {"value", fill}}));
}

DType declared_type(NodeImport& n, DType otherwise) {
  if (!n.has_attribute("dtype")) return otherwise;
  const auto type = dtype_from_onnx(static_cast<int>(n.integer("dtype", 0)));
  if (!type || !is_float(*type))
    n.unsupported("random numbers of element type " + std::to_string(n.integer("dtype", 0)) + " are not supported");
  return *type;
}

graph::Contents distribution(NodeImport& n, DType type) {
  if (n.op().starts_with("RandomUniform")) return {type, graph::RandomUniform{n.number("low", 0), n.number("high", 1)}};
  return {type, graph::RandomNormal{n.number("mean", 0), n.number("scale", 1)}};
}

/// Drawn once: the initial values of a weight.
void random(NodeImport& n) {
  const DType type = declared_type(n, DType::F32);
  const Shape shape = checked_shape(n, n.integers("shape"));
  n.set_weight(0, {type, shape}, distribution(n, type));
}

TensorId noise(NodeImport& n, DType type, bool normal) {
  return n.emit("Noise", {},
                {{"shape", n.shape(0)}, {"dtype", std::string(name(type))}, {"stream", n.next_stream()}, {"normal", std::int64_t{normal}}});
}

TensorId moved(NodeImport& n, TensorId x, double factor, double offset) {
  if (factor != 1) x = n.emit("Scale", {x}, {{"factor", factor}});
  return offset == 0 ? x : n.emit("Add", {x, n.scalar(offset, n.builder().type(x).dtype)});
}

/// Fresh noise of every step. Stochastic depth compares it with a probability, which is a dropout of ones (elementwise.cpp, "Less").
void uniform_like(NodeImport& n) {
  const double low = n.number("low", 0), high = n.number("high", 1);
  const TensorId fresh = noise(n, declared_type(n, n.type(0).dtype), false);
  if (low == 0 && high == 1) n.mark_noise(fresh);
  n.set(0, moved(n, fresh, high - low, low));
}

void normal_like(NodeImport& n) {
  n.set(0, moved(n, noise(n, declared_type(n, n.type(0).dtype), true), n.number("scale", 1), n.number("mean", 0)));
}

/// 1 with the probability that the operand gives, else 0.
void bernoulli(NodeImport& n) {
  const auto type = n.has_attribute("dtype") ? dtype_from_onnx(static_cast<int>(n.integer("dtype", 0))) : n.type(0).dtype;
  if (!type) n.unsupported("its element type is not supported");
  const TensorId drawn = n.emit("Less", {noise(n, n.type(0).dtype, false), n.input(0)});
  n.set(0, n.emit("Cast", {drawn}, {{"to", std::string(name(*type))}}));
}

void range(NodeImport& n) {
  const DType type = n.type(0).dtype;
  Attributes attributes{{"dtype", std::string(name(type))}};
  const char* keys[] = {"start", "limit", "delta"};
  for (std::size_t i = 0; i < 3; ++i) {
    if (is_integer(type))
      attributes.set(keys[i], n.known_integer(i, keys[i]));
    else
      attributes.set(keys[i], n.known_number(i, keys[i]));
  }
  n.set(0, n.emit("Range", {}, std::move(attributes)));
}

void eye_like(NodeImport& n) {
  if (n.rank(0) != 2) n.fail("needs a matrix, operand 0 has shape " + graph::to_text(n.shape(0)));
  const Shape shape = n.shape(0);
  const auto type = n.has_attribute("dtype") ? dtype_from_onnx(static_cast<int>(n.integer("dtype", 0))) : n.type(0).dtype;
  if (!type || graph::element_count(shape) > graph::kLargestFolded) n.unsupported("this identity matrix is not supported");
  Value eye{{*type, shape}, {}, {}};
  const std::int64_t k = n.integer("k", 0);
  for (std::int64_t i = 0; i < graph::element_count(shape); ++i) {
    const bool one = i % shape[1] - i / shape[1] == k;
    is_integer(*type) ? eye.integers.push_back(one) : eye.reals.push_back(one);
  }
  n.set(0, n.constant(std::move(eye)));
}

constexpr ImportRow kConstantsRows[] = {
    {kDefaultDomain, "Constant", 1, kNewest, constant},
    {kDefaultDomain, "ConstantOfShape", 9, kNewest, constant_of_shape},
    {kDefaultDomain, "RandomNormal", 1, kNewest, random},
    {kDefaultDomain, "RandomUniform", 1, kNewest, random},
    {kDefaultDomain, "RandomNormalLike", 1, kNewest, normal_like},
    {kDefaultDomain, "RandomUniformLike", 1, kNewest, uniform_like},
    {kDefaultDomain, "Bernoulli", 15, kNewest, bernoulli},
    {kDefaultDomain, "Range", 11, kNewest, range},
    {kDefaultDomain, "EyeLike", 9, kNewest, eye_like},
};

}  // namespace

std::span<const ImportRow> constant_rows() { return kConstantsRows; }

}  // namespace rehearsal::formats
