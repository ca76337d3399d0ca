#include "graph/zoo/cells.hpp"

namespace rehearsal::graph::zoo {

TensorId CellNetwork::unit(const std::string& name, TensorId x, std::int64_t channels, const FilterWindow& kernel) {
  return net_.unit(name, layers().relu(name + ".relu", x), channels, kernel, Activation::None);
}

TensorId CellNetwork::factorized_reduction(const std::string& name, TensorId x, std::int64_t channels) {
  const TensorId ready = layers().relu(name + ".relu", x);
  const TensorId even = layers().conv(name + ".even", ready, channels / 2, Square{1, 2, 0}, false);
  // Padded by one, every second place is an odd one but for the first, which is dropped.
  const TensorId padded = layers().conv(name + ".odd", ready, channels - channels / 2, Square{1, 2, 1}, false);
  const auto& s = layers().shape(padded);
  const TensorId odd =
      layers().node(name + ".odd.places", "Slice", {padded}, {{"starts", Shape{1, 1}}, {"ends", Shape{s[2], s[3]}}, {"axes", Shape{2, 3}}});
  return layers().batch_norm(name + ".bn", layers().concat(name, {even, odd}));
}

}  // namespace rehearsal::graph::zoo
