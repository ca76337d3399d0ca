// The U-Net that torchgpipe's benchmarks train (Kim et al., "torchgpipe: On-the-fly Pipeline Parallelism for Training Giant Models", 2020;
// code of kakaobrain/torchgpipe): many convolutions a level, instance normalization without parameters, nearest neighbours upward.

#include "base/error.hpp"
#include "graph/composites.hpp"
#include "graph/zoo/layers.hpp"
#include "graph/zoo/models.hpp"

namespace rehearsal::graph::zoo {
namespace {

constexpr ZooParameter kUnetStackedParameters[] = {
    {"image", 192, 2, 8192, "height and width, a multiple of 2^depth"},
    {"convolutions", 5, 1, 10'000, "convolutions of a level and direction"},
    {"channels", 64, 2, 100'000, "channels of the first level, doubled at each deeper one; even"},
    {"depth", 5, 1, 8, "how often the image is halved"},
    {"in_channels", 3, 1, 10'000, "channels of the image"},
    {"classes", 1, 1, 100'000, "channels of the result"},
    {"batch", 8, 1, 1'000'000'000, "samples"},
};

class StackedUnet {
 public:
  explicit StackedUnet(const ZooValues& values) : values_(values) {}

  Graph build() && {
    const std::int64_t depth = values_.at("depth"), c = values_.at("channels"), image = values_.at("image");
    if (image % (std::int64_t{1} << depth) != 0 || c % 2 != 0)
      throw BadInput("zoo:unet2d_stacked", "image=" + std::to_string(image) + " cannot be halved depth=" + std::to_string(depth) +
                                               " times, or channels=" + std::to_string(c) + " is odd");
    TensorId x = layers_.image(values_.at("batch"), values_.at("in_channels"), image);
    std::vector<TensorId> skips;
    for (std::int64_t level = 0; level < depth; ++level) {
      const std::string name = "down." + std::to_string(level);
      skips.push_back(cell(name, x, c << level, c << level));
      x = layers_.max_pool(name + ".pool", skips.back(), {2, 2, 0});
    }
    x = cell("bottleneck", x, c << depth, c << (depth - 1));
    for (std::int64_t level = depth; level-- > 0;) {
      const std::string name = "up." + std::to_string(level);
      const Shape s = layers_.shape(x);
      const TensorId larger =
          layers_.node(name + ".larger", "Resize", {x}, {{"sizes", Shape{2 * s[2], 2 * s[3]}}, {"mode", std::string("nearest")}});
      x = cell(name, layers_.concat(name + ".concat", {larger, skips[static_cast<std::size_t>(level)]}), (c << level) / 2,
               (c << level) / 2);
    }
    return std::move(layers_).finish(layers_.conv("segment", x, values_.at("classes"), {1, 1, 0}, false), "logits");
  }

 private:
  TensorId cell(const std::string& name, TensorId x, std::int64_t middle, std::int64_t last) {
    const std::int64_t count = values_.at("convolutions");
    for (std::int64_t i = 0; i < count; ++i) {
      const std::string step = name + "." + std::to_string(i);
      const std::int64_t channels = i + 1 == count ? last : middle;
      x = layers_.dropout(step + ".dropout", layers_.conv(step, x, channels, {3, 1, 1}, false), 0.1);
      x = layers_.node(step + ".relu", "LeakyRelu", {plain_norm(step + ".norm", x)}, {{"alpha", 0.01}});
    }
    return x;
  }

  /// Instance normalization with constants in place of scale and shift.
  TensorId plain_norm(const std::string& name, TensorId x) {
    const std::int64_t channels = layers_.shape(x)[1];
    auto& builder = layers_.builder();
    const auto filled = [&](const char* what, double value) {
      return builder.add_constant(name + what, Value::of_reals(std::vector<double>(static_cast<std::size_t>(channels), value), {channels}));
    };
    return add_group_norm(builder, {x, filled(".one", 1), filled(".zero", 0), channels, 1e-5}, name);
  }

  const ZooValues& values_;
  Layers layers_;
};

constexpr ZooRow kUnetStackedRows[] = {{"unet2d_stacked", "U-Net of torchgpipe's benchmarks (Kim et al. 2020); the defaults are (5, 64)",
                                        kUnetStackedParameters, [](const ZooValues& v) { return StackedUnet(v).build(); }}};

}  // namespace

std::span<const ZooRow> stacked_unets() { return kUnetStackedRows; }

}  // namespace rehearsal::graph::zoo
