// AlexNet as torchvision has it (Krizhevsky, "One weird trick for parallelizing convolutional neural networks", 2014) and GoogLeNet
// (Szegedy et al., "Going Deeper with Convolutions", CVPR 2015, table 1) with batch normalization, without the auxiliary classifiers.

#include "graph/zoo/image_network.hpp"

namespace rehearsal::graph::zoo {
namespace {

Graph alexnet(const ZooValues& values) {
  Layers layers;
  TensorId x = layers.image(values.at("batch"), 3, values.at("image"));
  x = layers.relu("features.1", layers.conv("features.0", x, 64, {11, 4, 2}, true));
  x = layers.max_pool("features.2", x, {3, 2, 0});
  x = layers.relu("features.4", layers.conv("features.3", x, 192, {5, 1, 2}, true));
  x = layers.max_pool("features.5", x, {3, 2, 0});
  x = layers.relu("features.7", layers.conv("features.6", x, 384, {3, 1, 1}, true));
  x = layers.relu("features.9", layers.conv("features.8", x, 256, {3, 1, 1}, true));
  x = layers.relu("features.11", layers.conv("features.10", x, 256, {3, 1, 1}, true));
  x = layers.max_pool("features.12", x, {3, 2, 0});
  x = layers.flatten("flatten", adaptive_average(layers, "avgpool", x, 6));
  x = layers.relu("classifier.2", layers.linear("classifier.1", layers.dropout("classifier.0", x, 0.5), 4096));
  x = layers.relu("classifier.5", layers.linear("classifier.4", layers.dropout("classifier.3", x, 0.5), 4096));
  const auto result = layers.linear("classifier.6", x, values.at("classes"));
  return std::move(layers).finish(result, "logits");
}

/// Filters of the branches of an inception module: 1x1; 3x3 behind 1x1; 5x5 (taken as 3x3, as torchvision does) behind 1x1; pooling.
struct Module {
  std::string_view name;
  std::int64_t one, three_reduced, three, five_reduced, five, pooled;
};
constexpr Module kModules[] = {
    {"3a", 64, 96, 128, 16, 32, 32},     {"3b", 128, 128, 192, 32, 96, 64},   {"4a", 192, 96, 208, 16, 48, 64},
    {"4b", 160, 112, 224, 24, 64, 64},   {"4c", 128, 128, 256, 24, 64, 64},   {"4d", 112, 144, 288, 32, 64, 64},
    {"4e", 256, 160, 320, 32, 128, 128}, {"5a", 256, 160, 320, 32, 128, 128}, {"5b", 384, 192, 384, 48, 128, 128},
};

TensorId inception(ImageNetwork& net, const Module& m, TensorId x) {
  const std::string name = "inception" + std::string(m.name);
  const TensorId a = net.unit(name + ".branch1", x, m.one, {1, 1, 0});
  const TensorId b = net.unit(name + ".branch2.1", net.unit(name + ".branch2.0", x, m.three_reduced, {1, 1, 0}), m.three, {3, 1, 1});
  const TensorId c = net.unit(name + ".branch3.1", net.unit(name + ".branch3.0", x, m.five_reduced, {1, 1, 0}), m.five, {3, 1, 1});
  const TensorId d = net.unit(name + ".branch4.1", net.layers().max_pool(name + ".branch4.0", x, {3, 1, 1}), m.pooled, {1, 1, 0});
  return net.layers().concat(name, {a, b, c, d});
}

Graph googlenet(const ZooValues& values) {
  ImageNetwork net({.epsilon = 1e-3});
  TensorId x = net.layers().image(values.at("batch"), 3, values.at("image"));
  x = net.layers().max_pool("maxpool1", net.unit("conv1", x, 64, {7, 2, 3}), {3, 2, 1});
  x = net.unit("conv3", net.unit("conv2", x, 64, {1, 1, 0}), 192, {3, 1, 1});
  x = net.layers().max_pool("maxpool2", x, {3, 2, 1});
  for (const Module& m : kModules) {
    x = inception(net, m, x);
    if (m.name == "3b") x = net.layers().max_pool("maxpool3", x, {3, 2, 1});
    if (m.name == "4e") x = net.layers().max_pool("maxpool4", x, {2, 2, 0});
  }
  return std::move(net).classified(x, "fc", values.at("classes"), 0.2);
}

constexpr auto kAlexParameters = image_parameters(224, 63);
constexpr auto kGoogleParameters = image_parameters(224, 32);
constexpr ZooRow kClassicRows[] = {
    {"alexnet", "AlexNet (Krizhevsky 2014, as in torchvision)", kAlexParameters, alexnet},
    {"googlenet", "GoogLeNet (Szegedy et al. 2015) with batch normalization", kGoogleParameters, googlenet},
};

}  // namespace

std::span<const ZooRow> classic_networks() { return kClassicRows; }

}  // namespace rehearsal::graph::zoo
