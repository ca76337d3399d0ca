#include "graph/zoo/attention.hpp"

#include <cmath>

#include "base/error.hpp"

namespace rehearsal::graph::zoo {
namespace {

constexpr double kMasked = -3.4028234663852886e38;  ///< the least float: softmax makes it 0

/// From [batch, length, features] to [batch, heads, (group,) length, width], and back.
class Heads {
 public:
  Heads(Layers& layers, const Attention& attention) : layers_(layers), attention_(attention) {}

  [[nodiscard]] TensorId queries(const std::string& name, TensorId x) {
    if (!grouped()) return split(name, x, {attention_.heads}, false);
    return split(name, x, {attention_.kv_heads, attention_.heads / attention_.kv_heads}, false);
  }
  [[nodiscard]] TensorId keys(const std::string& name, TensorId x) { return split(name, x, kv(), true); }
  [[nodiscard]] TensorId values(const std::string& name, TensorId x) {
    const TensorId heads = split(name, x, kv(), false);
    return attention_.norm_values ? layers_.rms_norm(name + "_norm", heads, false) : heads;
  }

  [[nodiscard]] TensorId joined(const std::string& name, TensorId mixed) {
    const Shape s = layers_.shape(mixed);
    const std::vector<std::int64_t> perm = grouped() ? std::vector<std::int64_t>{0, 3, 1, 2, 4} : std::vector<std::int64_t>{0, 2, 1, 3};
    const TensorId turned = layers_.transpose(name + ".joined", mixed, perm);
    return layers_.reshape(name + ".flat", turned, {s[0], s[s.size() - 2], attention_.heads * s.back()});
  }

 private:
  [[nodiscard]] bool normalizes() const { return attention_.norm == HeadNorm::OfHead || attention_.norm == HeadNorm::Unweighted; }
  [[nodiscard]] bool grouped() const { return attention_.kv_heads != attention_.heads; }
  [[nodiscard]] Shape kv() const { return grouped() ? Shape{attention_.kv_heads, 1} : Shape{attention_.kv_heads}; }

  TensorId split(const std::string& name, TensorId x, const Shape& heads, bool transposed) {
    const Shape s = layers_.shape(x);
    Shape shape = {s[0], s[1]};
    shape.insert(shape.end(), heads.begin(), heads.end());
    shape.push_back(s[2] / element_count(heads));
    const TensorId split = layers_.reshape(name, x, shape);
    const auto width = static_cast<std::int64_t>(shape.size()) - 1;
    std::vector<std::int64_t> perm = {0};
    for (std::int64_t axis = 2; axis < width; ++axis) perm.push_back(axis);
    const bool changes = (attention_.rotary.width > 0 || normalizes()) && !is_value(name);
    perm.push_back(transposed && !changes ? width : 1);
    perm.push_back(transposed && !changes ? 1 : width);
    TensorId y = layers_.transpose(name + ".heads", split, perm);
    if (!changes) return y;
    if (normalizes()) y = layers_.rms_norm(name + "_norm", y, attention_.norm == HeadNorm::OfHead);
    if (attention_.rotary.width > 0) y = rotated(layers_, name + ".rotary", y, attention_.rotary);
    if (!transposed) return y;
    std::vector<std::int64_t> last_two(perm.size());
    for (std::size_t axis = 0; axis < perm.size(); ++axis) last_two[axis] = static_cast<std::int64_t>(axis);
    std::swap(last_two[perm.size() - 1], last_two[perm.size() - 2]);
    return layers_.transpose(name + ".transposed", y, last_two);
  }
  [[nodiscard]] static bool is_value(const std::string& name) { return name.ends_with(".v"); }

