// Networks of depthwise convolutions: Howard et al., "MobileNets", 2017; Sandler et al., "MobileNetV2", CVPR 2018, table 2; Howard et al.,
// "Searching for MobileNetV3", ICCV 2019, tables 1 and 2; Tan, Le, "EfficientNet", ICML 2019, table 1 and section 3.3. Widths are rounded
// as torchvision rounds them; the dropping of whole blocks in training is left out.

#include <algorithm>
#include <cmath>

#include "graph/zoo/image_network.hpp"

namespace rehearsal::graph::zoo {
namespace {

/// The nearest multiple of 8, not below nine tenths of the width.
std::int64_t rounded(double width) {
  const auto nearest = std::max<std::int64_t>(8, static_cast<std::int64_t>(width + 4) / 8 * 8);
  return static_cast<double>(nearest) < 0.9 * width ? nearest + 8 : nearest;
}

/// An inverted residual block: 1x1 to `expanded` channels, depthwise, squeeze and excitation, 1x1 to `channels`.
struct Block {
  std::int64_t kernel, expanded, channels, stride;
  Activation activation;
  std::int64_t squeezed = 0;  ///< 0: no squeeze and excitation
  bool hard = false;          ///< the gate is a hard sigmoid behind relu (MobileNetV3), else a sigmoid behind silu
};

class MobileNetwork {
 public:
  MobileNetwork(UnitStyle style, const ZooValues& values) : values_(values), net_(style) {}

  TensorId stem(std::int64_t channels, Activation activation) {
    const TensorId image = net_.layers().image(values_.at("batch"), 3, values_.at("image"));
    return net_.unit("stem", image, channels, FilterWindow::of({3, 2, 1}), activation);
  }

  TensorId block(TensorId x, const Block& b) {
    const std::string name = "blocks." + std::to_string(count_++);
    const std::int64_t in = net_.shape(x)[1];
    TensorId y = b.expanded == in ? x : pointwise(name + ".expand", x, b.expanded, b.activation);
    y = depthwise(name + ".depthwise", y, {b.kernel, b.stride, b.kernel / 2}, b.activation);
    if (b.squeezed > 0) {
      const Squeeze squeeze{b.squeezed, b.hard ? Activation::Relu : Activation::Silu, b.hard ? "HardSigmoid" : "Sigmoid"};
      y = net_.squeezed(name + ".squeeze", y, squeeze);
    }
    y = pointwise(name + ".project", y, b.channels, Activation::None);
    return b.stride == 1 && in == b.channels ? net_.layers().add(name + ".residual", x, y) : y;
  }

  TensorId depthwise(const std::string& name, TensorId x, Square window, Activation activation) {
    const std::int64_t channels = net_.shape(x)[1];
    return net_.unit(name, x, channels, FilterWindow::of(window, channels), activation);
  }
  TensorId pointwise(const std::string& name, TensorId x, std::int64_t channels, Activation activation) {
    return net_.unit(name, x, channels, FilterWindow::of({1, 1, 0}), activation);
  }

  [[nodiscard]] ImageNetwork& net() { return net_; }
  [[nodiscard]] Graph classified(TensorId x, double dropout) && {
    return std::move(net_).classified(x, "classifier", values_.at("classes"), dropout);
  }

