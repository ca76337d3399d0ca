#pragma once
// What networks found by search are made of: units that begin with an activation, and the halving that joins two shifted samplings.

#include <string>

#include "graph/zoo/image_network.hpp"

namespace rehearsal::graph::zoo {

class CellNetwork {
 public:
  explicit CellNetwork(double epsilon) : net_({.epsilon = epsilon, .activation = Activation::None}) {}

  [[nodiscard]] Layers& layers() { return net_.layers(); }
  [[nodiscard]] ImageNetwork& net() { return net_; }
  [[nodiscard]] std::int64_t channels(TensorId x) const { return net_.shape(x)[1]; }

  /// Relu, convolution, batch normalization.
  TensorId unit(const std::string& name, TensorId x, std::int64_t channels, const FilterWindow& kernel);
  TensorId pointwise(const std::string& name, TensorId x, std::int64_t channels, std::int64_t stride = 1) {
    return unit(name, x, channels, FilterWindow::of({1, stride, 0}));
  }
  /// Half of the channels from the even places, half from the odd ones (Zoph et al. 2018, appendix A.4).
  TensorId factorized_reduction(const std::string& name, TensorId x, std::int64_t channels);
  /// Mean over 3x3; padding does not count.
  TensorId average(const std::string& name, TensorId x, std::int64_t stride) {
    return layers().average_pool(name, x, {3, stride, 1}, false);
  }
  TensorId maximum(const std::string& name, TensorId x, std::int64_t stride) { return layers().max_pool(name, x, {3, stride, 1}); }

 private:
  ImageNetwork net_;
};

}  // namespace rehearsal::graph::zoo
