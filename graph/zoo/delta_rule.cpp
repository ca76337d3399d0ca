#include "graph/zoo/delta_rule.hpp"

#include <cmath>

#include "base/error.hpp"
#include "graph/zoo/sequence_chunks.hpp"

namespace rehearsal::graph::zoo {
namespace {

/// Letters of shapes: b batch, g heads of keys, r heads of values that share one, l chunks, q tokens of a chunk, n features of a key,
/// p of a value.
class DeltaChunks : ChunkedLayer {
 public:
  DeltaChunks(Layers& layers, std::string name, const Shape& x, const DeltaRule& d)
      : ChunkedLayer(layers, std::move(name), x, d.chunk, d.heads / d.key_heads), d_(d) {}

  /// Queries and keys [b, seq, g n], values [b, seq, g r p], strengths and decays [b, seq, g r] to [b, seq, g r, p].
  TensorId build(const std::vector<TensorId>& qkv, TensorId strength, TensorId decay) {
    const auto n = static_cast<double>(d_.key_width);
    const TensorId q = unit(".q", by_head(".q", qkv[0], 1, d_.key_width), 1 / n);             // [b, g, 1, l, q, n]
    const TensorId k = unit(".k", by_head(".k", qkv[1], 1, d_.key_width), 1 / std::sqrt(n));  // [b, g, 1, l, q, n]
    const TensorId v = by_head(".v", qkv[2], shared_, d_.width);                              // [b, g, r, l, q, p]
    const TensorId b = by_head(".strengths", strength, shared_, 1);                           // [b, g, r, l, q, 1]
    const TensorId sums = cumulated(by_head(".decays", decay, shared_, 1));
    const TensorId between = decay_between(sums);
    const TensorId k_turned = turned(".k.turned", k);
    // (I + L) U = b V: what each token adds, without what the tokens before it in the chunk have put under its key.
    const TensorId alike = times(".system", times(".alike.decayed", product(".alike", k, k_turned), between), b);
    const TensorId u = solved(".u", alike, times(".v.weighed", v, b));
    const TensorId weights = times(".weights", product(".scores", q, k_turned), between);  // [b, g, r, l, q, q]
    if (chunks_ == 1) return joined(product(".within", weights, u));
    const TensorId grown = exp(".from_start", sums);
    const TensorId w = solved(".w", alike, times(".k.weighed", k, times(".b.decayed", b, grown)));  // [b, g, r, l, q, n]
    const auto handed = hand_on(k, sums, u, w);
    const TensorId across = times(".across", product(".read", q, handed[1]), grown);
    return joined(layers_.add(name_ + ".y", product(".within", weights, handed[0]), across));
  }

 private:
  /// [b, seq, g shared width] to [b, g, shared, l, q, width].
  TensorId by_head(const std::string& part, TensorId t, std::int64_t shared, std::int64_t width) {
    const TensorId apart = layers_.reshape(name_ + part + ".split", t, {batch_, chunks_, chunk_, d_.key_heads, shared, width});
    return layers_.transpose(name_ + part + ".heads", apart, {0, 3, 4, 1, 2, 5});
  }
  TensorId joined(TensorId y) {
    return layers_.reshape(name_ + ".flat", layers_.transpose(name_ + ".joined", y, {0, 3, 4, 1, 2, 5}),
                           {batch_, chunks_ * chunk_, d_.heads, d_.width});
  }
  TensorId solved(const std::string& part, TensorId system, TensorId columns) {
    return layers_.node(name_ + part, "TriangularSolve", {system, columns});
  }

  /// x / (|x| sqrt(n)) · sqrt(n) scale, |x|² + 1e-6 under the root: an RMS norm divides by |x| / sqrt(n).
  TensorId unit(const std::string& part, TensorId x, double scale) {
    const std::vector<double> scales(static_cast<std::size_t>(d_.key_width), scale);
    const TensorId weight = layers_.builder().add_constant(name_ + part + ".scale", Value::of_reals(scales, {d_.key_width}));
    constexpr double kEpsilon = 1e-6;
    return layers_.node(name_ + part + ".unit", "RMSNormalization", {x, weight},
                        {{"axis", std::int64_t{-1}}, {"epsilon", kEpsilon / static_cast<double>(d_.key_width)}});
  }

  /// What tokens add, given the states before them, and the states that enter the chunks.
  std::vector<TensorId> hand_on(TensorId k, TensorId sums, TensorId u, TensorId w) {
    const TensorId last = last_of_chunk(sums);  // [b, g, r, l, 1, 1]
    const TensorId left = exp(".to_end", difference(".left", last, sums));
    return layers_.builder().add("DeltaScan", {w, times(".kept", k, left), u, exp(".chunk.decay", last)}, {},
                                 {name_ + ".states", Phase::Forward, NodeId::None, {}});
  }

  DeltaRule d_;
};

/// -exp(A) softplus(x + bias), the logarithm of what is left of a state after a token.
TensorId log_decay(Layers& layers, const std::string& name, TensorId x, std::int64_t heads) {
  const TensorId rate =
      layers.node(name + ".rate", "Neg", {layers.node(name + ".rate.size", "Exp", {layers.parameter(name + ".A_log", {heads})})});
  const TensorId step =
      layers.node(name + ".step", "Softplus", {layers.add(name + ".step.add", x, layers.parameter(name + ".dt_bias", {heads}))});
  return layers.multiply(name + ".log_decay", step, rate);
}

}  // namespace

void require_delta_rule(const std::string& model, const DeltaRule& d, std::int64_t seq) {
  if (d.heads % d.key_heads != 0)
    throw BadInput("zoo:" + model,
                   "delta_heads=" + std::to_string(d.heads) + " is not a multiple of delta_key_heads=" + std::to_string(d.key_heads));
  if (seq > d.chunk && seq % d.chunk != 0)
    throw BadInput("zoo:" + model, "seq=" + std::to_string(seq) + " is not a multiple of chunk=" + std::to_string(d.chunk));
}

TensorId gated_delta_rule(Layers& layers, const std::string& name, TensorId x, const DeltaRule& d) {
  const Shape shape = layers.shape(x);
  const std::int64_t keys = d.key_heads * d.key_width, values = d.heads * d.width;
  const auto parts = layers.split(name + ".parts", layers.dense(name + ".in_proj", x, 2 * keys + 2 * values + 2 * d.heads, false), 2,
                                  {2 * keys + values, values, d.heads, d.heads});
  const auto qkv =
      layers.split(name + ".qkv", causal_convolution(layers, name + ".conv1d", parts[0], d.kernel, false), 2, {keys, keys, values});
  const TensorId strength = layers.node(name + ".strength", "Sigmoid", {parts[2]});
  const TensorId y = DeltaChunks(layers, name, shape, d).build(qkv, strength, log_decay(layers, name, parts[3], d.heads));
  const TensorId gate =
      layers.silu(name + ".gate", layers.reshape(name + ".gate.by_head", parts[1], {shape[0], shape[1], d.heads, d.width}));
  const TensorId gated = layers.multiply(name + ".gated", layers.rms_norm(name + ".norm", y), gate);
  return layers.dense(name + ".out_proj", layers.reshape(name + ".gated.flat", gated, {shape[0], shape[1], values}), shape[2], false);
}

}  // namespace rehearsal::graph::zoo
