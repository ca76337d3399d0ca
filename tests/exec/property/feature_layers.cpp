#include "tests/exec/property/layer_rows.hpp"

namespace rehearsal::property {
namespace {

bool has_features(const Shape& s, const Numbers&) { return s.size() == 2 || s.size() == 3; }
bool has_several(const Shape& s, const Numbers&) { return (s.size() == 2 || s.size() == 3) && s.back() >= 5; }
bool always(const Shape&, const Numbers&) { return true; }
Numbers nothing(Draws&, const Shape&) { return {}; }
Numbers width(Draws& d, const Shape&) { return {d.between(3, 17)}; }
Numbers kind(Draws& d, const Shape&) { return {d.between(0, 5)}; }

std::int64_t last_axis(const Shape& s) { return static_cast<std::int64_t>(s.size()) - 1; }

TensorId activation(const Site& s, const std::string& name, TensorId x, std::int64_t kind) {
  if (kind == 1) return s.layers.gelu(name, x);
  if (kind == 2) return s.layers.silu(name, x);
  static const std::vector<std::string> kOps{"Relu", "", "", "Tanh", "Sigmoid", "Softplus"};
  return s.layers.node(name, kOps[static_cast<std::size_t>(kind)], {x});
}

TensorId residual(const Site& s) {
  const auto inner = activation(s, s.at("act"), dense_or_linear(s.layers, s.at("up"), s.x, s.number(0)), s.number(1));
  return s.layers.add(s.at("sum"), s.x, dense_or_linear(s.layers, s.at("down"), inner, s.shape().back()));
}

/// Two halves of one layer, one of which gates the other.
TensorId gate(const Site& s) {
  const auto width = s.number(0);
  const auto fused = dense_or_linear(s.layers, s.at("fused"), s.x, 2 * width);
  const auto axis = last_axis(s.shape());
  const auto open = s.layers.node(s.at("open"), "Sigmoid", {sliced(s.layers, s.at("gate"), fused, axis, {0, width})});
  return s.layers.multiply(s.at("gated"), open, sliced(s.layers, s.at("value"), fused, axis, {width, 2 * width}));
}

/// Three unequal parts, one of them changed, in another order.
TensorId parts(const Site& s) {
  const auto n = s.shape().back(), first = s.number(0) % (n - 2) + 1, second = s.number(1) % (n - first - 1) + 1;
  const auto axis = last_axis(s.shape());
  const auto part = s.layers.split(s.at("split"), s.x, axis, {first, second, n - first - second});
  return s.layers.concat(s.at("joined"), {part[2], s.layers.relu(s.at("relu"), part[0]), part[1]}, axis);
}

TensorId widened(const Site& s) {
  const auto more = s.layers.relu(s.at("relu"), dense_or_linear(s.layers, s.at("more"), s.x, s.number(0)));
  return s.layers.concat(s.at("joined"), {s.x, more}, last_axis(s.shape()));
}

/// One matrix used twice, the second time transposed.
TensorId tied(const Site& s) {
  const auto matrix = s.layers.parameter(s.at("weight"), {s.shape().back(), s.number(0)});
  const auto inner = s.layers.node(s.at("tanh"), "Tanh", {s.layers.matmul(s.at("there"), s.x, matrix)});
  return s.layers.add(s.at("sum"), s.x, s.layers.matmul(s.at("back"), inner, s.layers.transpose(s.at("turned"), matrix, {1, 0})));
}

TensorId scaled(const Site& s) {
  const auto by = s.layers.parameter(s.at("weight"), {s.number(0) == 0 ? 1 : s.shape().back()});
  return s.layers.add(s.at("sum"), s.layers.multiply(s.at("scaled"), s.x, by), s.x);
}

TensorId centered(const Site& s) {
  const auto n = static_cast<double>(s.shape().back());
  const auto mean = s.layers.node(s.at("mean"), "ReduceSum", {s.x},
                                  {{"axes", Shape{last_axis(s.shape())}}, {"keepdims", std::int64_t{1}}, {"scale", 1 / n}});
  return s.layers.node(s.at("centered"), "Sub", {s.x, mean});
}

constexpr LayerRow kRows[] = {
    {"dense", has_features, width, [](const Site& s) { return dense_or_linear(s.layers, s.name, s.x, s.number(0)); }},
    {"act", always, kind, [](const Site& s) { return activation(s, s.name, s.x, s.number(0)); }},
    {"dropout", always, nothing, [](const Site& s) { return s.layers.dropout(s.name, s.x, 0.25); }},
    {"layernorm", has_features, nothing, [](const Site& s) { return s.layers.layer_norm(s.name, s.x); }},
    {"rmsnorm", has_features, nothing, [](const Site& s) { return s.layers.rms_norm(s.name, s.x); }},
    {"residual", has_features,
     [](Draws& d, const Shape&) {
       return Numbers{d.between(3, 17), d.between(0, 5)};
     },
     residual},
    {"gate", has_features, width, gate},
    {"parts", has_several,
     [](Draws& d, const Shape&) {
       return Numbers{d.between(0, 9), d.between(0, 9)};
     },
     parts},
    {"widened", has_features, [](Draws& d, const Shape&) { return Numbers{d.between(1, 6)}; }, widened},
    {"tied", has_features, width, tied},
    {"scaled", has_features, [](Draws& d, const Shape&) { return Numbers{d.between(0, 1)}; }, scaled},
    {"centered", has_features, nothing, centered},
    {"softmax", has_features, nothing,
     [](const Site& s) {
       return s.layers.node(s.name, "Softmax", {s.x}, {{"axis", std::int64_t{-1}}});
     }},
    {"crop", has_several, nothing,
     [](const Site& s) {
       return sliced(s.layers, s.name, s.x, last_axis(s.shape()), {1, s.shape().back() - 1});
     }},
};

}  // namespace

std::span<const LayerRow> feature_layers() { return kRows; }

}  // namespace rehearsal::property