 private:
  const ZooValues& values_;
  ImageNetwork net_;
  int count_ = 0;
};

Graph mobilenet_v1(const ZooValues& values) {
  MobileNetwork net({}, values);
  TensorId x = net.stem(32, Activation::Relu);
  constexpr std::int64_t kLayers[][2] = {{64, 1},  {128, 2}, {128, 1}, {256, 2}, {256, 1},  {512, 2}, {512, 1},
                                         {512, 1}, {512, 1}, {512, 1}, {512, 1}, {1024, 2}, {1024, 1}};
  int number = 0;
  for (const auto& [channels, stride] : kLayers) {
    const std::string name = "blocks." + std::to_string(number++);
    x = net.depthwise(name + ".depthwise", x, {3, stride, 1}, Activation::Relu);
    x = net.pointwise(name + ".pointwise", x, channels, Activation::Relu);
  }
  return std::move(net).classified(x, 0);
}

Graph mobilenet_v2(const ZooValues& values) {
  MobileNetwork net({}, values);
  TensorId x = net.stem(32, Activation::Relu6);
  constexpr std::int64_t kStages[][4] = {{1, 16, 1, 1}, {6, 24, 2, 2},  {6, 32, 3, 2}, {6, 64, 4, 2},
                                         {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};
  for (const auto& [times, channels, blocks, stride] : kStages)
    for (std::int64_t b = 0; b < blocks; ++b)
      x = net.block(x, {3, times * net.net().shape(x)[1], channels, b == 0 ? stride : 1, Activation::Relu6});
  const auto head = net.pointwise("head", x, 1280, Activation::Relu6);
  return std::move(net).classified(head, 0.2);
}

struct V3Row {
  std::int64_t kernel, expanded, channels;
  bool squeezed, hard_swish;
  std::int64_t stride;
};
constexpr V3Row kLarge[] = {{3, 16, 16, false, false, 1}, {3, 64, 24, false, false, 2}, {3, 72, 24, false, false, 1},
                            {5, 72, 40, true, false, 2},  {5, 120, 40, true, false, 1}, {5, 120, 40, true, false, 1},
                            {3, 240, 80, false, true, 2}, {3, 200, 80, false, true, 1}, {3, 184, 80, false, true, 1},
                            {3, 184, 80, false, true, 1}, {3, 480, 112, true, true, 1}, {3, 672, 112, true, true, 1},
                            {5, 672, 160, true, true, 2}, {5, 960, 160, true, true, 1}, {5, 960, 160, true, true, 1}};
constexpr V3Row kSmall[] = {{3, 16, 16, true, false, 2}, {3, 72, 24, false, false, 2}, {3, 88, 24, false, false, 1},
                            {5, 96, 40, true, true, 2},  {5, 240, 40, true, true, 1},  {5, 240, 40, true, true, 1},
                            {5, 120, 48, true, true, 1}, {5, 144, 48, true, true, 1},  {5, 288, 96, true, true, 2},
                            {5, 576, 96, true, true, 1}, {5, 576, 96, true, true, 1}};

Graph mobilenet_v3(std::span<const V3Row> rows, std::int64_t hidden, const ZooValues& values) {
  MobileNetwork net({.epsilon = 1e-3}, values);
  TensorId x = net.stem(16, Activation::HardSwish);
  for (const V3Row& r : rows) {
    const Activation activation = r.hard_swish ? Activation::HardSwish : Activation::Relu;
    x = net.block(
        x, {r.kernel, r.expanded, r.channels, r.stride, activation, r.squeezed ? rounded(static_cast<double>(r.expanded) / 4) : 0, true});
  }
  x = net.pointwise("head", x, 6 * net.net().shape(x)[1], Activation::HardSwish);
  Layers& layers = net.net().layers();
  x = layers.linear("classifier.0", layers.global_average("avgpool", x), hidden);
  x = layers.dropout("classifier.2", net.net().activate("classifier.1", x, Activation::HardSwish), 0.2);
  const auto result = layers.linear("classifier.3", x, values.at("classes"));
  return std::move(layers).finish(result, "logits");
}

/// Compound scaling (EfficientNet, table 8 of the published code).
struct WidthScale {
  double width, depth, dropout;
};

Graph efficientnet(const WidthScale& scale, const ZooValues& values) {
  MobileNetwork net({}, values);
  TensorId x = net.stem(rounded(32 * scale.width), Activation::Silu);
  struct Stage {
    std::int64_t times, kernel, stride, channels, blocks;
  };
  constexpr Stage kStages[] = {{1, 3, 1, 16, 1},  {6, 3, 2, 24, 2},  {6, 5, 2, 40, 2}, {6, 3, 2, 80, 3},
                               {6, 5, 1, 112, 3}, {6, 5, 2, 192, 4}, {6, 3, 1, 320, 1}};
  std::int64_t channels = 0;
  for (const Stage& s : kStages) {
    channels = rounded(static_cast<double>(s.channels) * scale.width);
    const auto blocks = static_cast<std::int64_t>(std::ceil(static_cast<double>(s.blocks) * scale.depth));
    for (std::int64_t b = 0; b < blocks; ++b) {
      const std::int64_t in = net.net().shape(x)[1];
      x = net.block(x, {s.kernel, s.times * in, channels, b == 0 ? s.stride : 1, Activation::Silu, std::max<std::int64_t>(1, in / 4)});
    }
  }
  const auto head = net.pointwise("head", x, 4 * channels, Activation::Silu);
  return std::move(net).classified(head, scale.dropout);
}

/// A convolution in place of the expansion and the depthwise convolution (Tan, Le, "EfficientNetV2", ICML 2021, figure 2).
TensorId fused_block(MobileNetwork& net, const std::string& name, TensorId x, const Block& b) {
  const std::int64_t in = net.net().shape(x)[1];
  TensorId y = net.net().unit(name + ".fused", x, b.expanded, FilterWindow::of({b.kernel, b.stride, b.kernel / 2}), b.activation);
  if (b.expanded != b.channels || b.expanded != in) y = net.pointwise(name + ".project", y, b.channels, Activation::None);
  return b.stride == 1 && in == b.channels ? net.net().layers().add(name + ".residual", x, y) : y;
}

struct V2Stage {
  std::int64_t times, stride, channels, blocks;
};

/// The first three stages are fused (EfficientNetV2, table 4; the larger ones as in the published code).
template <std::size_t kStages>
Graph efficientnet_v2(const V2Stage (&stages)[kStages], double dropout, const ZooValues& values) {
  constexpr std::size_t kFused = 3;
  MobileNetwork net({.epsilon = 1e-3}, values);
  TensorId x = net.stem(24, Activation::Silu);
  for (std::size_t stage = 0; stage < kStages; ++stage) {
    const V2Stage& s = stages[stage];
    for (std::int64_t b = 0; b < s.blocks; ++b) {
      const std::int64_t in = net.net().shape(x)[1];
      const Block block{3, s.times * in, s.channels, b == 0 ? s.stride : 1, Activation::Silu, std::max<std::int64_t>(1, in / 4)};
      x = stage < kFused ? fused_block(net, "fused." + std::to_string(stage) + "." + std::to_string(b), x, block) : net.block(x, block);
    }
  }
  const auto head = net.pointwise("head", x, 1280, Activation::Silu);
  return std::move(net).classified(head, dropout);
}
constexpr V2Stage kV2Small[] = {{1, 1, 24, 2}, {4, 2, 48, 4}, {4, 2, 64, 4}, {4, 2, 128, 6}, {6, 1, 160, 9}, {6, 2, 256, 15}};
constexpr V2Stage kV2Medium[] = {{1, 1, 24, 3},   {4, 2, 48, 5},   {4, 2, 80, 5}, {4, 2, 160, 7},
                                 {6, 1, 176, 14}, {6, 2, 304, 18}, {6, 1, 512, 5}};

template <std::size_t kVersion>
Graph efficientnet(const ZooValues& values) {
  constexpr WidthScale kScales[] = {{1.0, 1.0, 0.2}, {1.0, 1.1, 0.2}, {1.1, 1.2, 0.3}, {1.2, 1.4, 0.3},
                                    {1.4, 1.8, 0.4}, {1.6, 2.2, 0.4}, {1.8, 2.6, 0.5}, {2.0, 3.1, 0.5}};
  return efficientnet(kScales[kVersion], values);
}

constexpr auto k224 = image_parameters(224, 32), k240 = image_parameters(240, 32), k260 = image_parameters(260, 32),
               k300 = image_parameters(300, 32), k380 = image_parameters(380, 32), k456 = image_parameters(456, 32),
               k528 = image_parameters(528, 32), k600 = image_parameters(600, 32);
constexpr ZooRow kMobileRows[] = {
    {"mobilenet_v1", "MobileNet (Howard et al. 2017)", k224, mobilenet_v1},
    {"mobilenet_v2", "MobileNetV2 (Sandler et al. 2018)", k224, mobilenet_v2},
    {"mobilenet_v3_large", "MobileNetV3 large (Howard et al. 2019)", k224,
     [](const ZooValues& v) { return mobilenet_v3(kLarge, 1280, v); }},
    {"mobilenet_v3_small", "MobileNetV3 small (Howard et al. 2019)", k224,
     [](const ZooValues& v) { return mobilenet_v3(kSmall, 1024, v); }},
    {"efficientnet_b0", "EfficientNet-B0 (Tan, Le 2019)", k224, efficientnet<0>},
    {"efficientnet_b1", "EfficientNet-B1 (Tan, Le 2019)", k240, efficientnet<1>},
    {"efficientnet_b2", "EfficientNet-B2 (Tan, Le 2019)", k260, efficientnet<2>},
    {"efficientnet_b3", "EfficientNet-B3 (Tan, Le 2019)", k300, efficientnet<3>},
    {"efficientnet_b4", "EfficientNet-B4 (Tan, Le 2019)", k380, efficientnet<4>},
    {"efficientnet_b5", "EfficientNet-B5 (Tan, Le 2019)", k456, efficientnet<5>},
    {"efficientnet_b6", "EfficientNet-B6 (Tan, Le 2019)", k528, efficientnet<6>},
    {"efficientnet_b7", "EfficientNet-B7 (Tan, Le 2019)", k600, efficientnet<7>},
    {"efficientnet_v2_s", "EfficientNetV2-S (Tan, Le 2021)", k300, [](const ZooValues& v) { return efficientnet_v2(kV2Small, 0.2, v); }},
    {"efficientnet_v2_m", "EfficientNetV2-M (Tan, Le 2021)", k380, [](const ZooValues& v) { return efficientnet_v2(kV2Medium, 0.3, v); }},
};

}  // namespace

std::span<const ZooRow> mobile_networks() { return kMobileRows; }

}  // namespace rehearsal::graph::zoo
