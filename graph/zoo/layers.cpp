#include "graph/zoo/layers.hpp"

#include <numeric>

#include "graph/composites.hpp"

namespace rehearsal::graph::zoo {
namespace {

Attributes window_attributes(const FilterWindow& kernel) {
  Shape pads = kernel.pad;
  pads.insert(pads.end(), kernel.pad.begin(), kernel.pad.end());
  return {{"kernel_shape", kernel.size}, {"strides", kernel.stride}, {"pads", std::move(pads)}};
}

/// [filters, channels, kernel...]
Shape filter_shape(std::int64_t first, std::int64_t second, const FilterWindow& kernel) {
  Shape shape = {first, second};
  shape.insert(shape.end(), kernel.size.begin(), kernel.size.end());
  return shape;
}

}  // namespace

TensorId Layers::parameter(const std::string& name, Shape shape) {
  return builder_.add_stored(name, {dtype_, std::move(shape)}, TensorRole::Parameter, {});
}

TensorId Layers::node(const std::string& name, std::string_view op, std::vector<TensorId> inputs, Attributes attributes) {
  return builder_.add(op, std::move(inputs), std::move(attributes), {name, Phase::Forward, NodeId::None, {}}).front();
}

TensorId Layers::conv(const std::string& name, TensorId x, std::int64_t channels, const FilterWindow& kernel, bool bias) {
  std::vector<TensorId> operands = {x, parameter(name + ".weight", filter_shape(channels, shape(x)[1] / kernel.groups, kernel))};
  if (bias) operands.push_back(parameter(name + ".bias", {channels}));
  Attributes attributes = window_attributes(kernel);
  if (kernel.groups != 1) attributes.set("group", kernel.groups);
  return node(name, "Conv", std::move(operands), std::move(attributes));
}

TensorId Layers::conv_transpose(const std::string& name, TensorId x, std::int64_t channels, const FilterWindow& kernel, bool bias) {
  std::vector<TensorId> operands = {x, parameter(name + ".weight", filter_shape(shape(x)[1], channels, kernel))};
  if (bias) operands.push_back(parameter(name + ".bias", {channels}));
  return node(name, "ConvTranspose", std::move(operands), window_attributes(kernel));
}

TensorId Layers::batch_norm(const std::string& name, TensorId x, double epsilon) {
  const Shape channels = {shape(x)[1]};
  BatchNorm norm;
  norm.x = x;
  norm.epsilon = epsilon;
  norm.scale = parameter(name + ".weight", channels);
  norm.bias = parameter(name + ".bias", channels);
  norm.running_mean = builder_.add_stored(name + ".running_mean", {dtype_, channels}, TensorRole::State, {});
  norm.running_var = builder_.add_stored(name + ".running_var", {dtype_, channels}, TensorRole::State, {});
  return add_batch_norm(builder_, norm, name);
}

TensorId Layers::group_norm(const std::string& name, TensorId x, std::int64_t groups, double epsilon) {
  const Shape channels = {shape(x)[1]};
  const TensorId scale = parameter(name + ".weight", channels), bias = parameter(name + ".bias", channels);
  return add_group_norm(builder_, {x, scale, bias, groups, epsilon}, name);
}

TensorId Layers::silu(const std::string& name, TensorId x) { return multiply(name, x, node(name + ".sigmoid", "Sigmoid", {x})); }

TensorId Layers::gelu(const std::string& name, TensorId x, bool by_tanh) {
  return node(name, "Gelu", {x}, {{"approximate", std::string(by_tanh ? "tanh" : "none")}});
}

TensorId Layers::max_pool(const std::string& name, TensorId x, const FilterWindow& kernel) {
  return node(name, "MaxPool", {x}, window_attributes(kernel));
}

TensorId Layers::average_pool(const std::string& name, TensorId x, Square window, bool with_padding) {
  Attributes attributes = window_attributes(FilterWindow::of(window));
  attributes.set("count_include_pad", std::int64_t{with_padding ? 1 : 0});
  return node(name, "AveragePool", {x}, std::move(attributes));
}

TensorId Layers::global_average(const std::string& name, TensorId x, bool keep) {
  const Shape size = shape(x);
  std::vector<std::int64_t> axes(size.size() - 2);
  std::iota(axes.begin(), axes.end(), 2);
  const double scale = static_cast<double>(size[0] * size[1]) / static_cast<double>(element_count(size));
  return node(name, "ReduceSum", {x}, {{"axes", axes}, {"keepdims", std::int64_t{keep ? 1 : 0}}, {"scale", scale}});
}

TensorId Layers::concat(const std::string& name, std::vector<TensorId> parts, std::int64_t axis) {
  return node(name, "Concat", std::move(parts), {{"axis", axis}});
}

std::vector<TensorId> Layers::split(const std::string& name, TensorId x, std::int64_t axis, Shape sizes) {
  return builder_.add("Split", {x}, {{"axis", axis}, {"split", std::move(sizes)}}, {name, Phase::Forward, NodeId::None, {}});
}

TensorId Layers::transpose(const std::string& name, TensorId x, std::vector<std::int64_t> perm) {
  return node(name, "Transpose", {x}, {{"perm", std::move(perm)}});
}

TensorId Layers::reshape(const std::string& name, TensorId x, Shape shape) {
  return node(name, "Reshape", {x}, {{"shape", std::move(shape)}});
}

TensorId Layers::flatten(const std::string& name, TensorId x) {
  const Shape size = shape(x);
  return node(name, "Reshape", {x}, {{"shape", Shape{size[0], element_count(size) / size[0]}}});
}

TensorId Layers::dropout(const std::string& name, TensorId x, double ratio) {
  return node(name, "Dropout", {x}, {{"ratio", ratio}, {"stream", dropouts_++}});
}

TensorId Layers::linear(const std::string& name, TensorId x, std::int64_t features) {
  const TensorId weight = parameter(name + ".weight", {features, shape(x)[1]}), bias = parameter(name + ".bias", {features});
  return node(name, "Gemm", {x, weight, bias}, {{"trans_b", std::int64_t{1}}});
}

TensorId Layers::dense(const std::string& name, TensorId x, std::int64_t features, bool bias) {
  const TensorId product = matmul(name, x, parameter(name + ".weight", {shape(x).back(), features}));
  return bias ? add(name + ".add", product, parameter(name + ".bias", {features})) : product;
}

TensorId Layers::embedding(const std::string& name, TensorId indices, std::int64_t rows, std::int64_t width) {
  return node(name, "Gather", {parameter(name + ".weight", {rows, width}), indices}, {{"axis", std::int64_t{0}}});
}

TensorId Layers::layer_norm(const std::string& name, TensorId x, bool bias) {
  const Shape features = {shape(x).back()};
  std::vector<TensorId> operands = {x, parameter(name + ".weight", features)};
  if (bias) operands.push_back(parameter(name + ".bias", features));
  return node(name, "LayerNormalization", std::move(operands), {{"axis", std::int64_t{-1}}, {"epsilon", 1e-5}});
}

TensorId Layers::rms_norm(const std::string& name, TensorId x, bool weighted) {
  const Shape features = {shape(x).back()};
  const TensorId weight = weighted
                              ? parameter(name + ".weight", features)
                              : builder_.add_constant(name + ".ones", Value::of_reals(std::vector<double>(features[0], 1.0), features));
  return node(name, "RMSNormalization", {x, weight}, {{"axis", std::int64_t{-1}}, {"epsilon", 1e-5}});
}

Graph Layers::finish(TensorId result, const std::string& name) && {
  builder_.rename(result, name);
  builder_.set_outputs({result});
  return std::move(builder_).build();
}

Graph Layers::finish(const std::vector<TensorId>& results, const std::vector<std::string>& names) && {
  for (std::size_t i = 0; i < results.size(); ++i) builder_.rename(results[i], names[i]);
  builder_.set_outputs(results);
  return std::move(builder_).build();
}

}  // namespace rehearsal::graph::zoo
