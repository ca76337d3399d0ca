// Attention of opset 23, as the products and the softmax that it is made of.

#include <cmath>
#include <limits>
#include <numeric>

#include "formats/onnx/ops/heads.hpp"
#include "formats/onnx/ops/import_families.hpp"

namespace rehearsal::formats {

using graph::Shape;
using graph::TensorId;

TensorId by_heads(NodeImport& n, std::size_t i, std::int64_t heads) {
  const Shape shape = n.shape(i);
  if (shape.size() == 4) return n.input(i);
  if (shape.size() != 3 || heads < 1 || shape[2] % heads != 0)
    n.fail("operand " + std::to_string(i) + " has shape " + graph::to_text(shape) + ", which " + std::to_string(heads) +
           " heads do not divide");
  return n.emit("Transpose", {n.reshape(n.input(i), {shape[0], shape[1], heads, shape[2] / heads})}, {{"perm", Shape{0, 2, 1, 3}}});
}

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

namespace {

TensorId masked_out(NodeImport& n, TensorId allowed, DType type) {
  return n.emit("Where", {allowed, n.scalar(0, type), n.scalar(-std::numeric_limits<double>::infinity(), type)});
}

/// Whole numbers from 0 on, in f32, in a shape that has one dimension of other sizes than 1.
TensorId positions(NodeImport& n, const Shape& shape) {
  std::vector<double> values(static_cast<std::size_t>(graph::element_count(shape)));
  std::iota(values.begin(), values.end(), 0.0);
  return n.constant(graph::Value::of_reals(std::move(values), shape, DType::F32));
}

/// What an attention node works with: queries [batch, heads, length, size], keys and values with the cached ones in front.
struct AttentionParts {
  TensorId q = TensorId::None, k = TensorId::None, v = TensorId::None;
  std::int64_t queries = 0, keys = 0, cached = 0;
  DType type = DType::F32;
};

TensorId with_cache(NodeImport& n, TensorId fresh, std::size_t past) {
  return n.has(past) ? n.emit("Concat", {n.input(past), fresh}, {{"axis", std::int64_t{2}}}) : fresh;
}

/// Valid keys of every sample, [batch, 1, 1, 1] in f32.
TensorId valid_keys(NodeImport& n) {
  return n.emit("Cast", {n.reshape(n.input(6), {n.shape(6).at(0), 1, 1, 1})}, {{"to", std::string("f32")}});
}

/// Additive masks of the node, each broadcasting over the scores; `may_hide_all`: a query may be left without keys.
std::vector<TensorId> masks_of(NodeImport& n, const AttentionParts& a, bool& may_hide_all) {
  std::vector<TensorId> masks;
  const std::int64_t left = n.integer("left_window_size", -1), right = n.integer("right_window_size", -1);
  const bool causal = n.integer("is_causal", 0) != 0, counted = n.has(6);
  may_hide_all = counted || n.has(3) || left >= 0 || right >= 0;
  const TensorId key = positions(n, {1, a.keys});
  TensorId query = positions(n, {a.queries, 1});  // as the position of a key
  if (counted) {
    const TensorId offset = n.emit("Sub", {valid_keys(n), n.scalar(static_cast<double>(a.queries), DType::F32)});
    query = n.emit("Add", {query, offset});
  } else if (a.cached > 0) {
    query = n.emit("Add", {query, n.scalar(static_cast<double>(a.cached), DType::F32)});
  }
  const auto shifted = [&](std::int64_t by) {
    return by == 0 ? query : n.emit("Add", {query, n.scalar(static_cast<double>(by), DType::F32)});
  };
  if (causal) masks.push_back(masked_out(n, n.emit("LessOrEqual", {key, query}), a.type));
  if (left >= 0) masks.push_back(masked_out(n, n.emit("GreaterOrEqual", {key, shifted(-left)}), a.type));
  if (right >= 0) masks.push_back(masked_out(n, n.emit("LessOrEqual", {key, shifted(right)}), a.type));
  if (counted) masks.push_back(masked_out(n, n.emit("Less", {key, valid_keys(n)}), a.type));
  if (!n.has(3)) return masks;
  TensorId given = n.type(3).dtype == DType::Bool ? masked_out(n, n.input(3), a.type) : n.input(3);
  Shape rest = n.shape(3);
  if (!rest.empty() && rest.back() != 1 && rest.back() < a.keys) {  // what the mask leaves out is hidden
    rest.back() = a.keys - rest.back();
    const TensorId hidden =
        n.emit("ConstantOfShape", {},
               {{"shape", rest}, {"dtype", std::string(name(a.type))}, {"value", -std::numeric_limits<double>::infinity()}});
    given = n.emit("Concat", {given, hidden}, {{"axis", static_cast<std::int64_t>(rest.size()) - 1}});
  }
  masks.push_back(given);
  return masks;
}

/// Probabilities of keys. A query whose keys are all hidden gets zeros instead of 0 / 0.
TensorId probabilities(NodeImport& n, TensorId scores, bool may_hide_all) {
  const DType own = n.builder().type(scores).dtype;
  const auto wanted = n.has_attribute("softmax_precision") ? dtype_from_onnx(static_cast<int>(n.integer("softmax_precision", 1))) : own;
  if (!wanted || !is_float(*wanted)) n.fail("softmax_precision must be a floating-point type");
  const auto cast = [&](TensorId t, DType from, DType to) { return from == to ? t : n.emit("Cast", {t}, {{"to", std::string(name(to))}}); };
  const auto softmax = [&](TensorId x) {
    return cast(n.emit("Softmax", {cast(x, own, *wanted)}, {{"axis", std::int64_t{-1}}}), *wanted, own);
  };
  if (!may_hide_all) return softmax(scores);
  const TensorId largest = n.emit("ReduceMax", {scores}, {{"axes", Shape{3}}, {"keepdims", std::int64_t{1}}});
  const TensorId none = n.emit("Equal", {largest, n.scalar(-std::numeric_limits<double>::infinity(), own)});
  const TensorId zero = n.scalar(0, own);
  return n.emit("Where", {none, zero, softmax(n.emit("Where", {none, zero, scores}))});
}

AttentionParts attention_parts(NodeImport& n) {
  AttentionParts a;
  a.type = n.type(0).dtype;
  a.q = by_heads(n, 0, n.integer("q_num_heads", 0));
  const TensorId k = with_cache(n, by_heads(n, 1, n.integer("kv_num_heads", 0)), 4);
  const TensorId v = with_cache(n, by_heads(n, 2, n.integer("kv_num_heads", 0)), 5);
  n.set(1, k);
  n.set(2, v);
  const Shape queries = n.builder().type(a.q).shape, keys = n.builder().type(k).shape;
  a.queries = queries[2];
  a.keys = keys[2];
  a.cached = n.has(4) ? n.shape(4).at(2) : 0;
  a.k = repeated(n, k, queries[1]);
  a.v = repeated(n, v, queries[1]);
  return a;
}

void attention(NodeImport& n) {
  if (n.has(4) != n.has(5)) n.fail("past_key and past_value must come together");
  const AttentionParts a = attention_parts(n);
  const auto size = static_cast<double>(n.builder().type(a.q).shape[3]);
  // the scale is split between both factors, which keeps the products of half precision in range (as the specification has it)
  const double scale = std::sqrt(n.number("scale", 1.0 / std::sqrt(size)));
  const auto scaled = [&](TensorId t) { return n.emit("Scale", {t}, {{"factor", scale}}); };
  std::vector<TensorId> stages{n.emit("MatMul", {scaled(a.q), scaled(a.k)}, {{"trans_b", std::int64_t{1}}})};
  const double cap = n.number("softcap", 0);
  TensorId scores = stages[0];
  if (cap > 0) scores = n.emit("Scale", {n.emit("Tanh", {n.emit("Scale", {scores}, {{"factor", 1 / cap}})})}, {{"factor", cap}});
  stages.push_back(scores);
  bool may_hide_all = false;
  for (const TensorId mask : masks_of(n, a, may_hide_all)) scores = n.emit("Add", {scores, mask});
  stages.push_back(scores);
  stages.push_back(probabilities(n, scores, may_hide_all));
  const std::int64_t shown = n.integer("qk_matmul_output_mode", 0);
  if (shown < 0 || shown > 3) n.fail("qk_matmul_output_mode is " + std::to_string(shown) + ", it must be 0, 1, 2 or 3");
  n.set(3, stages[static_cast<std::size_t>(shown)]);
  const TensorId result = n.emit("MatMul", {stages[3], a.v});
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

constexpr ImportRow kAttentionRows[] = {
    {kDefaultDomain, "Attention", 23, kNewest, attention},
    {kDefaultDomain, "RotaryEmbedding", 23, kNewest, rotary_embedding},
};

}  // namespace

std::span<const ImportRow> attention_rows() { return kAttentionRows; }

}  // namespace rehearsal::formats
