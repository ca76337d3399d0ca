#include "graph/zoo/layers.hpp"

#include "graph/composites.hpp"

namespace rehearsal::graph::zoo {
namespace {

Attributes window_attributes(const Square& window) {
  const Shape two = {window.kernel, window.kernel};
  return {{"kernel_shape", two}, {"strides", Shape{window.stride, window.stride}}, {"pads", Shape(4, window.pad)}};
}

}  // namespace

TensorId Layers::image(std::int64_t batch, std::int64_t channels, std::int64_t size) {
  return builder_.add_input("input", {dtype_, {batch, channels, size, size}});
}

TensorId Layers::parameter(const std::string& name, Shape shape) {
  return builder_.add_stored(name, {dtype_, std::move(shape)}, Role::Parameter, {});
}

TensorId Layers::node(const std::string& name, std::string_view op, std::vector<TensorId> inputs, Attributes attributes) {
  return builder_.add(op, std::move(inputs), std::move(attributes), {name, Phase::Forward, NodeId::None, {}}).front();
}

TensorId Layers::conv(const std::string& name, TensorId x, std::int64_t channels, Square window, bool bias) {
  std::vector<TensorId> operands = {x, parameter(name + ".weight", {channels, shape(x)[1], window.kernel, window.kernel})};
  if (bias) operands.push_back(parameter(name + ".bias", {channels}));
  return node(name, "Conv", std::move(operands), window_attributes(window));
}

TensorId Layers::conv_transpose(const std::string& name, TensorId x, std::int64_t channels, Square window) {
  const TensorId weight = parameter(name + ".weight", {shape(x)[1], channels, window.kernel, window.kernel}),
                 bias = parameter(name + ".bias", {channels});
  return node(name, "ConvTranspose", {x, weight, bias}, window_attributes(window));
}

TensorId Layers::batch_norm(const std::string& name, TensorId x) {
  const Shape channels = {shape(x)[1]};
  BatchNorm norm;
  norm.x = x;
  norm.scale = parameter(name + ".weight", channels);
  norm.bias = parameter(name + ".bias", channels);
  norm.running_mean = builder_.add_stored(name + ".running_mean", {dtype_, channels}, Role::State, {});
  norm.running_var = builder_.add_stored(name + ".running_var", {dtype_, channels}, Role::State, {});
  return add_batch_norm(builder_, norm, name);
}

TensorId Layers::max_pool(const std::string& name, TensorId x, Square window) {
  return node(name, "MaxPool", {x}, window_attributes(window));
}

TensorId Layers::global_average(const std::string& name, TensorId x) {
  const Shape size = shape(x);
  const double scale = 1.0 / static_cast<double>(size[2] * size[3]);
  return node(name, "ReduceSum", {x}, {{"axes", std::vector<std::int64_t>{2, 3}}, {"keepdims", std::int64_t{0}}, {"scale", scale}});
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

TensorId Layers::layer_norm(const std::string& name, TensorId x) {
  const Shape features = {shape(x).back()};
  return node(name, "LayerNormalization", {x, parameter(name + ".weight", features), parameter(name + ".bias", features)},
              {{"axis", std::int64_t{-1}}, {"epsilon", 1e-5}});
}

Graph Layers::finish(TensorId result, const std::string& name) && {
  builder_.rename(result, name);
  builder_.set_outputs({result});
  return std::move(builder_).build();
}

}  // namespace rehearsal::graph::zoo
