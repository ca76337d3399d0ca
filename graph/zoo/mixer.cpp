// Tolstikhin et al., "MLP-Mixer: An all-MLP Architecture for Vision", NeurIPS 2021, figure 1 and table 1.

#include "base/error.hpp"
#include "graph/zoo/layers.hpp"
#include "graph/zoo/models.hpp"

namespace rehearsal::graph::zoo {
namespace {

constexpr ZooParameter kMixerParameters[] = {
    {"image", 224, 2, 4096, "height and width, a multiple of patch"},
    {"patch", 16, 1, 1024, "height and width of a patch"},
    {"layers", 12, 1, 10'000, "blocks"},
    {"hidden", 768, 2, 1'000'000, "channels"},
    {"classes", 1000, 1, 1'000'000, "size of the result"},
    {"batch", 8, 1, 1'000'000'000, "samples"},
};

TensorId perceptron(Layers& layers, const std::string& name, TensorId x, std::int64_t wide) {
  const std::int64_t narrow = layers.shape(x).back();
  return layers.dense(name + ".fc2", layers.gelu(name + ".act", layers.dense(name + ".fc1", x, wide)), narrow);
}

/// Tokens are mixed by a layer of hidden/2, channels by one of 4 hidden.
TensorId block(Layers& layers, const std::string& name, TensorId x, std::int64_t hidden) {
  const TensorId turned = layers.transpose(name + ".turned", layers.layer_norm(name + ".norm1", x), {0, 2, 1});
  const TensorId tokens = perceptron(layers, name + ".tokens", turned, hidden / 2);
  x = layers.add(name + ".mixed", x, layers.transpose(name + ".back", tokens, {0, 2, 1}));
  return layers.add(name, x, perceptron(layers, name + ".channels", layers.layer_norm(name + ".norm2", x), 4 * hidden));
}

Graph mixer(const ZooValues& v) {
  const std::int64_t patch = v.at("patch"), side = v.at("image") / patch, hidden = v.at("hidden"), batch = v.at("batch");
  if (v.at("image") % patch != 0)
    throw BadInput("zoo:mixer", "image=" + std::to_string(v.at("image")) + " is not a multiple of patch=" + std::to_string(patch));
  Layers layers;
  TensorId x = layers.conv("stem", layers.image(batch, 3, v.at("image")), hidden, {patch, patch, 0}, true);
  x = layers.transpose("tokens", layers.reshape("stem.flat", x, {batch, hidden, side * side}), {0, 2, 1});
  for (std::int64_t i = 0; i < v.at("layers"); ++i) x = block(layers, "blocks." + std::to_string(i), x, hidden);
  x = layers.transpose("channels", layers.layer_norm("norm", x), {0, 2, 1});
  const auto result = layers.linear("head", layers.global_average("avgpool", x), v.at("classes"));
  return std::move(layers).finish(result, "logits");
}

constexpr ZooRow kMixerRows[] = {{"mixer", "MLP-Mixer (Tolstikhin et al. 2021); the defaults are Mixer-B/16", kMixerParameters, mixer}};

}  // namespace

std::span<const ZooRow> mixers() { return kMixerRows; }

}  // namespace rehearsal::graph::zoo
