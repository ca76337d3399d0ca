#include "graph/zoo/state_space.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "graph/zoo/sequence_chunks.hpp"

namespace rehearsal::graph::zoo {
namespace {

/// Letters of shapes: b batch, l chunks, q tokens of a chunk, g groups, r heads of a group, n state, p features of a head.
class Scan {
 public:
  Scan(Layers& layers, std::string name, const Shape& x, const StateSpace& s)
      : layers_(layers),
        name_(std::move(name)),
        s_(s),
        batch_(x[0]),
        chunk_(std::min(s.chunk, x[1])),
        chunks_(x[1] / chunk_),
        shared_(s.heads / s.groups) {}

  /// x [b, seq, heads p], in and out [b, seq, g n], step [b, seq, heads] to [b, seq, heads p].
  TensorId build(TensorId x, TensorId in, TensorId out, TensorId step) {
    const TensorId rows = heads(".x", x, s_.width);              // [b, l, g, r, q, p]
    const TensorId b = groups(".b", in), c = groups(".c", out);  // [b, l, g, 1, q, n]
    const TensorId steps = heads(".steps", step, 1);             // [b, l, g, r, q, 1]
    const TensorId moved = layers_.multiply(name_ + ".moved", rows, steps);
    const TensorId sums = cumulated(layers_.multiply(name_ + ".decays", steps, rate()));  // [b, l, g, r, q, 1]
    const TensorId b_turned = layers_.transpose(name_ + ".b.turned", b, {0, 1, 2, 3, 5, 4});
    TensorId y = within(c, b_turned, moved, sums);
    if (chunks_ > 1) y = layers_.add(name_ + ".y", y, across(c, b_turned, moved, sums));
    const TensorId skip = layers_.reshape(name_ + ".D.by_head", layers_.parameter(name_ + ".D", {s_.heads}), {s_.groups, shared_, 1, 1});
    y = layers_.add(name_ + ".skipped", y, layers_.multiply(name_ + ".skip", rows, skip));
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
  TensorId turned(const std::string& part, TensorId t) { return layers_.transpose(name_ + part, t, {0, 1, 2, 3, 5, 4}); }
  TensorId exp(const std::string& part, TensorId t) { return layers_.node(name_ + part, "Exp", {t}); }
  TensorId difference(const std::string& part, TensorId a, TensorId b) { return layers_.node(name_ + part, "Sub", {a, b}); }

  /// -exp(A_log), by head.
  TensorId rate() {
    const TensorId log =
        layers_.reshape(name_ + ".A_log.by_head", layers_.parameter(name_ + ".A_log", {s_.heads}), {s_.groups, shared_, 1, 1});
    return layers_.node(name_ + ".rate", "Neg", {exp(".rate.size", log)});
  }
  TensorId cumulated(TensorId decays) { return layers_.node(name_ + ".sums", "CumSum", {decays}, {{"axis", std::int64_t{4}}}); }

  /// What tokens of a chunk get from the same chunk: (C Bᵀ ∘ decay) x.
  TensorId within(TensorId c, TensorId b_turned, TensorId moved, TensorId sums) {
    const TensorId scores = layers_.matmul(name_ + ".scores", c, b_turned);  // [b, l, g, 1, q, q]
    const TensorId weights = layers_.multiply(
        name_ + ".weights", scores, decays(layers_, name_ + ".decay", sums, turned(".sums.turned", sums), Triangle::WithDiagonal));
    return layers_.matmul(name_ + ".within", weights, moved);
  }

  /// What they get from the chunks before it: each chunk's state, decayed to the beginning of the chunk that reads it.
  TensorId across(TensorId c, TensorId b_turned, TensorId moved, TensorId sums) {
    const Shape all = {batch_, chunks_, s_.groups, shared_, s_.state, s_.width};
    const TensorId last = layers_.split(name_ + ".ends", sums, 4, {chunk_ - 1, 1}).back();  // [b, l, g, r, 1, 1]
    const TensorId kept = layers_.multiply(name_ + ".kept", moved, exp(".to_end", difference(".left", last, sums)));
    const TensorId states = layers_.matmul(name_ + ".states", b_turned, kept);  // [b, l, g, r, n, p]
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
                                                layers_.reshape(name_ + ".handed.split", layers_.matmul(name_ + ".handed", chain, flat),
                                                                {batch_, s_.groups, shared_, chunks_, s_.state, s_.width}),
                                                {0, 3, 1, 2, 4, 5});
    return layers_.multiply(name_ + ".across", layers_.matmul(name_ + ".read", c, entering), exp(".from_start", sums));
  }

  Layers& layers_;
  std::string name_;
  StateSpace s_;
  std::int64_t batch_, chunk_, chunks_, shared_;
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
