#include "graph/zoo/image_network.hpp"

namespace rehearsal::graph::zoo {
namespace {

/// [size, from]: row i averages the elements floor(i from / size) up to ceil((i + 1) from / size).
Value pooling_matrix(std::int64_t size, std::int64_t from) {
  std::vector<double> weights(static_cast<std::size_t>(size * from), 0.0);
  for (std::int64_t i = 0; i < size; ++i) {
    const std::int64_t first = i * from / size, last = ((i + 1) * from + size - 1) / size;
    for (std::int64_t j = first; j < last; ++j) weights[static_cast<std::size_t>(i * from + j)] = 1.0 / static_cast<double>(last - first);
  }
  return Value::of_reals(std::move(weights), {size, from});
}

}  // namespace

TensorId adaptive_average(Layers& layers, const std::string& name, TensorId x, std::int64_t size) {
  const std::int64_t from = layers.shape(x)[2];
  if (from == size) return x;
  const TensorId matrix = layers.builder().add_constant(name + ".matrix", pooling_matrix(size, from));
  return layers.product_with_rows(name + ".columns", layers.matmul(name + ".rows", matrix, x), matrix);
}

TensorId ImageNetwork::activate(const std::string& name, TensorId x, Activation activation) {
  switch (activation) {
    case Activation::Relu:
      return layers_.relu(name, x);
    case Activation::Relu6:
      return layers_.node(name, "Clip", {x}, {{"min", 0.0}, {"max", 6.0}});
    case Activation::Silu:
      return layers_.silu(name, x);
    case Activation::HardSwish:
      return layers_.node(name, "HardSwish", {x});
    case Activation::None:
      break;
  }
  return x;
}

TensorId ImageNetwork::unit(const std::string& name, TensorId x, std::int64_t channels, const FilterWindow& kernel, Activation activation) {
  const TensorId y = layers_.batch_norm(name + ".bn", layers_.conv(name + ".conv", x, channels, kernel, false), style_.epsilon);
  return activate(name + ".act", y, activation);
}

TensorId ImageNetwork::squeezed(const std::string& name, TensorId x, const Squeeze& squeeze) {
  const TensorId mean = layers_.global_average(name + ".mean", x, true);
  const TensorId few = activate(name + ".act", layers_.conv(name + ".fc1", mean, squeeze.channels, {1, 1, 0}, true), squeeze.inner);
  Attributes slope;
  if (squeeze.gate == "HardSigmoid") slope = {{"alpha", 1.0 / 6}, {"beta", 0.5}};
  const TensorId gate =
      layers_.node(name + ".gate", squeeze.gate, {layers_.conv(name + ".fc2", few, shape(x)[1], {1, 1, 0}, true)}, std::move(slope));
  return layers_.multiply(name, x, gate);
}

Graph ImageNetwork::classified(TensorId x, const std::string& name, std::int64_t classes, double dropout) && {
  x = layers_.global_average("avgpool", x);
  if (dropout > 0) x = layers_.dropout("dropout", x, dropout);
  return std::move(layers_).finish(layers_.linear(name, x, classes), "logits");
}

}  // namespace rehearsal::graph::zoo
