#include "graph/zoo/attention.hpp"
#include "graph/zoo/experts.hpp"
#include "tests/exec/property/layer_rows.hpp"

namespace rehearsal::property {
namespace {

namespace zoo = graph::zoo;

bool is_sequence(const Shape& s, const Numbers&) { return s.size() == 3; }
bool is_long(const Shape& s, const Numbers&) { return s.size() == 3 && s[1] >= 2; }
Numbers nothing(Draws&, const Shape&) { return {}; }

/// heads, groups of heads, causal, rotary
Numbers draw_attention(Draws& d, const Shape&) {
  const auto heads = d.one_of<std::int64_t>({1, 2, 3, 4, 6});
  const auto kv = d.chance(0.5) ? heads : d.one_of<std::int64_t>({1, 2, 3});
  return {heads, heads % kv == 0 ? kv : 1, d.between(0, 1), d.between(0, 1)};
}

/// The same, the constants being this layer's own.
zoo::Attention heads_of(const Site& s, std::int64_t heads, std::int64_t kv, bool causal) {
  zoo::Attention how;
  how.heads = heads;
  how.kv_heads = kv;
  how.scale = s.layers.constant(s.at("scale"), 0.5);
  if (!causal) return how;
  const auto length = s.shape()[1];
  graph::Value mask{{DType::Bool, {length, length}}, {}, {}};
  for (std::int64_t n = 0; n < length * length; ++n) mask.integers.push_back(n % length <= n / length ? 1 : 0);
  how.mask = s.layers.builder().add_constant(s.at("mask"), std::move(mask));
  how.masked = s.layers.constant(s.at("masked"), -3e38);
  return how;
}

TensorId attention(const Site& s) {
  auto& l = s.layers;
  constexpr std::int64_t kWidth = 4;
  const auto heads = s.number(0), kv = s.number(1);
  auto how = heads_of(s, heads, kv, s.number(2) != 0);
  if (s.number(3) != 0) how.rotary = zoo::make_rotary(l, s.at("rotary"), s.shape()[1], kWidth);
  const auto q = l.dense(s.at("q"), s.x, heads * kWidth), k = l.dense(s.at("k"), s.x, kv * kWidth),
             v = l.dense(s.at("v"), s.x, kv * kWidth);
  return l.add(s.at("sum"), s.x, l.dense(s.at("out"), zoo::attend(l, s.name, {q, k, v}, how), s.shape().back()));
}

/// Queries, keys and values from one product.
TensorId fused_attention(const Site& s) {
  auto& l = s.layers;
  constexpr std::int64_t kWidth = 4;
  const auto heads = s.number(0), all = heads * kWidth;
  const auto how = heads_of(s, heads, heads, false);
  const auto qkv = l.split(s.at("split"), l.dense(s.at("qkv"), s.x, 3 * all), 2, {all, all, all});
  return l.add(s.at("sum"), s.x, l.dense(s.at("out"), zoo::attend(l, s.name, {qkv[0], qkv[1], qkv[2]}, how), s.shape().back()));
}

/// A layer over the sequence (Tolstikhin et al., "MLP-Mixer", 2021).
TensorId mixer(const Site& s) {
  auto& l = s.layers;
  const auto turned = l.transpose(s.at("turned"), s.x, {0, 2, 1});
  const auto inner = l.relu(s.at("relu"), l.dense(s.at("up"), turned, s.number(0)));
  return l.add(s.at("sum"), s.x, l.transpose(s.at("back"), l.dense(s.at("down"), inner, s.shape()[1]), {0, 2, 1}));
}

/// Hochreiter, Schmidhuber 1997, unrolled over time.
TensorId lstm(const Site& s) {
  auto& l = s.layers;
  const auto batch = s.shape()[0], time = s.shape()[1], hidden = s.number(0);
  const auto inputs = l.split(s.at("times"), l.dense(s.at("ih"), s.x, 4 * hidden), 1, Shape(static_cast<std::size_t>(time), 1));
  const auto matrix = l.parameter(s.at("hh.weight"), {hidden, 4 * hidden});
  std::vector<TensorId> results;
  TensorId h = TensorId::None, c = TensorId::None;
  for (std::size_t t = 0; t < inputs.size(); ++t) {
    const auto at = s.at("t" + std::to_string(t));
    auto gates = l.reshape(at, inputs[t], {batch, 4 * hidden});
    if (t > 0) gates = l.add(at + ".gates", gates, l.matmul(at + ".hh", h, matrix));
    const auto g = l.split(at + ".split", gates, 1, Shape(4, hidden));
    const auto fresh = l.multiply(at + ".fresh", l.node(at + ".in", "Sigmoid", {g[0]}), l.node(at + ".new", "Tanh", {g[2]}));
    c = t == 0 ? fresh : l.add(at + ".cell", l.multiply(at + ".kept", l.node(at + ".forget", "Sigmoid", {g[1]}), c), fresh);
    h = l.multiply(at + ".hidden", l.node(at + ".out", "Sigmoid", {g[3]}), l.node(at + ".tanh", "Tanh", {c}));
    results.push_back(l.reshape(at + ".result", h, {batch, 1, hidden}));
  }
  return l.concat(s.name, std::move(results), 1);
}

TensorId rolled(const Site& s) {
  const auto n = s.shape()[1];
  return s.layers.concat(s.name, {sliced(s.layers, s.at("late"), s.x, 1, {1, n}), sliced(s.layers, s.at("early"), s.x, 1, {0, 1})}, 1);
}

TensorId class_token(const Site& s) {
  const auto width = s.shape()[2];
  const auto token = s.layers.node(s.at("token"), "Expand", {s.layers.parameter(s.at("weight"), {1, 1, width})},
                                   {{"shape", Shape{s.shape()[0], 1, width}}});
  return s.layers.concat(s.name, {token, s.x}, 1);
}

TensorId mean(const Site& s) {
  const auto n = static_cast<double>(s.shape()[1]);
  return s.layers.node(s.name, "ReduceSum", {s.x}, {{"axes", Shape{1}}, {"keepdims", std::int64_t{0}}, {"scale", 1 / n}});
}

TensorId last(const Site& s) {
  const auto n = s.shape()[1];
  return s.layers.reshape(s.name, sliced(s.layers, s.at("last"), s.x, 1, {n - 1, n}), {s.shape()[0], s.shape()[2]});
}

constexpr LayerRow kRows[] = {
    {"attention", is_sequence, draw_attention, attention},
    {"fused", is_sequence, [](Draws& d, const Shape&) { return Numbers{d.between(1, 5)}; }, fused_attention},
    {"mixer", is_sequence, [](Draws& d, const Shape&) { return Numbers{d.between(2, 7)}; }, mixer},
    {"lstm", is_sequence, [](Draws& d, const Shape&) { return Numbers{d.between(2, 6)}; }, lstm},
    {"rolled", is_long, nothing, rolled},
    {"token", is_sequence, nothing, class_token},
    {"position", is_sequence, nothing,
     [](const Site& s) {
       return s.layers.add(s.name, s.x, s.layers.parameter(s.at("weight"), {s.shape()[1], s.shape()[2]}));
     }},
    {"cumsum", is_sequence, nothing,
     [](const Site& s) {
       return s.layers.node(s.name, "CumSum", {s.x}, {{"axis", std::int64_t{1}}});
     }},
    {"experts", is_sequence,
     [](Draws& d, const Shape&) {
       return Numbers{d.between(2, 5), d.between(1, 2), d.between(3, 8)};
     },
     [](const Site& s) {
       return s.layers.add(s.at("sum"), s.x,
                           zoo::mixture_of_experts(s.layers, s.name, s.x, {s.number(0), s.number(1), 125, s.number(2)}).result);
     }},
    {"mean", is_sequence, nothing, mean},
    {"last", is_sequence, nothing, last},
    {"fold", is_sequence, nothing, [](const Site& s) { return s.layers.flatten(s.name, s.x); }},
};

}  // namespace

std::span<const LayerRow> sequence_layers() { return kRows; }

}  // namespace rehearsal::property
