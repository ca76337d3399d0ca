#include "graph/zoo/sequence_chunks.hpp"

#include "graph/zoo/attention.hpp"

namespace rehearsal::graph::zoo {

TensorId causal_convolution(Layers& layers, const std::string& name, TensorId x, std::int64_t kernel, bool bias) {
  const std::int64_t channels = layers.shape(x).back();
  std::vector<TensorId> operands = {layers.transpose(name + ".channels", x, {0, 2, 1}),
                                    layers.parameter(name + ".weight", {channels, 1, kernel})};
  if (bias) operands.push_back(layers.parameter(name + ".bias", {channels}));
  const TensorId y =
      layers.node(name, "Conv", std::move(operands),
                  {{"kernel_shape", Shape{kernel}}, {"strides", Shape{1}}, {"pads", Shape{kernel - 1, 0}}, {"group", channels}});
  return layers.transpose(name + ".tokens", layers.silu(name + ".act", y), {0, 2, 1});
}

TensorId decays(Layers& layers, const std::string& name, TensorId rows, TensorId columns, Triangle triangle) {
  constexpr double kNothing = -1e9;  // an exponent that makes 0
  const std::int64_t length = layers.shape(rows)[layers.shape(rows).size() - 2];
  const TensorId after = layers.node(name + ".after", triangle == Triangle::BelowDiagonal ? "Greater" : "GreaterOrEqual",
                                     {positions(layers, name + ".rows", {length, 1}), positions(layers, name + ".columns", {1, length})});
  const TensorId between = layers.node(name + ".between", "Sub", {rows, columns});
  const TensorId nothing = layers.constant(name + ".nothing", kNothing);
  return layers.node(name, "Exp", {layers.node(name + ".mask", "Where", {after, between, nothing})});
}

}  // namespace rehearsal::graph::zoo
