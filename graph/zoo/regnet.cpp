// Radosavovic et al., "Designing Network Design Spaces", CVPR 2020: RegNetX and, with squeeze and excitation, RegNetY. Widths follow from
// equations 2 to 4; the parameters of each are those of tables 10 and 11.

#include <algorithm>
#include <cmath>

#include "graph/zoo/image_network.hpp"

namespace rehearsal::graph::zoo {
namespace {

struct Design {
  std::int64_t depth;
  double initial, slope, multiplier;
  std::int64_t group_width;
  bool squeezed;
};

/// Channels of every block: quantised to powers of the multiplier, to 8, and to whole groups; halves go to the even number.
std::vector<std::int64_t> widths_of(const Design& d) {
  std::vector<std::int64_t> widths;
  for (std::int64_t j = 0; j < d.depth; ++j) {
    const double step = std::round(std::log((d.initial + d.slope * static_cast<double>(j)) / d.initial) / std::log(d.multiplier));
    const auto width = static_cast<std::int64_t>(std::nearbyint(d.initial * std::pow(d.multiplier, step) / 8)) * 8;
    const std::int64_t group = std::min(d.group_width, width);
    widths.push_back(static_cast<std::int64_t>(std::nearbyint(static_cast<double>(width) / static_cast<double>(group))) * group);
  }
  return widths;
}

class RegNet {
 public:
  RegNet(const Design& design, const ZooValues& values) : design_(design), values_(values) {}

  Graph build() && {
    TensorId x = net_.unit("stem", net_.layers().image(values_.at("batch"), 3, values_.at("image")), 32, {3, 2, 1});
    const auto widths = widths_of(design_);
    for (std::size_t b = 0; b < widths.size(); ++b) x = block(x, widths[b], b == 0 || widths[b] != widths[b - 1]);
    return std::move(net_).classified(x, "fc", values_.at("classes"));
  }

 private:
  TensorId block(TensorId x, std::int64_t width, bool first) {
    const std::string name = "block" + std::to_string(blocks_++);
    const std::int64_t in = net_.shape(x)[1], stride = first ? 2 : 1, group = std::min(design_.group_width, width);
    TensorId y = net_.unit(name + ".a", x, width, {1, 1, 0});
    y = net_.unit(name + ".b", y, width, FilterWindow::of({3, stride, 1}, width / group), Activation::Relu);
    if (design_.squeezed) y = net_.squeezed(name + ".se", y, {in / 4});
    y = net_.unit(name + ".c", y, width, FilterWindow::of({1, 1, 0}), Activation::None);
    const TensorId shortcut = first ? net_.unit(name + ".proj", x, width, FilterWindow::of({1, stride, 0}), Activation::None) : x;
    return net_.layers().relu(name + ".relu", net_.layers().add(name + ".sum", y, shortcut));
  }

  Design design_;
  const ZooValues& values_;
  ImageNetwork net_;
  int blocks_ = 0;
};

template <int kDesign>
Graph regnet(const ZooValues& values) {
  constexpr Design kDesigns[] = {
      {16, 56, 35.73, 2.28, 16, false}, {18, 80, 34.01, 2.25, 24, false},   {25, 88, 26.31, 2.25, 48, false},
      {23, 96, 38.65, 2.43, 40, false}, {23, 80, 49.56, 2.88, 120, false},  {22, 216, 55.59, 2.1, 128, false},
      {27, 48, 20.71, 2.65, 24, true},  {21, 80, 42.63, 2.66, 24, true},    {22, 96, 31.41, 2.24, 64, true},
      {17, 192, 76.82, 2.19, 56, true}, {18, 200, 106.23, 2.48, 112, true}, {20, 232, 115.89, 2.53, 232, true},
  };
  return RegNet(kDesigns[kDesign], values).build();
}

constexpr auto kRegnetParameters = image_parameters(224, 32);
constexpr ZooRow kRegnetRows[] = {
    {"regnetx_008", "RegNetX-800MF (Radosavovic et al. 2020)", kRegnetParameters, regnet<0>},
    {"regnetx_016", "RegNetX-1.6GF (Radosavovic et al. 2020)", kRegnetParameters, regnet<1>},
    {"regnetx_032", "RegNetX-3.2GF (Radosavovic et al. 2020)", kRegnetParameters, regnet<2>},
    {"regnetx_040", "RegNetX-4.0GF (Radosavovic et al. 2020)", kRegnetParameters, regnet<3>},
    {"regnetx_080", "RegNetX-8.0GF (Radosavovic et al. 2020)", kRegnetParameters, regnet<4>},
    {"regnetx_160", "RegNetX-16GF (Radosavovic et al. 2020)", kRegnetParameters, regnet<5>},
    {"regnety_016", "RegNetY-1.6GF (Radosavovic et al. 2020)", kRegnetParameters, regnet<6>},
    {"regnety_032", "RegNetY-3.2GF (Radosavovic et al. 2020)", kRegnetParameters, regnet<7>},
    {"regnety_040", "RegNetY-4.0GF (Radosavovic et al. 2020)", kRegnetParameters, regnet<8>},
    {"regnety_080", "RegNetY-8.0GF (Radosavovic et al. 2020)", kRegnetParameters, regnet<9>},
    {"regnety_160", "RegNetY-16GF (Radosavovic et al. 2020)", kRegnetParameters, regnet<10>},
    {"regnety_320", "RegNetY-32GF (Radosavovic et al. 2020)", kRegnetParameters, regnet<11>},
};

}  // namespace

std::span<const ZooRow> regular_networks() { return kRegnetRows; }

}  // namespace rehearsal::graph::zoo
