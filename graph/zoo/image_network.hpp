#pragma once
// What most networks for images have in common: units of convolution, normalization and activation, and a classifier behind a mean.

#include <array>
#include <string>

#include "graph/zoo/layers.hpp"
#include "graph/zoo/models.hpp"

namespace rehearsal::graph::zoo {

/// image (height and width), classes, batch.
[[nodiscard]] constexpr std::array<ZooParameter, 3> image_parameters(std::int64_t image, std::int64_t least) {
  return {{{"image", image, least, 4096, "height and width"},
           {"classes", 1000, 1, 1'000'000, "size of the result"},
           {"batch", 8, 1, 1'000'000'000, "samples"}}};
}

enum class Activation : std::uint8_t { None, Relu, Relu6, Silu, HardSwish };

struct UnitStyle {
  double epsilon = 1e-5;  ///< of batch normalization
  Activation activation = Activation::Relu;
};

/// Squeeze and excitation (Hu, Shen, Sun, CVPR 2018): channels weighed by what two 1x1 convolutions make of their means.
struct Squeeze {
  std::int64_t channels = 1;
  Activation inner = Activation::Relu;
  std::string_view gate = "Sigmoid";
};

class ImageNetwork {
 public:
  explicit ImageNetwork(UnitStyle style = {}) : style_(style) {}

  [[nodiscard]] Layers& layers() { return layers_; }
  [[nodiscard]] Shape shape(TensorId x) const { return layers_.shape(x); }

  /// Convolution without bias, batch normalization, activation, named name.conv, name.bn, name.act.
  TensorId unit(const std::string& name, TensorId x, std::int64_t channels, Square window) {
    return unit(name, x, channels, FilterWindow::of(window), style_.activation);
  }
  TensorId unit(const std::string& name, TensorId x, std::int64_t channels, const FilterWindow& kernel, Activation activation);
  TensorId activate(const std::string& name, TensorId x, Activation activation);
  TensorId squeezed(const std::string& name, TensorId x, const Squeeze& squeeze);

  /// Mean over the image, dropout (where the ratio is not 0), and a fully connected layer: the end.
  [[nodiscard]] Graph classified(TensorId x, const std::string& name, std::int64_t classes, double dropout = 0) &&;

 private:
  UnitStyle style_;
  Layers layers_;
};

/// To size x size from any image, as PyTorch's adaptive pooling does; nothing where the image has that size.
TensorId adaptive_average(Layers&, const std::string& name, TensorId x, std::int64_t size);

}  // namespace rehearsal::graph::zoo
