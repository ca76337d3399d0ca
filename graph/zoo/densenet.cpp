// Huang, Liu, van der Maaten, Weinberger, "Densely Connected Convolutional Networks", CVPR 2017, table 1; parameters as in torchvision.

#include "graph/zoo/image_network.hpp"

namespace rehearsal::graph::zoo {
namespace {

struct DenseNetArchitecture {
  std::int64_t growth, first;
  std::array<int, 4> blocks;
};
constexpr std::int64_t kBottleneck = 4;  ///< channels of a 1x1 convolution, in growths

class DenseNet {
 public:
  Graph build(const DenseNetArchitecture& a, const ZooValues& values) && {
    TensorId x = layers_.image(values.at("batch"), 3, values.at("image"));
    x = normed("features.norm0", layers_.conv("features.conv0", x, a.first, {7, 2, 3}, false));
    x = layers_.max_pool("features.pool0", x, {3, 2, 1});
    for (std::size_t block = 0; block < a.blocks.size(); ++block) {
      const std::string name = std::to_string(block + 1);
      for (int layer = 1; layer <= a.blocks[block]; ++layer)
        x = grown("features.denseblock" + name + ".denselayer" + std::to_string(layer), x, a.growth);
      if (block + 1 < a.blocks.size()) x = transition("features.transition" + name, x);
    }
    x = layers_.global_average("avgpool", normed("features.norm5", x));
    return std::move(layers_).finish(layers_.linear("classifier", x, values.at("classes")), "logits");
  }

 private:
  TensorId normed(const std::string& name, TensorId x) { return layers_.relu(name + ".relu", layers_.batch_norm(name, x)); }

  TensorId grown(const std::string& name, TensorId x, std::int64_t growth) {
    const TensorId few = layers_.conv(name + ".conv1", normed(name + ".norm1", x), kBottleneck * growth, {1, 1, 0}, false);
    const TensorId more = layers_.conv(name + ".conv2", normed(name + ".norm2", few), growth, {3, 1, 1}, false);
    return layers_.concat(name, {x, more});
  }
  TensorId transition(const std::string& name, TensorId x) {
    const TensorId half = layers_.conv(name + ".conv", normed(name + ".norm", x), layers_.shape(x)[1] / 2, {1, 1, 0}, false);
    return layers_.average_pool(name + ".pool", half, {2, 2, 0});
  }

  Layers layers_;
};

template <int kGrowth, int kFirst, int k1, int k2, int k3, int k4>
Graph densenet(const ZooValues& values) {
  return DenseNet().build({kGrowth, kFirst, {k1, k2, k3, k4}}, values);
}

constexpr auto kDensenetParameters = image_parameters(224, 32);
constexpr ZooRow kDensenetRows[] = {
    {"densenet121", "DenseNet-121 (Huang et al. 2017)", kDensenetParameters, densenet<32, 64, 6, 12, 24, 16>},
    {"densenet161", "DenseNet-161 (Huang et al. 2017, growth 48 as in torchvision)", kDensenetParameters, densenet<48, 96, 6, 12, 36, 24>},
    {"densenet169", "DenseNet-169 (Huang et al. 2017)", kDensenetParameters, densenet<32, 64, 6, 12, 32, 32>},
    {"densenet201", "DenseNet-201 (Huang et al. 2017)", kDensenetParameters, densenet<32, 64, 6, 12, 48, 32>},
};

}  // namespace

std::span<const ZooRow> densenets() { return kDensenetRows; }

}  // namespace rehearsal::graph::zoo
