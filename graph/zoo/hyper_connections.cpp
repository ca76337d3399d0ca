#include "graph/zoo/hyper_connections.hpp"

namespace rehearsal::graph::zoo {
namespace {

constexpr double kLeastWeight = 1e-6;

/// A number for every way that streams are mixed: a product of all streams together behind a norm.
TensorId mixing(Layers& layers, const std::string& name, TensorId x, std::int64_t numbers) {
  const Shape s = layers.shape(x);
  const TensorId flat = layers.rms_norm(name + ".norm", layers.reshape(name + ".flat", x, {s[0], s[1], s[2] * s[3]}), false);
  return layers.dense(name + ".fn", flat, numbers, false);
}

TensorId affine(Layers& layers, const std::string& name, TensorId x, TensorId scale, TensorId base) {
  return layers.add(name + ".moved", layers.multiply(name + ".scaled", x, scale), base);
}

/// Streams by the sigmoids of their numbers, added up.
TensorId collapsed(Layers& layers, const std::string& name, TensorId x, TensorId numbers) {
  const Shape s = layers.shape(x);
  const TensorId weights =
      layers.add(name + ".weights", layers.node(name + ".sigmoid", "Sigmoid", {numbers}), layers.constant(name + ".least", kLeastWeight));
  const TensorId weighed = layers.multiply(name + ".weighed", x, layers.reshape(name + ".by_stream", weights, {s[0], s[1], s[2], 1}));
  return layers.node(name, "ReduceSum", {weighed}, {{"axes", Shape{2}}, {"keepdims", std::int64_t{0}}});
}

}  // namespace

Streams into_block(Layers& layers, const std::string& name, TensorId x, std::int64_t iterations) {
  const Shape s = layers.shape(x);
  const std::int64_t n = s[2], all = (2 + n) * n;
  const Shape parts = {n, n, n * n};
  const auto numbers = layers.split(name + ".numbers", mixing(layers, name, x, all), 2, parts);
  const auto bases = layers.split(name + ".bases", layers.parameter(name + ".base", {all}), 0, parts);
  const auto scales = layers.split(name + ".scales", layers.parameter(name + ".scale", {3}), 0, {1, 1, 1});
  Streams result;
  result.input = collapsed(layers, name + ".input", x, affine(layers, name + ".pre", numbers[0], scales[0], bases[0]));
  const TensorId given = layers.node(name + ".given.sigmoid", "Sigmoid", {affine(layers, name + ".post", numbers[1], scales[1], bases[1])});
  result.given = layers.reshape(name + ".given.by_stream", layers.multiply(name + ".given", given, layers.constant(name + ".two", 2)),
                                {s[0], s[1], n, 1});
  const TensorId square =
      layers.reshape(name + ".comb.square", affine(layers, name + ".comb", numbers[2], scales[2], bases[2]), {s[0], s[1], n, n});
  const TensorId positive =
      layers.add(name + ".comb.positive", layers.node(name + ".comb.softmax", "Softmax", {square}, {{"axis", std::int64_t{-1}}}),
                 layers.constant(name + ".comb.least", kLeastWeight));
  result.kept = layers.node(name + ".comb.even", "Sinkhorn", {positive}, {{"iterations", iterations}, {"epsilon", kLeastWeight}});
  return result;
}

TensorId out_of_block(Layers& layers, const std::string& name, TensorId x, const Streams& streams, TensorId result) {
  const Shape s = layers.shape(x);
  const TensorId apart = layers.reshape(name + ".result.apart", result, {s[0], s[1], 1, s[3]});
  const TensorId mixed = layers.node(name + ".mixed", "MatMul", {streams.kept, x}, {{"trans_a", std::int64_t{1}}});
  return layers.add(name + ".residual", layers.multiply(name + ".result.given", streams.given, apart), mixed);
}

TensorId merged(Layers& layers, const std::string& name, TensorId x) {
  const std::int64_t n = layers.shape(x)[2];
  const TensorId numbers =
      affine(layers, name, mixing(layers, name, x, n), layers.parameter(name + ".scale", {1}), layers.parameter(name + ".base", {n}));
  return collapsed(layers, name + ".merged", x, numbers);
}

}  // namespace rehearsal::graph::zoo
