#include "tests/exec/property/layer_rows.hpp"

namespace rehearsal::property {
namespace {

using graph::zoo::FilterWindow;
using graph::zoo::Square;

bool is_image(const Shape& s, const Numbers&) { return s.size() == 4; }
std::int64_t smaller_side(const Shape& s) { return std::min(s[2], s[3]); }
bool is_large(const Shape& s, const Numbers&) { return s.size() == 4 && smaller_side(s) >= 5; }
bool is_small(const Shape& s, const Numbers&) { return s.size() == 4 && s[2] * s[3] <= 64; }
bool is_even(const Shape& s, const Numbers&) { return s.size() == 4 && s[2] % 2 == 0 && s[3] % 2 == 0 && smaller_side(s) >= 4; }
Numbers nothing(Draws&, const Shape&) { return {}; }
Numbers channels(Draws& d, const Shape&) { return {d.between(2, 9)}; }

/// channels, kernel, stride, padding, in groups, bias, dilation
Numbers draw_conv(Draws& d, const Shape&) {
  const auto kernel = d.one_of<std::int64_t>({1, 2, 3, 3, 5});
  return {d.between(2, 9), kernel,          d.one_of<std::int64_t>({1, 1, 2, 3}), d.between(0, kernel / 2),
          d.between(0, 1), d.between(0, 1), d.one_of<std::int64_t>({1, 1, 2})};
}

bool fits_conv(const Shape& s, const Numbers& n) {
  return s.size() == 4 && (n.empty() || (n[1] - 1) * n[6] + 1 <= smaller_side(s) + 2 * n[3]);
}

TensorId conv(const Site& s) {
  const auto in = s.shape()[1];
  const bool grouped = s.number(4) != 0 && in % 2 == 0;
  const auto out = grouped ? s.number(0) * 2 : s.number(0);
  auto kernel = FilterWindow::of(Square{s.number(1), s.number(2), s.number(3)}, grouped ? 2 : 1);
  std::vector<TensorId> operands{s.x, s.layers.parameter(s.at("weight"), {out, in / kernel.groups, s.number(1), s.number(1)})};
  if (s.number(5) != 0) operands.push_back(s.layers.parameter(s.at("bias"), {out}));
  return s.layers.node(s.name, "Conv", std::move(operands),
                       {{"kernel_shape", kernel.size},
                        {"strides", kernel.stride},
                        {"pads", Shape(4, s.number(3))},
                        {"dilations", Shape(2, s.number(6))},
                        {"group", kernel.groups}});
}

Numbers draw_pool(Draws& d, const Shape&) {
  const auto kernel = d.between(2, 3);
  return {kernel, d.between(1, kernel), d.between(0, kernel - 2)};
}
Square window(const Site& s) { return {s.number(0), s.number(1), s.number(2)}; }

TensorId residual_block(const Site& s) {
  auto& l = s.layers;
  auto y = l.relu(s.at("relu1"), l.batch_norm(s.at("bn1"), l.conv(s.at("conv1"), s.x, s.number(0), Square{}, false)));
  y = l.batch_norm(s.at("bn2"), l.conv(s.at("conv2"), y, s.shape()[1], Square{}, false));
  return l.relu(s.at("relu2"), l.add(s.at("sum"), y, s.x));
}

/// Channels weighed by what the whole image says (Hu et al., "Squeeze-and-Excitation Networks", 2018).
TensorId excited(const Site& s) {
  auto& l = s.layers;
  const auto inner =
      l.relu(s.at("relu"), l.conv(s.at("reduce"), l.global_average(s.at("average"), s.x, true), s.number(0), {1, 1, 0}, true));
  const auto weight = l.node(s.at("sigmoid"), "Sigmoid", {l.conv(s.at("expand"), inner, s.shape()[1], {1, 1, 0}, true)});
  return l.multiply(s.at("weighed"), s.x, weight);
}

/// One level of a U-Net.
TensorId level(const Site& s) {
  auto& l = s.layers;
  const auto down = l.relu(s.at("relu"), l.conv(s.at("down"), l.max_pool(s.at("pool"), s.x, {2, 2, 0}), s.number(0), Square{}, true));
  const auto up = l.conv_transpose(s.at("up"), down, s.number(0), Square{2, 2, 0});
  return l.concat(s.at("joined"), {s.x, up});
}

TensorId resized(const Site& s) {
  static const std::vector<std::string> kModes{"nearest", "linear"};
  return s.layers.node(s.name, "Resize", {s.x},
                       {{"sizes", Shape{s.shape()[2] * 2 - s.number(1), s.shape()[3] + s.number(2)}},
                        {"mode", kModes[static_cast<std::size_t>(s.number(0))]}});
}

/// Channels shuffled among groups (Zhang et al., "ShuffleNet", 2018).
TensorId shuffled(const Site& s) {
  auto& l = s.layers;
  const auto x = s.shape();
  const auto apart = l.reshape(s.at("apart"), s.x, {x[0], 2, x[1] / 2, x[2], x[3]});
  return l.reshape(s.at("joined"), l.transpose(s.at("turned"), apart, {0, 2, 1, 3, 4}), x);
}

/// Squares of an image as a sequence.
TensorId patches(const Site& s) {
  auto& l = s.layers;
  const auto y = l.conv(s.at("patch"), s.x, s.number(0), {2, 2, 0}, true);
  const auto shape = l.shape(y);
  return l.transpose(s.at("turned"), l.reshape(s.at("folded"), y, {shape[0], shape[1], shape[2] * shape[3]}), {0, 2, 1});
}

TensorId padded(const Site& s) {
  return s.layers.node(
      s.name, "Pad", {s.x},
      {{"pads", Shape{s.number(0), s.number(1), s.number(2), s.number(3)}}, {"mode", std::string("constant")}, {"value", 0.5}});
}

constexpr LayerRow kRows[] = {
    {"conv", fits_conv, draw_conv, conv},
    {"batchnorm", is_image, nothing, [](const Site& s) { return s.layers.batch_norm(s.name, s.x); }},
    {"groupnorm", is_image, nothing,
     [](const Site& s) { return s.layers.group_norm(s.name, s.x, s.shape()[1] % 2 == 0 ? 2 : s.shape()[1]); }},
    {"maxpool", is_large, draw_pool, [](const Site& s) { return s.layers.max_pool(s.name, s.x, window(s)); }},
    {"avgpool", is_large,
     [](Draws& d, const Shape& x) {
       auto n = draw_pool(d, x);
       n.push_back(d.between(0, 1));
       return n;
     },
     [](const Site& s) { return s.layers.average_pool(s.name, s.x, window(s), s.number(3) != 0); }},
    {"block", is_image, channels, residual_block},
    {"depthwise", is_image, nothing,
     [](const Site& s) { return s.layers.conv(s.name, s.x, s.shape()[1], FilterWindow::of(Square{}, s.shape()[1]), true); }},
    {"excite", is_image, [](Draws& d, const Shape&) { return Numbers{d.between(1, 4)}; }, excited},
    {"level", is_even, channels, level},
    {"up", is_small, channels,
     [](const Site& s) {
       return s.layers.conv_transpose(s.name, s.x, s.number(0), Square{2, 2, 0});
     }},
    {"up3", is_small, channels,
     [](const Site& s) {
       return s.layers.conv_transpose(s.name, s.x, s.number(0), Square{3, 2, 1});
     }},
    {"resize", is_small,
     [](Draws& d, const Shape&) {
       return Numbers{d.between(0, 1), d.between(0, 1), d.between(0, 3)};
     },
     resized},
    {"grow", is_image, channels,
     [](const Site& s) {
       return s.layers.concat(s.name, {s.x, s.layers.relu(s.at("relu"), s.layers.conv(s.at("conv"), s.x, s.number(0), Square{}, true))});
     }},
    {"shuffle", [](const Shape& x, const Numbers&) { return x.size() == 4 && x[1] % 2 == 0; }, nothing, shuffled},
    {"window", is_large, nothing,
     [](const Site& s) {
       return sliced(s.layers, s.name, s.x, 2, {1, s.shape()[2] - 1});
     }},
    {"pad", is_image,
     [](Draws& d, const Shape&) {
       return Numbers{d.between(0, 2), d.between(0, 2), d.between(0, 2), d.between(0, 2)};
     },
     padded},
    {"average", is_image, nothing, [](const Site& s) { return s.layers.global_average(s.name, s.x); }},
    {"flatten", is_image, nothing, [](const Site& s) { return s.layers.flatten(s.name, s.x); }},
    {"patches", is_even, channels, patches},
};

}  // namespace

std::span<const LayerRow> image_layers() { return kRows; }

}  // namespace rehearsal::property
