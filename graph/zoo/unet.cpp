// Ronneberger, Fischer, Brox, "U-Net: Convolutional Networks for Biomedical Image Segmentation", MICCAI 2015, figure 1, with padded
// convolutions and batch normalization (Ioffe, Szegedy 2015) behind each, as has become usual.

#include "base/error.hpp"
#include "graph/zoo/layers.hpp"
#include "graph/zoo/models.hpp"

namespace rehearsal::graph::zoo {
namespace {

constexpr ZooParameter kUnetParameters[] = {
    {"image", 224, 2, 8192, "height and width, a multiple of 2^depth"},
    {"classes", 2, 1, 100'000, "channels of the result"},
    {"in_channels", 3, 1, 10'000, "channels of the image"},
    {"channels", 64, 1, 4096, "channels of the first level, doubled at each deeper one"},
    {"depth", 4, 1, 8, "how often the image is halved"},
    {"batch", 8, 1, 1'000'000'000, "samples"},
};

TensorId double_convolution(Layers& layers, const std::string& name, TensorId x, std::int64_t channels) {
  for (const std::string n : {"1", "2"}) {
    x = layers.batch_norm(name + ".bn" + n, layers.conv(name + ".conv" + n, x, channels, {3, 1, 1}, false));
    x = layers.relu(name + ".relu" + n, x);
  }
  return x;
}

Graph unet(const ZooValues& values) {
  const std::int64_t depth = values.at("depth"), channels = values.at("channels"), image = values.at("image");
  if (image % (std::int64_t{1} << depth) != 0) {
    throw BadInput("zoo:unet2d", "image=" + std::to_string(image) + " cannot be halved depth=" + std::to_string(depth) +
                                     " times; it must be a multiple of " + std::to_string(std::int64_t{1} << depth));
  }
  Layers layers;
  TensorId x = double_convolution(layers, "down.0", layers.image(values.at("batch"), values.at("in_channels"), image), channels);
  std::vector<TensorId> skips;
  for (std::int64_t level = 1; level <= depth; ++level) {
    const std::string name = "down." + std::to_string(level);
    skips.push_back(x);
    x = double_convolution(layers, name, layers.max_pool(name + ".pool", x, {2, 2, 0}), channels << level);
  }
  for (std::int64_t level = depth; level-- > 0;) {
    const std::string name = "up." + std::to_string(level);
    const TensorId larger = layers.conv_transpose(name + ".transpose", x, channels << level, {2, 2, 0});
    const TensorId joined =
        layers.node(name + ".concat", "Concat", {skips[static_cast<std::size_t>(level)], larger}, {{"axis", std::int64_t{1}}});
    x = double_convolution(layers, name, joined, channels << level);
  }
  const auto result = layers.conv("head", x, values.at("classes"), {1, 1, 0}, true);
  return std::move(layers).finish(result, "logits");
}

constexpr ZooRow kUnetRows[] = {{"unet2d", "U-Net with batch normalization (Ronneberger et al. 2015)", kUnetParameters, unet}};

}  // namespace

std::span<const ZooRow> unets() { return kUnetRows; }

}  // namespace rehearsal::graph::zoo
