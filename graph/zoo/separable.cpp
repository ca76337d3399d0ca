// Networks of separable and shuffled convolutions: Chollet, "Xception", CVPR 2017, figure 5; Ma et al., "ShuffleNet V2", ECCV 2018,
// table 5.

#include <array>

#include "graph/zoo/image_network.hpp"

namespace rehearsal::graph::zoo {
namespace {

class Xception {
 public:
  explicit Xception(const ZooValues& values) : values_(values) {}

  Graph build() && {
    TensorId x = net_.layers().image(values_.at("batch"), 3, values_.at("image"));
    x = net_.unit("conv1", x, 32, {3, 2, 0});
    x = net_.unit("conv2", x, 64, {3, 1, 0});
    x = block(x, 64, {128, 128}, 2, false);
    x = block(x, 128, {256, 256}, 2, true);
    x = block(x, 256, {728, 728}, 2, true);
    for (int i = 0; i < 8; ++i) x = block(x, 728, {728, 728, 728}, 1, true);
    x = block(x, 728, {728, 1024}, 2, true);
    x = net_.layers().relu("relu3", separable("conv3", x, 1536));
    x = net_.layers().relu("relu4", separable("conv4", x, 2048));
    return std::move(net_).classified(x, "fc", values_.at("classes"));
  }

 private:
  TensorId separable(const std::string& name, TensorId x, std::int64_t channels) {
    const std::int64_t in = net_.shape(x)[1];
    const TensorId deep = net_.layers().conv(name + ".depthwise", x, in, FilterWindow::of({3, 1, 1}, in), false);
    return net_.unit(name, deep, channels, FilterWindow::of({1, 1, 0}), Activation::None);
  }

  TensorId block(TensorId x, std::int64_t in, const std::vector<std::int64_t>& widths, std::int64_t stride, bool relu_first) {
    const std::string name = "block" + std::to_string(++blocks_);
    TensorId y = x;
    for (std::size_t i = 0; i < widths.size(); ++i) {
      const std::string step = name + ".sep" + std::to_string(i);
      if (i > 0 || relu_first) y = net_.layers().relu(step + ".relu", y);
      y = separable(step, y, widths[i]);
    }
    if (stride == 2) y = net_.layers().max_pool(name + ".pool", y, {3, 2, 1});
    const bool projected = stride == 2 || in != widths.back();
    const TensorId skip = projected ? net_.unit(name + ".skip", x, widths.back(), FilterWindow::of({1, stride, 0}), Activation::None) : x;
    return net_.layers().add(name, y, skip);
  }

  const ZooValues& values_;
  ImageNetwork net_;
  int blocks_ = 0;
};

class ShuffleNet {
 public:
  ShuffleNet(const std::array<std::int64_t, 4>& channels, const ZooValues& values) : channels_(channels), values_(values) {}

  Graph build() && {
    TensorId x = net_.unit("conv1", net_.layers().image(values_.at("batch"), 3, values_.at("image")), 24, {3, 2, 1});
    x = net_.layers().max_pool("maxpool", x, {3, 2, 1});
    constexpr int kRepeats[] = {4, 8, 4};
    for (std::size_t stage = 0; stage < 3; ++stage)
      for (int b = 0; b < kRepeats[stage]; ++b)
        x = block("stage" + std::to_string(stage + 2) + "." + std::to_string(b), x, channels_[stage], b == 0);
    return std::move(net_).classified(pointwise("conv5", x, channels_[3]), "fc", values_.at("classes"));
  }

 private:
  TensorId pointwise(const std::string& name, TensorId x, std::int64_t channels) { return net_.unit(name, x, channels, {1, 1, 0}); }
  TensorId depthwise(const std::string& name, TensorId x, std::int64_t stride) {
    return net_.unit(name, x, net_.shape(x)[1], FilterWindow::of({3, stride, 1}, net_.shape(x)[1]), Activation::None);
  }

  TensorId block(const std::string& name, TensorId x, std::int64_t channels, bool halves) {
    const std::int64_t branch = channels / 2;
    TensorId left = x, right = x;
    if (halves) {
      left = pointwise(name + ".left", depthwise(name + ".left.depthwise", x, 2), branch);
    } else {
      const auto parts = net_.layers().split(name + ".split", x, 1, {branch, branch});
      left = parts[0];
      right = parts[1];
    }
    right = depthwise(name + ".depthwise", pointwise(name + ".a", right, branch), halves ? 2 : 1);
    return shuffled(name, net_.layers().concat(name + ".both", {left, pointwise(name + ".b", right, branch)}));
  }

  /// Channels of the two halves in turn.
  TensorId shuffled(const std::string& name, TensorId x) {
    const Shape s = net_.shape(x);
    const TensorId halves = net_.layers().reshape(name + ".halves", x, {s[0], 2, s[1] / 2, s[2] * s[3]});
    return net_.layers().reshape(name, net_.layers().transpose(name + ".shuffle", halves, {0, 2, 1, 3}), s);
  }

  std::array<std::int64_t, 4> channels_;
  const ZooValues& values_;
  ImageNetwork net_;
};

constexpr auto k299 = image_parameters(299, 71), k224 = image_parameters(224, 32);
constexpr ZooRow kSeparableRows[] = {
    {"xception", "Xception (Chollet 2017)", k299, [](const ZooValues& v) { return Xception(v).build(); }},
    {"shufflenet_v2", "ShuffleNetV2 1.0x (Ma et al. 2018)", k224,
     [](const ZooValues& v) {
       return ShuffleNet({116, 232, 464, 1024}, v).build();
     }},
};

}  // namespace

std::span<const ZooRow> separable_networks() { return kSeparableRows; }

}  // namespace rehearsal::graph::zoo
