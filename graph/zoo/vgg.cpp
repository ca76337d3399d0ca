// Simonyan, Zisserman, "Very Deep Convolutional Networks for Large-Scale Image Recognition", ICLR 2015, table 1, configurations
// A, B, D and E; parameters named as in torchvision.

#include <algorithm>

#include "graph/zoo/layers.hpp"
#include "graph/zoo/models.hpp"

namespace rehearsal::graph::zoo {
namespace {

constexpr ZooParameter kParameters[] = {
    {"image", 224, 32, 4096, "height and width"},
    {"classes", 1000, 1, 1'000'000, "size of the result"},
    {"batch", 8, 1, 1'000'000'000, "samples"},
};
constexpr std::int64_t kFinalSize = 7;
constexpr std::int64_t kHidden = 4096;
constexpr double kDropout = 0.5;

/// [7, size]: row i averages the rows floor(i size / 7) up to ceil((i + 1) size / 7), as PyTorch's adaptive pooling does.
Value pooling_matrix(std::int64_t size) {
  std::vector<double> weights(static_cast<std::size_t>(kFinalSize * size), 0.0);
  for (std::int64_t i = 0; i < kFinalSize; ++i) {
    const std::int64_t first = i * size / kFinalSize, last = ((i + 1) * size + kFinalSize - 1) / kFinalSize;
    for (std::int64_t j = first; j < last; ++j) weights[static_cast<std::size_t>(i * size + j)] = 1.0 / static_cast<double>(last - first);
  }
  return Value::of_reals(std::move(weights), {kFinalSize, size});
}

/// To 7 x 7 from any size; nothing at the size of the paper.
TensorId adaptive_average(Layers& layers, TensorId x) {
  const std::int64_t size = layers.shape(x)[2];
  if (size == kFinalSize) return x;
  const TensorId matrix = layers.builder().add_constant("avgpool.matrix", pooling_matrix(size));
  const TensorId transposed = layers.node("avgpool.transposed", "Transpose", {matrix}, {{"perm", std::vector<std::int64_t>{1, 0}}});
  return layers.node("avgpool.columns", "MatMul", {layers.node("avgpool.rows", "MatMul", {matrix, x}), transposed});
}

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
  x = layers.flatten("flatten", adaptive_average(layers, x));
  x = layers.dropout("classifier.2", layers.relu("classifier.1", layers.linear("classifier.0", x, kHidden)), kDropout);
  x = layers.dropout("classifier.5", layers.relu("classifier.4", layers.linear("classifier.3", x, kHidden)), kDropout);
  x = layers.linear("classifier.6", x, values.at("classes"));
  return std::move(layers).finish(x, "logits");
}

constexpr ZooRow kRows[] = {
    {"vgg11", "VGG-11, configuration A (Simonyan, Zisserman 2015)", kParameters, vgg<1, 1, 2, 2, 2>},
    {"vgg13", "VGG-13, configuration B (Simonyan, Zisserman 2015)", kParameters, vgg<2, 2, 2, 2, 2>},
    {"vgg16", "VGG-16, configuration D (Simonyan, Zisserman 2015)", kParameters, vgg<2, 2, 3, 3, 3>},
    {"vgg19", "VGG-19, configuration E (Simonyan, Zisserman 2015)", kParameters, vgg<2, 2, 4, 4, 4>},
};

}  // namespace

std::span<const ZooRow> vggs() { return kRows; }

}  // namespace rehearsal::graph::zoo
