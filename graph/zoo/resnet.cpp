// He, Zhang, Ren, Sun, "Deep Residual Learning for Image Recognition", CVPR 2016, table 1; the stride of a bottleneck stands at
// its 3x3 convolution and parameters have their names, as in torchvision ("ResNet v1.5").

#include <array>

#include "graph/zoo/layers.hpp"
#include "graph/zoo/models.hpp"

namespace rehearsal::graph::zoo {
namespace {

constexpr ZooParameter kParameters[] = {
    {"image", 224, 32, 4096, "height and width"},
    {"classes", 1000, 1, 1'000'000, "size of the result"},
    {"batch", 8, 1, 1'000'000'000, "samples"},
};

struct Architecture {
  std::array<int, 4> blocks;
  bool bottleneck;
};

class Network {
 public:
  explicit Network(bool bottleneck) : bottleneck_(bottleneck) {}

  Graph build(const Architecture& architecture, const ZooValues& values) && {
    TensorId x = layers_.image(values.at("batch"), 3, values.at("image"));
    x = conv_norm("conv1", "bn1", x, 64, {7, 2, 3});
    x = layers_.max_pool("maxpool", layers_.relu("relu", x), {3, 2, 1});
    for (std::size_t stage = 0; stage < 4; ++stage) {
      for (int b = 0; b < architecture.blocks[stage]; ++b) {
        const std::string name = "layer" + std::to_string(stage + 1) + "." + std::to_string(b);
        x = block(name, x, std::int64_t{64} << stage, stage > 0 && b == 0 ? 2 : 1);
      }
    }
    const TensorId scores = layers_.linear("fc", layers_.global_average("avgpool", x), values.at("classes"));
    return std::move(layers_).finish(scores, "logits");
  }

 private:
  TensorId conv_norm(const std::string& conv, const std::string& norm, TensorId x, std::int64_t channels, Square window) {
    return layers_.batch_norm(norm, layers_.conv(conv, x, channels, window, false));
  }

  /// "x.conv2" and "x.bn2".
  TensorId step(const std::string& name, int number, TensorId x, std::int64_t channels, Square window) {
    const std::string n = std::to_string(number);
    return conv_norm(name + ".conv" + n, name + ".bn" + n, x, channels, window);
  }

  TensorId block(const std::string& name, TensorId x, std::int64_t channels, std::int64_t stride) {
    const std::int64_t result = bottleneck_ ? 4 * channels : channels;
    TensorId y;
    if (bottleneck_) {
      y = layers_.relu(name + ".relu1", step(name, 1, x, channels, {1, 1, 0}));
      y = layers_.relu(name + ".relu2", step(name, 2, y, channels, {3, stride, 1}));
      y = step(name, 3, y, result, {1, 1, 0});
    } else {
      y = layers_.relu(name + ".relu1", step(name, 1, x, channels, {3, stride, 1}));
      y = step(name, 2, y, channels, {3, 1, 1});
    }
    const bool projected = stride != 1 || layers_.shape(x)[1] != result;
    const TensorId shortcut = projected ? conv_norm(name + ".downsample.0", name + ".downsample.1", x, result, {1, stride, 0}) : x;
    return layers_.relu(name + ".relu", layers_.node(name + ".add", "Add", {y, shortcut}));
  }

  bool bottleneck_;
  Layers layers_;
};

template <int k1, int k2, int k3, int k4, bool kBottleneck>
Graph resnet(const ZooValues& values) {
  return Network(kBottleneck).build({{k1, k2, k3, k4}, kBottleneck}, values);
}

constexpr ZooRow kRows[] = {
    {"resnet18", "ResNet-18 (He et al. 2016)", kParameters, resnet<2, 2, 2, 2, false>},
    {"resnet34", "ResNet-34 (He et al. 2016)", kParameters, resnet<3, 4, 6, 3, false>},
    {"resnet50", "ResNet-50 v1.5 (He et al. 2016, strides as in torchvision)", kParameters, resnet<3, 4, 6, 3, true>},
    {"resnet101", "ResNet-101 v1.5 (He et al. 2016, strides as in torchvision)", kParameters, resnet<3, 4, 23, 3, true>},
    {"resnet152", "ResNet-152 v1.5 (He et al. 2016, strides as in torchvision)", kParameters, resnet<3, 8, 36, 3, true>},
};

}  // namespace

std::span<const ZooRow> resnets() { return kRows; }

}  // namespace rehearsal::graph::zoo