  Layers& layers_;
  const Attention& attention_;
};

/// One more column of scores, the same for every query of a head.
TensorId with_sinks(Layers& layers, const std::string& name, TensorId scores, const Attention& attention) {
  Shape shape = layers.shape(scores), by_head(shape.size() - 1, 1);
  shape.back() = 1;
  for (std::size_t axis = 1; axis + 2 < shape.size(); ++axis) by_head[axis - 1] = shape[axis];
  const TensorId column =
      layers.node(name + ".expanded", "Expand", {layers.reshape(name + ".by_head", attention.sinks, by_head)}, {{"shape", shape}});
  return layers.concat(name, {scores, column}, -1);
}

}  // namespace

void require_heads(const std::string& model, std::int64_t hidden, std::int64_t heads, std::int64_t kv_heads) {
  if (hidden % heads != 0)
    throw BadInput("zoo:" + model, "hidden=" + std::to_string(hidden) + " is not a multiple of heads=" + std::to_string(heads));
  if (heads % kv_heads != 0)
    throw BadInput("zoo:" + model, "heads=" + std::to_string(heads) + " is not a multiple of kv_heads=" + std::to_string(kv_heads));
}

Attention make_attention(Layers& layers, std::int64_t heads, std::int64_t kv_heads, std::int64_t width) {
  Attention attention;
  attention.heads = heads;
  attention.kv_heads = kv_heads;
  attention.masked = layers.constant("attention.masked", kMasked);
  attention.scale = layers.constant("attention.scale", 1 / std::sqrt(static_cast<double>(width)));
  return attention;
}

TensorId positions(Layers& layers, const std::string& name, Shape shape, DType dtype) {
  const auto limit = static_cast<double>(element_count(shape));
  const TensorId range = layers.node(name + ".range", "Range", {},
                                     {{"start", 0.0}, {"limit", limit}, {"delta", 1.0}, {"dtype", std::string(rehearsal::name(dtype))}});
  return layers.reshape(name, range, std::move(shape));
}

TensorId capped(Layers& layers, const std::string& name, TensorId x, double cap) {
  const TensorId share = layers.multiply(name + ".share", x, layers.constant(name + ".inverse", 1 / cap));
  return layers.multiply(name, layers.node(name + ".tanh", "Tanh", {share}), layers.constant(name + ".cap", cap));
}

TensorId causal_mask(Layers& layers, std::int64_t length) {
  return layers.node("causal", "GreaterOrEqual",
                     {positions(layers, "causal.rows", {length, 1}), positions(layers, "causal.columns", {1, length})});
}

TensorId window_mask(Layers& layers, TensorId causal, std::int64_t window, std::int64_t length) {
  const TensorId last =
      layers.node("window.last", "Sub",
                  {positions(layers, "window.rows", {length, 1}, DType::F32), layers.constant("window.size", static_cast<double>(window))});
  const TensorId near = layers.node("window", "Greater", {positions(layers, "window.columns", {1, length}, DType::F32), last});
  return layers.node("window.causal", "And", {causal, near});
}

RotaryTables make_rotary(Layers& layers, const std::string& name, std::int64_t length, std::int64_t width, double base) {
  ensure(width >= 2 && width % 2 == 0, "rotary positions turn pairs of features");
  std::vector<double> frequencies(static_cast<std::size_t>(width / 2));
  for (std::size_t i = 0; i < frequencies.size(); ++i)
    frequencies[i] = std::pow(base, -2.0 * static_cast<double>(i) / static_cast<double>(width));
  const TensorId frequency = layers.builder().add_constant(name + ".frequency", Value::of_reals(frequencies, {1, width / 2}));
  const TensorId angle = layers.multiply(name + ".angle", positions(layers, name + ".positions", {length, 1}, DType::F32), frequency);
  return {layers.node(name + ".cosine", "Cos", {angle}), layers.node(name + ".sine", "Sin", {angle}), width};
}

TensorId rotated(Layers& layers, const std::string& name, TensorId x, const RotaryTables& rotary) {
  const std::int64_t width = layers.shape(x).back(), half = rotary.width / 2;
  Shape sizes = {half, half};
  if (rotary.width < width) sizes.push_back(width - rotary.width);
  const auto parts = layers.split(name + ".halves", x, -1, sizes);
  const auto times = [&](const char* part, TensorId a, TensorId table) { return layers.multiply(name + part, a, table); };
  const TensorId first = layers.node(name + ".first", "Sub", {times(".a", parts[0], rotary.cosine), times(".b", parts[1], rotary.sine)});
  const TensorId second = layers.add(name + ".second", times(".c", parts[1], rotary.cosine), times(".d", parts[0], rotary.sine));
  std::vector<TensorId> joined = {first, second};
  if (parts.size() == 3) joined.push_back(parts[2]);
  return layers.concat(name, std::move(joined), -1);
}

TensorId attend(Layers& layers, const std::string& name, const Projections& projected, const Attention& attention) {
  Heads heads(layers, attention);
  const TensorId queries = heads.queries(name + ".q", projected.q), keys = heads.keys(name + ".k", projected.k),
                 values = heads.values(name + ".v", projected.v);
  return attend_by_head(layers, name, {queries, keys, values}, attention);
}

TensorId attend_by_head(Layers& layers, const std::string& name, const Projections& heads, const Attention& attention) {
  TensorId scores = layers.matmul(name + ".scores", heads.q, heads.k);
  if (attention.scale != TensorId::None) scores = layers.multiply(name + ".scale", scores, attention.scale);
  if (attention.cap > 0) scores = capped(layers, name + ".capped", scores, attention.cap);
  if (attention.bias != TensorId::None) scores = layers.add(name + ".bias", scores, attention.bias);
  if (attention.mask != TensorId::None) scores = layers.node(name + ".mask", "Where", {attention.mask, scores, attention.masked});
  const std::int64_t keys = layers.shape(scores).back();
  if (attention.sinks != TensorId::None) scores = with_sinks(layers, name + ".sinks", scores, attention);
  TensorId weights = layers.node(name + ".softmax", "Softmax", {scores}, {{"axis", std::int64_t{-1}}});
  if (attention.sinks != TensorId::None) weights = layers.split(name + ".kept", weights, -1, {keys, 1}).front();
  return Heads(layers, attention).joined(name, layers.matmul(name + ".mix", weights, heads.v));
}

}  // namespace rehearsal::graph::zoo
