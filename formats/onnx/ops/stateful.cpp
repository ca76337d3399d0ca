// Operators that carry a state from one piece of a sequence to the next, written out as what they stand for.

#include <cmath>

#include "formats/onnx/ops/heads.hpp"
#include "formats/onnx/ops/import_families.hpp"

namespace rehearsal::formats {
namespace {

using graph::Shape;
using graph::TensorId;

constexpr std::int64_t kStatefulLongestUnrolled = 2048;

TensorId zeros(NodeImport& n, const Shape& shape, DType type) {
  return n.emit("ConstantOfShape", {}, {{"shape", shape}, {"dtype", std::string(name(type))}});
}

TensorId converted_to(NodeImport& n, TensorId t, DType to) {
  return n.builder().type(t).dtype == to ? t : n.emit("Cast", {t}, {{"to", std::string(name(to))}});
}

/// Depthwise, looking back only: the state is what the kernel saw before the first element.
void causal_convolution(NodeImport& n) {
  const Shape x = n.shape(0), w = n.shape(1);
  if (x.size() != 3 || w.size() != 3 || w[0] != x[1] || w[1] != 1 || w[2] < 1)
    n.fail("needs an input [batch, channels, length] and weights [channels, 1, k], not " + graph::to_text(x) + " and " + graph::to_text(w));
  const std::int64_t before = w[2] - 1;
  const TensorId past = n.has(3) ? n.input(3) : zeros(n, {x[0], x[1], before}, n.type(0).dtype);
  const TensorId whole = before == 0 ? n.input(0) : n.emit("Concat", {past, n.input(0)}, {{"axis", std::int64_t{2}}});
  std::vector<TensorId> operands{whole, n.input(1)};
  if (n.has(2)) operands.push_back(n.input(2));
  TensorId y =
      n.emit("Conv", std::move(operands), {{"strides", Shape{1}}, {"dilations", Shape{1}}, {"pads", Shape{0, 0}}, {"group", x[1]}});
  const std::string activation = n.text("activation", "none");
  if (activation == "silu" || activation == "swish")
    y = n.emit("Mul", {y, n.emit("Sigmoid", {y})});
  else if (activation != "none")
    n.fail("activation is '" + activation + "', it must be none, silu or swish");
  n.set(0, y);
  n.set(1, n.emit("Slice", {whole}, {{"starts", Shape{x[2]}}, {"ends", Shape{x[2] + before}}, {"axes", Shape{2}}}));
}

/// Operand i, [batch, length, heads] or [batch, length, heads * size], as [batch, heads, length, 1 or size] in f32.
TensorId by_heads_or_one(NodeImport& n, std::size_t i, std::int64_t heads) {
  const Shape shape = n.shape(i);
  const bool one = shape.size() == 3 && shape[2] == 1;
  return converted_to(n, by_heads(n, i, one ? 1 : heads), DType::F32);
}

/// One rule of memory: a matrix that forgets, is corrected, and takes up outer products of keys and values.
struct Recurrence {
  bool forgets = false, corrects = false;
  TensorId decay = TensorId::None, beta = TensorId::None;
};

Recurrence recurrence_of(NodeImport& n, std::int64_t heads) {
  const std::string rule = n.text("update_rule", "gated_delta");
  if (rule != "linear" && rule != "gated" && rule != "delta" && rule != "gated_delta")
    n.fail("update_rule is '" + rule + "', it must be linear, gated, delta or gated_delta");
  Recurrence r{rule.starts_with("gated"), rule.ends_with("delta")};
  if (r.forgets != n.has(4) || r.corrects != n.has(5)) n.fail("decay and beta must be there as its rule '" + rule + "' needs them");
  if (r.forgets) r.decay = n.emit("Exp", {by_heads_or_one(n, 4, heads)});
  if (r.corrects) r.beta = by_heads_or_one(n, 5, heads);
  return r;
}

/// Element t along the third of four dimensions, as a row [.., 1, size] or a column [.., size, 1].
TensorId at_time(NodeImport& n, TensorId x, std::int64_t t, bool column) {
  const TensorId row = n.emit("Slice", {x}, {{"starts", Shape{t}}, {"ends", Shape{t + 1}}, {"axes", Shape{2}}});
  const Shape s = n.builder().type(row).shape;
  return column ? n.reshape(row, {s[0], s[1], s[3], 1}) : row;
}

/// The state [batch, heads, key size, value size] after element t.
TensorId next_state(NodeImport& n, const Recurrence& r, TensorId state, const TensorId (&kv)[2], std::int64_t t) {
  const TensorId key = at_time(n, kv[0], t, true);
  TensorId value = at_time(n, kv[1], t, false);
  if (r.forgets) state = n.emit("Mul", {state, at_time(n, r.decay, t, true)});
  if (r.corrects) {
    const TensorId known = n.emit("MatMul", {at_time(n, kv[0], t, false), state});
    value = n.emit("Mul", {at_time(n, r.beta, t, false), n.emit("Sub", {value, known})});
  }
  return n.emit("Add", {state, n.emit("Mul", {key, value})});
}

/// Linear attention by its recurrence (Katharopoulos et al. 2020; Yang et al., "Gated Delta Networks", 2024), in f32.
void linear_attention(NodeImport& n) {
  const std::int64_t heads = n.integer("q_num_heads", 0), groups = n.integer("kv_num_heads", 0);
  if (n.rank(0) != 3 || n.rank(1) != 3 || n.rank(2) != 3) n.fail("queries, keys and values must have three dimensions");
  const DType type = n.type(0).dtype;
  const TensorId q = converted_to(n, by_heads(n, 0, heads), DType::F32);
  const TensorId kv[] = {converted_to(n, by_heads(n, 1, groups), DType::F32), converted_to(n, by_heads(n, 2, groups), DType::F32)};
  const Shape queries = n.builder().type(q).shape, values = n.builder().type(kv[1]).shape;
  const std::int64_t length = queries[2];
  if (length < 1 || length > kStatefulLongestUnrolled)
    n.unsupported("sequences of " + std::to_string(length) + " elements are not supported");
  const Recurrence rule = recurrence_of(n, groups);
  const DType kept = n.has(3) ? n.type(3).dtype : type;
  TensorId state = n.has(3) ? converted_to(n, n.input(3), DType::F32) : zeros(n, {queries[0], groups, queries[3], values[3]}, DType::F32);
  const double given = n.number("scale", 0), scale = given == 0 ? 1 / std::sqrt(static_cast<double>(queries[3])) : given;
  std::vector<TensorId> results;
  for (std::int64_t t = 0; t < length; ++t) {
    state = next_state(n, rule, state, kv, t);
    results.push_back(n.emit("MatMul", {at_time(n, q, t, false), repeated(n, state, heads)}));
  }
  const TensorId all = results.size() == 1 ? results[0] : n.emit("Concat", results, {{"axis", std::int64_t{2}}});
  const TensorId scaled = n.emit("Scale", {all}, {{"factor", scale}});
  const TensorId flat = n.reshape(n.emit("Transpose", {scaled}, {{"perm", Shape{0, 2, 1, 3}}}), {queries[0], length, heads * values[3]});
  n.set(0, converted_to(n, flat, type));
  n.set(1, converted_to(n, state, kept));
}

/// `update` written into a cache along one axis, from a place of its own for every sample.
void tensor_scatter(NodeImport& n) {
  const Shape cache = n.shape(0), update = n.shape(1);
  const std::size_t axis = graph::normalize_axis(n.integer("axis", -2), cache.size());
  if (axis == 0 || update.size() != cache.size()) n.fail("writes along the batch, or an update of another rank than the cache");
  const std::string mode = n.text("mode", "linear");
  if (mode != "linear" && mode != "circular") n.fail("mode is '" + mode + "', it must be linear or circular");
  Shape along(cache.size(), 1), first(cache.size(), 1);
  along[axis] = update[axis];
  first[0] = cache[0];
  std::vector<std::int64_t> steps(static_cast<std::size_t>(update[axis]));
  for (std::size_t i = 0; i < steps.size(); ++i) steps[i] = static_cast<std::int64_t>(i);
  TensorId places = n.constant(graph::Value::of_integers(std::move(steps), along));
  if (n.has(2)) places = n.emit("Add", {places, n.reshape(n.input(2), first)});
  if (mode == "circular")
    places = n.emit("Mod", {places, n.scalar(static_cast<double>(cache[axis]), DType::I64)}, {{"fmod", std::int64_t{0}}});
  places = n.emit("Expand", {places}, {{"shape", update}});
  n.set(0, n.emit("ScatterElements", {n.input(0), places, n.input(1)}, {{"axis", static_cast<std::int64_t>(axis)}}));
}

constexpr ImportRow kStatefulRows[] = {
    {kDefaultDomain, "CausalConvWithState", 27, kNewest, causal_convolution},
    {kDefaultDomain, "LinearAttention", 27, kNewest, linear_attention},
    {kDefaultDomain, "TensorScatter", 24, kNewest, tensor_scatter},
};

}  // namespace

std::span<const ImportRow> stateful_rows() { return kStatefulRows; }

}  // namespace rehearsal::formats
