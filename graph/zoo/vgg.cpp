// Simonyan, Zisserman, "Very Deep Convolutional Networks for Large-Scale Image Recognition", ICLR 2015, table 1, configurations
// A, B, D and E; parameters named as in torchvision.

#include <algorithm>

#include "graph/zoo/image_network.hpp"

namespace rehearsal::graph::zoo {
namespace {

constexpr auto kVggParameters = image_parameters(224, 32);
constexpr std::int64_t kFinalSize = 7;
constexpr std::int64_t kHidden = 4096;
constexpr double kDropout = 0.5;

template <int k1, int k2, int k3, int k4, int k5>
Graph vgg(const ZooValues& values) {
  Layers layers;
  TensorId x = layers.image(values.at("batch"), 3, values.at("image"));
  int layer = 0;  // torchvision numbers convolutions, ReLUs and poolings through
  std::int64_t channels = 64;
  for (const int convolutions : {k1, k2, k3, k4, k5}) {
    for (int c = 0; c < convolutions; ++c, layer += 2) {
      const std::string name = "features." + std::to_string(layer);
      x = layers.relu("features." + std::to_string(layer + 1), layers.conv(name, x, channels, {3, 1, 1}, true));
    }
    x = layers.max_pool("features." + std::to_string(layer++), x, {2, 2, 0});
    channels = std::min<std::int64_t>(512, 2 * channels);
  }
  x = layers.flatten("flatten", adaptive_average(layers, "avgpool", x, kFinalSize));
  x = layers.dropout("classifier.2", layers.relu("classifier.1", layers.linear("classifier.0", x, kHidden)), kDropout);
  x = layers.dropout("classifier.5", layers.relu("classifier.4", layers.linear("classifier.3", x, kHidden)), kDropout);
  x = layers.linear("classifier.6", x, values.at("classes"));
  return std::move(layers).finish(x, "logits");
}

constexpr ZooRow kVggRows[] = {
    {"vgg11", "VGG-11, configuration A (Simonyan, Zisserman 2015)", kVggParameters, vgg<1, 1, 2, 2, 2>},
    {"vgg13", "VGG-13, configuration B (Simonyan, Zisserman 2015)", kVggParameters, vgg<2, 2, 2, 2, 2>},
    {"vgg16", "VGG-16, configuration D (Simonyan, Zisserman 2015)", kVggParameters, vgg<2, 2, 3, 3, 3>},
    {"vgg19", "VGG-19, configuration E (Simonyan, Zisserman 2015)", kVggParameters, vgg<2, 2, 4, 4, 4>},
};

}  // namespace

std::span<const ZooRow> vggs() { return kVggRows; }

}  // namespace rehearsal::graph::zoo
