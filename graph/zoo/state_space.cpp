#include "graph/zoo/state_space.hpp"

#include "base/error.hpp"
#include "graph/zoo/sequence_chunks.hpp"

namespace rehearsal::graph::zoo {
namespace {

/// Letters of shapes: b batch, l chunks, q tokens of a chunk, g groups, r heads of a group, n state, p features of a head.
class Scan : ChunkedLayer {
 public:
  Scan(Layers& layers, std::string name, const Shape& x, const StateSpace& s)
      : ChunkedLayer(layers, std::move(name), x, s.chunk, s.heads / s.groups), s_(s) {}

  /// x [b, seq, heads p], in and out [b, seq, g n], step [b, seq, heads] to [b, seq, heads p].
  TensorId build(TensorId x, TensorId in, TensorId out, TensorId step) {
    const TensorId rows = heads(".x", x, s_.width);              // [b, l, g, r, q, p]
    const TensorId b = groups(".b", in), c = groups(".c", out);  // [b, l, g, 1, q, n]
    const TensorId steps = heads(".steps", step, 1);             // [b, l, g, r, q, 1]
    const TensorId moved = times(".moved", rows, steps);
    const TensorId sums = cumulated(times(".decays", steps, rate()));  // [b, l, g, r, q, 1]
    const TensorId b_turned = turned(".b.turned", b);
    TensorId y = within(c, b_turned, moved, sums);
    if (chunks_ > 1) y = layers_.add(name_ + ".y", y, across(c, b_turned, moved, sums));
    const TensorId skip = layers_.reshape(name_ + ".D.by_head", layers_.parameter(name_ + ".D", {s_.heads}), {s_.groups, shared_, 1, 1});
    y = layers_.add(name_ + ".skipped", y, times(".skip", rows, skip));
    return layers_.reshape(name_ + ".flat", layers_.transpose(name_ + ".joined", y, {0, 1, 4, 2, 3, 5}),
                           {batch_, chunks_ * chunk_, s_.heads * s_.width});
  }

 private:
  TensorId heads(const std::string& part, TensorId t, std::int64_t width) {
    const TensorId apart = layers_.reshape(name_ + part + ".split", t, {batch_, chunks_, chunk_, s_.groups, shared_, width});
    return layers_.transpose(name_ + part + ".heads", apart, {0, 1, 3, 4, 2, 5});
  }
  TensorId groups(const std::string& part, TensorId t) {
    const TensorId apart = layers_.reshape(name_ + part + ".split", t, {batch_, chunks_, chunk_, s_.groups, 1, s_.state});
    return layers_.transpose(name_ + part + ".groups", apart, {0, 1, 3, 4, 2, 5});
  }

  /// -exp(A_log), by head.
  TensorId rate() {
    const TensorId log =
        layers_.reshape(name_ + ".A_log.by_head", layers_.parameter(name_ + ".A_log", {s_.heads}), {s_.groups, shared_, 1, 1});
    return layers_.node(name_ + ".rate", "Neg", {exp(".rate.size", log)});
  }

  /// What tokens of a chunk get from the same chunk: (C Bᵀ ∘ decay) x.
  TensorId within(TensorId c, TensorId b_turned, TensorId moved, TensorId sums) {
    const TensorId scores = product(".scores", c, b_turned);  // [b, l, g, 1, q, q]
    return product(".within", times(".weights", scores, decay_between(sums)), moved);
  }

  /// What they get from the chunks before it: each chunk's state, decayed to the beginning of the chunk that reads it.
  TensorId across(TensorId c, TensorId b_turned, TensorId moved, TensorId sums) {
    const TensorId last = last_of_chunk(sums);  // [b, l, g, r, 1, 1]
    const TensorId kept = times(".kept", moved, exp(".to_end", difference(".left", last, sums)));
    const TensorId states = product(".states", b_turned, kept);  // [b, l, g, r, n, p]
    const TensorId lasts = layers_.reshape(name_ + ".lasts", layers_.transpose(name_ + ".lasts.turned", last, {0, 2, 3, 1, 4, 5}),
                                           {batch_, s_.groups, shared_, chunks_, 1});
    const auto sum = [&](const char* part, std::int64_t exclusive) {
      return layers_.node(name_ + part, "CumSum", {lasts}, {{"axis", std::int64_t{3}}, {"exclusive", exclusive}});
    };
    const TensorId until = layers_.transpose(name_ + ".until.turned", sum(".until", 0), {0, 1, 2, 4, 3});
    const TensorId chain = decays(layers_, name_ + ".chain", sum(".before", 1), until, Triangle::BelowDiagonal);  // [b, g, r, l, l]
    const TensorId flat = layers_.reshape(name_ + ".states.flat", layers_.transpose(name_ + ".states.turned", states, {0, 2, 3, 1, 4, 5}),
                                          {batch_, s_.groups, shared_, chunks_, s_.state * s_.width});
    const TensorId entering = layers_.transpose(name_ + ".entering",
                                                layers_.reshape(name_ + ".handed.split", product(".handed", chain, flat),
                                                                {batch_, s_.groups, shared_, chunks_, s_.state, s_.width}),
                                                {0, 3, 1, 2, 4, 5});
    return times(".across", product(".read", c, entering), exp(".from_start", sums));
  }

  StateSpace s_;
};

}  // namespace

void require_state_space(const std::string& model, const StateSpace& s, std::int64_t seq) {
  const auto must_divide = [&](const char* part, std::int64_t divisor, const char* of, std::int64_t whole) {
    if (whole % divisor != 0)
      throw BadInput("zoo:" + model,
                     std::string(of) + "=" + std::to_string(whole) + " is not a multiple of " + part + "=" + std::to_string(divisor));
  };
  must_divide("ssm_groups", s.groups, "ssm_heads", s.heads);
  if (seq > s.chunk) must_divide("chunk", s.chunk, "seq", seq);
}

TensorId state_space(Layers& layers, const std::string& name, TensorId x, const StateSpace& s) {
  const Shape shape = layers.shape(x);
  const std::int64_t inner = s.heads * s.width, shared = s.groups * s.state;
  const auto parts = layers.split(name + ".parts", layers.dense(name + ".in_proj", x, 2 * inner + 2 * shared + s.heads, false), 2,
                                  {inner, inner + 2 * shared, s.heads});
  const auto scanned =
      layers.split(name + ".scanned", causal_convolution(layers, name + ".conv1d", parts[1], s.kernel, true), 2, {inner, shared, shared});
  const TensorId step =
      layers.node(name + ".step", "Softplus", {layers.add(name + ".step.add", parts[2], layers.parameter(name + ".dt_bias", {s.heads}))});
  const TensorId y = Scan(layers, name, shape, s).build(scanned[0], scanned[1], scanned[2], step);
  const TensorId gated = layers.multiply(name + ".gated", y, layers.silu(name + ".gate", parts[0]));
  const TensorId normed =
      layers.rms_norm(name + ".norm", layers.reshape(name + ".by_group", gated, {shape[0], shape[1], s.groups, inner / s.groups}), false);
  const TensorId weighed = layers.multiply(name + ".norm.weighed", layers.reshape(name + ".norm.flat", normed, {shape[0], shape[1], inner}),
                                           layers.parameter(name + ".norm.weight", {inner}));
  return layers.dense(name + ".out_proj", weighed, shape[2], false);
}

}  // namespace rehearsal::graph::zoo
