// Liu et al., "A ConvNet for the 2020s", CVPR 2022, figure 4 and section 2: ConvNeXt, without the dropping of whole blocks.

#include <array>

#include "graph/zoo/image_network.hpp"

namespace rehearsal::graph::zoo {
namespace {

struct ConvnextSize {
  std::array<int, 4> blocks;
  std::int64_t channels;
};

class ConvNext {
 public:
  ConvNext(const ConvnextSize& size, const ZooValues& values) : size_(size), values_(values) {}

  Graph build() && {
    TensorId x = layers_.conv("stem", layers_.image(values_.at("batch"), 3, values_.at("image")), size_.channels, {4, 4, 0}, true);
    x = normed("stem.norm", x);
    for (std::size_t stage = 0; stage < 4; ++stage) {
      const std::string name = "stages." + std::to_string(stage);
      const std::int64_t channels = size_.channels << stage;
      if (stage > 0) x = layers_.conv(name + ".downsample", normed(name + ".downsample.norm", x), channels, {2, 2, 0}, true);
      for (int b = 0; b < size_.blocks[stage]; ++b) x = block(name + "." + std::to_string(b), x, channels);
    }
    x = layers_.layer_norm("norm", layers_.global_average("avgpool", x));
    return std::move(layers_).finish(layers_.linear("fc", x, values_.at("classes")), "logits");
  }

 private:
  TensorId last(const std::string& name, TensorId x) { return layers_.transpose(name, x, {0, 2, 3, 1}); }
  TensorId second(const std::string& name, TensorId x) { return layers_.transpose(name, x, {0, 3, 1, 2}); }
  TensorId normed(const std::string& name, TensorId x) { return second(name + ".back", layers_.layer_norm(name, last(name + ".last", x))); }

  TensorId block(const std::string& name, TensorId x, std::int64_t channels) {
    TensorId y = layers_.conv(name + ".depthwise", x, channels, FilterWindow::of({7, 1, 3}, channels), true);
    y = layers_.layer_norm(name + ".norm", last(name + ".last", y));
    y = layers_.dense(name + ".fc2", layers_.gelu(name + ".act", layers_.dense(name + ".fc1", y, 4 * channels)), channels);
    y = layers_.multiply(name + ".scaled", y, layers_.parameter(name + ".gamma", {channels}));
    return layers_.add(name, x, second(name + ".back", y));
  }

  ConvnextSize size_;
  const ZooValues& values_;
  Layers layers_;
};

template <ConvnextSize kSize>
Graph convnext(const ZooValues& values) {
  return ConvNext(kSize, values).build();
}

constexpr auto kConvnextParameters = image_parameters(224, 32);
constexpr ZooRow kConvnextRows[] = {
    {"convnext_tiny", "ConvNeXt-T (Liu et al. 2022)", kConvnextParameters, convnext<ConvnextSize{{3, 3, 9, 3}, 96}>},
    {"convnext_small", "ConvNeXt-S (Liu et al. 2022)", kConvnextParameters, convnext<ConvnextSize{{3, 3, 27, 3}, 96}>},
    {"convnext_base", "ConvNeXt-B (Liu et al. 2022)", kConvnextParameters, convnext<ConvnextSize{{3, 3, 27, 3}, 128}>},
    {"convnext_large", "ConvNeXt-L (Liu et al. 2022)", kConvnextParameters, convnext<ConvnextSize{{3, 3, 27, 3}, 192}>},
};

}  // namespace

std::span<const ZooRow> modern_networks() { return kConvnextRows; }

}  // namespace rehearsal::graph::zoo
