// Attention of opset 23, as the products and the softmax that it is made of.

#include <cmath>
#include <limits>

#include "formats/onnx/ops/rows.hpp"

namespace rehearsal::formats {
namespace {

using graph::Shape;
using graph::TensorId;

/// [batch, length, heads * size] as [batch, heads, length, size]; four dimensions stay.
TensorId by_heads(NodeImport& n, std::size_t i, std::int64_t heads) {
  const Shape shape = n.shape(i);
  if (shape.size() == 4) return n.input(i);
  if (shape.size() != 3 || heads < 1 || shape[2] % heads != 0)
    n.fail("operand " + std::to_string(i) + " has shape " + graph::to_text(shape) + ", which " + std::to_string(heads) +
           " heads do not divide");
  return n.emit("Transpose", {n.reshape(n.input(i), {shape[0], shape[1], heads, shape[2] / heads})}, {{"perm", Shape{0, 2, 1, 3}}});
}

/// Keys and values that several queries share, one for each of `heads`.
TensorId repeated(NodeImport& n, TensorId t, std::int64_t heads) {
  const Shape shape = n.builder().type(t).shape;
  if (shape[1] == heads) return t;
  if (shape[1] < 1 || heads % shape[1] != 0)
    n.fail(std::to_string(shape[1]) + " heads of keys do not divide " + std::to_string(heads) + " heads of queries");
  const std::int64_t group = heads / shape[1];
  const TensorId apart = n.reshape(t, {shape[0], shape[1], 1, shape[2], shape[3]});
  return n.reshape(n.emit("Expand", {apart}, {{"shape", Shape{shape[0], shape[1], group, shape[2], shape[3]}}}),
                   {shape[0], heads, shape[2], shape[3]});
}

TensorId additive(NodeImport& n, TensorId mask, DType type) {
  if (n.builder().type(mask).dtype != DType::Bool) return mask;
  return n.emit("Where", {mask, n.scalar(0, type), n.scalar(-std::numeric_limits<double>::infinity(), type)});
}

TensorId causal_mask(NodeImport& n, std::int64_t queries, std::int64_t keys, DType type) {
  const TensorId ones = n.emit("ConstantOfShape", {}, {{"shape", Shape{queries, keys}}, {"dtype", std::string("f32")}, {"value", 1.0}});
  const TensorId lower = n.emit("Trilu", {ones}, {{"upper", std::int64_t{0}}, {"k", std::int64_t{0}}});
  return additive(n, n.emit("Greater", {lower, n.scalar(0, DType::F32)}), type);
}

void attention(NodeImport& n) {
  if (n.has(4) || n.has(5) || n.reads(1) || n.reads(2) || n.reads(3)) n.unsupported("a cache of keys and values is not supported");
  if (n.number("softcap", 0) != 0) n.unsupported("softcap is not supported");
  const TensorId q = by_heads(n, 0, n.integer("q_num_heads", 0));
  const Shape queries = n.builder().type(q).shape;
  const TensorId k = repeated(n, by_heads(n, 1, n.integer("kv_num_heads", 0)), queries[1]),
                 v = repeated(n, by_heads(n, 2, n.integer("kv_num_heads", 0)), queries[1]);
  const std::int64_t keys = n.builder().type(k).shape[2];
  const DType type = n.type(0).dtype;
  // the scale is split between both factors, which keeps the products of half precision in range (as the specification has it)
  const double scale = std::sqrt(n.number("scale", 1.0 / std::sqrt(static_cast<double>(queries[3]))));
  TensorId scores = n.emit("MatMul", {n.emit("Scale", {q}, {{"factor", scale}}), n.emit("Scale", {k}, {{"factor", scale}})},
                           {{"trans_b", std::int64_t{1}}});
  if (n.integer("is_causal", 0) != 0) scores = n.emit("Add", {scores, causal_mask(n, queries[2], keys, type)});
  if (n.has(3)) scores = n.emit("Add", {scores, additive(n, n.input(3), type)});
  const TensorId result = n.emit("MatMul", {n.emit("Softmax", {scores}, {{"axis", std::int64_t{-1}}}), v});
  if (n.rank(0) == 4) return n.set(0, result);
  const Shape shape = n.builder().type(result).shape;
  n.set(0, n.reshape(n.emit("Transpose", {result}, {{"perm", Shape{0, 2, 1, 3}}}), {shape[0], shape[2], shape[1] * shape[3]}));
}

/// Cosines or sines [batch, length, half] of the positions, with a dimension for the heads.
TensorId angles(NodeImport& n, std::size_t i) {
  TensorId table = n.input(i);
  if (n.has(3)) table = n.emit("Gather", {table, n.input(3)}, {{"axis", std::int64_t{0}}});
  Shape shape = n.builder().type(table).shape;
  if (shape.size() != 3) n.fail("the angles have shape " + graph::to_text(shape) + ", they must have three dimensions");
  shape.insert(shape.begin() + 1, 1);
  return n.reshape(table, shape);
}

TensorId last_part(NodeImport& n, TensorId t, std::int64_t start, std::int64_t end, std::int64_t step = 1) {
  return n.emit("Slice", {t}, {{"starts", Shape{start}}, {"ends", Shape{end}}, {"axes", Shape{3}}, {"steps", Shape{step}}});
}

/// Rotates pairs of features by the angle of their position (Su et al., "RoFormer", 2021).
void rotary_embedding(NodeImport& n) {
  const bool flat = n.rank(0) == 3;
  const TensorId x = by_heads(n, 0, n.integer("num_heads", 0));
  const Shape shape = n.builder().type(x).shape;
  const TensorId cosine = angles(n, 1), sine = angles(n, 2);
  const std::int64_t half = n.builder().type(cosine).shape[3], turned = 2 * half;
  const bool interleaved = n.integer("interleaved", 0) != 0;
  const TensorId a = interleaved ? last_part(n, x, 0, turned, 2) : last_part(n, x, 0, half);
  const TensorId b = interleaved ? last_part(n, x, 1, turned, 2) : last_part(n, x, half, turned);
  TensorId first = n.emit("Sub", {n.emit("Mul", {cosine, a}), n.emit("Mul", {sine, b})});
  TensorId second = n.emit("Add", {n.emit("Mul", {sine, a}), n.emit("Mul", {cosine, b})});
  TensorId result;
  if (interleaved) {
    const Shape column{shape[0], shape[1], shape[2], half, 1};
    result = n.reshape(n.emit("Concat", {n.reshape(first, column), n.reshape(second, column)}, {{"axis", std::int64_t{4}}}),
                       {shape[0], shape[1], shape[2], turned});
  } else {
    result = n.emit("Concat", {first, second}, {{"axis", std::int64_t{3}}});
  }
  if (turned < shape[3]) result = n.emit("Concat", {result, last_part(n, x, turned, shape[3])}, {{"axis", std::int64_t{3}}});
  if (flat) result = n.reshape(n.emit("Transpose", {result}, {{"perm", Shape{0, 2, 1, 3}}}), {shape[0], shape[2], shape[1] * shape[3]});
  n.set(0, result);
}

constexpr ImportRow kRows[] = {
    {kDefaultDomain, "Attention", 23, kNewest, attention},
    {kDefaultDomain, "RotaryEmbedding", 23, kNewest, rotary_embedding},
};

}  // namespace

std::span<const ImportRow> attention_rows() { return kRows; }

}  // namespace rehearsal::formats
