// U-Nets: the original (Ronneberger, Fischer, Brox, "U-Net: Convolutional Networks for Biomedical Image Segmentation", MICCAI 2015, figure
// 1) without padding, the same with padded convolutions and batch normalization behind each, as has become usual, and those with instance
// normalization and strided convolutions: 3D U-Net (Çiçek et al., MICCAI 2016) as nnU-Net and MLPerf have it (Isensee et al., "nnU-Net",
// Nature Methods 2021), without deep supervision.

#include <algorithm>

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

constexpr ZooParameter kValid[] = {
    {"image", 572, 188, 8192, "height and width; the result is smaller"},
    {"classes", 2, 1, 100'000, "channels of the result"},
    {"in_channels", 1, 1, 10'000, "channels of the image"},
    {"channels", 64, 1, 4096, "channels of the first level, doubled at each of the four deeper ones"},
    {"batch", 1, 1, 1'000'000'000, "samples"},
};

constexpr ZooParameter image_of(std::int64_t size) { return {"image", size, 2, 8192, "length of every side, a multiple of 2^depth"}; }
constexpr ZooParameter most(std::int64_t channels) { return {"max_channels", channels, 1, 100'000, "most channels of a level"}; }
constexpr ZooParameter kClasses = {"classes", 3, 1, 100'000, "channels of the result"};
constexpr ZooParameter kInChannels = {"in_channels", 1, 1, 10'000, "channels of the image"};
constexpr ZooParameter kChannels = {"channels", 32, 1, 4096, "channels of the first level, doubled at each deeper one"};
constexpr ZooParameter kDepth = {"depth", 5, 1, 8, "how often the image is halved"};
constexpr ZooParameter kSegmentationBatch = {"batch", 2, 1, 1'000'000'000, "samples"};
constexpr ZooParameter kVolume[] = {image_of(128), kClasses, kInChannels, kChannels, most(320), kDepth, kSegmentationBatch};
constexpr ZooParameter kPlane[] = {image_of(192), kClasses, kInChannels, kChannels, most(512), kDepth, kSegmentationBatch};

TensorId double_convolution(Layers& layers, const std::string& name, TensorId x, std::int64_t channels) {
  for (const std::string n : {"1", "2"}) {
    x = layers.batch_norm(name + ".bn" + n, layers.conv(name + ".conv" + n, x, channels, {3, 1, 1}, false));
    x = layers.relu(name + ".relu" + n, x);
  }
  return x;
}

/// Two convolutions without padding, biases instead of normalization.
TensorId narrowing(Layers& layers, const std::string& name, TensorId x, std::int64_t channels) {
  for (const std::string n : {"1", "2"}) x = layers.relu(name + ".relu" + n, layers.conv(name + ".conv" + n, x, channels, {3, 1, 0}, true));
  return x;
}

/// The middle of a skipped image, as large as `size`.
TensorId cropped(Layers& layers, const std::string& name, TensorId x, std::int64_t size) {
  const std::int64_t first = (layers.shape(x)[2] - size) / 2;
  return layers.node(name, "Slice", {x},
                     {{"starts", Shape{first, first}}, {"ends", Shape{first + size, first + size}}, {"axes", Shape{2, 3}}});
}

void require_halving(const std::string& model, std::int64_t image, std::int64_t depth) {
  if (image % (std::int64_t{1} << depth) != 0)
    throw BadInput("zoo:" + model, "image=" + std::to_string(image) + " cannot be halved depth=" + std::to_string(depth) +
                                       " times; it must be a multiple of " + std::to_string(std::int64_t{1} << depth));
}

/// One level: a name, what comes in, and the channels of the result.
using Level = TensorId(Layers&, const std::string& name, TensorId x, std::int64_t channels);

/// `level` on the way down and up again, where it gets what was skipped, too: of its middle as much as there is of the rest.
Graph u_shaped(const ZooValues& values, std::int64_t depth, Level* level_of) {
  Layers layers;
  const std::int64_t channels = values.at("channels"), image = values.at("image");
  TensorId x = level_of(layers, "down.0", layers.image(values.at("batch"), values.at("in_channels"), image), channels);
  std::vector<TensorId> skips;
  for (std::int64_t level = 1; level <= depth; ++level) {
    const std::string name = "down." + std::to_string(level);
    skips.push_back(x);
    x = level_of(layers, name, layers.max_pool(name + ".pool", x, {2, 2, 0}), channels << level);
  }
  for (std::int64_t level = depth; level-- > 0;) {
    const std::string name = "up." + std::to_string(level);
    const TensorId larger = layers.conv_transpose(name + ".transpose", x, channels << level, {2, 2, 0});
    TensorId skip = skips[static_cast<std::size_t>(level)];
    if (layers.shape(skip) != layers.shape(larger)) skip = cropped(layers, name + ".crop", skip, layers.shape(larger)[2]);
    x = level_of(layers, name, layers.concat(name + ".concat", {skip, larger}), channels << level);
  }
  return std::move(layers).finish(layers.conv("head", x, values.at("classes"), {1, 1, 0}, true), "logits");
}

Graph unet(const ZooValues& values) {
  require_halving("unet2d", values.at("image"), values.at("depth"));
  return u_shaped(values, values.at("depth"), double_convolution);
}

Graph valid_unet(const ZooValues& values) {
  if ((values.at("image") - 188) % 16 != 0)
    throw BadInput("zoo:unet2d_valid",
                   "image=" + std::to_string(values.at("image")) + " does not halve evenly; it must be 188 and a multiple of 16");
  return u_shaped(values, 4, narrowing);
}

/// Convolutions with instance normalization, in two or three dimensions.
class StridedUnet {
 public:
  StridedUnet(std::string model, std::size_t axes, bool leaky, const ZooValues& values)
      : model_(std::move(model)), axes_(axes), leaky_(leaky), values_(values) {}

  Graph build() && {
    const std::int64_t depth = values_.at("depth"), image = values_.at("image");
    require_halving(model_, image, depth);
    Shape shape(axes_, image);
    shape.insert(shape.begin(), {values_.at("batch"), values_.at("in_channels")});
    TensorId x = pair("down.0", layers_.input("input", shape), channels(0), 1);
    std::vector<TensorId> skips;
    for (std::int64_t level = 1; level <= depth; ++level) {
      skips.push_back(x);
      x = pair("down." + std::to_string(level), x, channels(level), 2);
    }
    for (std::int64_t level = depth; level-- > 0;) {
      const std::string name = "up." + std::to_string(level);
      const TensorId larger = layers_.conv_transpose(name + ".transpose", x, channels(level), window({2, 2, 0}), false);
      x = pair(name, layers_.concat(name + ".concat", {larger, skips[static_cast<std::size_t>(level)]}), channels(level), 1);
    }
    return std::move(layers_).finish(layers_.conv("head", x, values_.at("classes"), window({1, 1, 0}), true), "logits");
  }

 private:
  [[nodiscard]] FilterWindow window(Square s) const { return FilterWindow::of(s, 1, axes_); }
  [[nodiscard]] std::int64_t channels(std::int64_t level) const {
    return std::min(values_.at("channels") << level, values_.at("max_channels"));
  }

  TensorId pair(const std::string& name, TensorId x, std::int64_t channels, std::int64_t stride) {
    for (const std::string n : {"1", "2"}) {
      x = layers_.conv(name + ".conv" + n, x, channels, window({3, n == "1" ? stride : 1, 1}), false);
      x = layers_.group_norm(name + ".norm" + n, x, channels);
      x = leaky_ ? layers_.node(name + ".act" + n, "LeakyRelu", {x}, {{"alpha", 0.01}}) : layers_.relu(name + ".act" + n, x);
    }
    return x;
  }

  std::string model_;
  std::size_t axes_;
  bool leaky_;
  const ZooValues& values_;
  Layers layers_;
};

constexpr ZooRow kSegmentationRows[] = {
    {"unet2d", "U-Net with batch normalization (Ronneberger et al. 2015)", kUnetParameters, unet},
    {"unet2d_valid", "U-Net without padding, as in the paper (Ronneberger et al. 2015)", kValid, valid_unet},
    {"unet3d", "3D U-Net (Çiçek et al. 2016) as in MLPerf Training (KiTS19)", kVolume,
     [](const ZooValues& v) { return StridedUnet("unet3d", 3, false, v).build(); }},
    {"nnunet2d", "nnU-Net in two dimensions (Isensee et al. 2021)", kPlane,
     [](const ZooValues& v) { return StridedUnet("nnunet2d", 2, true, v).build(); }},
    {"nnunet3d", "nnU-Net in three dimensions (Isensee et al. 2021)", kVolume,
     [](const ZooValues& v) { return StridedUnet("nnunet3d", 3, true, v).build(); }},
};

}  // namespace

std::span<const ZooRow> segmenters() { return kSegmentationRows; }

}  // namespace rehearsal::graph::zoo
