// Zoph et al., "Learning Transferable Architectures for Scalable Image Recognition", CVPR 2018: NASNet-A, figure 4 and appendix A.

#include "graph/zoo/cells.hpp"

namespace rehearsal::graph::zoo {
namespace {

/// N @ filters of the last cell, and channels of the stem.
struct NasnetSize {
  std::int64_t repeats, filters, stem;
};

class NasNet {
 public:
  NasNet(const NasnetSize& size, const ZooValues& values) : size_(size), values_(values) {}

  Graph build() && {
    const std::int64_t channels = size_.filters / 24;
    TensorId x = net_.net().unit("conv0", net_.layers().image(values_.at("batch"), 3, values_.at("image")), size_.stem,
                                 FilterWindow::of({3, 2, 0}), Activation::None);
    const TensorId first = x;
    x = reduction("stem.0", x, TensorId::None, channels / 4);
    TensorId before = x;
    x = reduction("stem.1", x, net_.factorized_reduction("stem.1.prev", first, channels / 2), channels / 2);
    for (int stage = 0; stage < 3; ++stage) {
      const std::int64_t width = channels << stage;
      for (std::int64_t i = 0; i < size_.repeats; ++i) {
        const std::string name = "cell" + std::to_string(stage) + "." + std::to_string(i);
        // Behind a reduction the cell before is twice as large; it gets as many channels, as in the published code.
        const TensorId left =
            i == 0 ? net_.factorized_reduction(name + ".prev", before, width) : net_.pointwise(name + ".prev", before, width);
        before = x;
        x = normal(name, x, left, width);
      }
      if (stage == 2) break;
      const std::string name = "reduction" + std::to_string(stage);
      const TensorId left = net_.pointwise(name + ".prev", before, 2 * width);
      before = x;
      x = reduction(name, x, left, 2 * width);
    }
    return std::move(net_.net()).classified(net_.layers().relu("relu", x), "last_linear", values_.at("classes"));
  }

 private:
  /// Depthwise and pointwise convolution twice.
  TensorId separable(const std::string& name, TensorId x, std::int64_t channels, Square window) {
    const std::int64_t in = net_.channels(x), middle = window.stride == 2 && in != channels ? channels : in;
    TensorId y = once(name + ".1", x, middle, window);
    return once(name + ".2", y, channels, {window.kernel, 1, window.pad});
  }
  TensorId once(const std::string& name, TensorId x, std::int64_t channels, Square window) {
    auto& layers = net_.layers();
    const TensorId deep = layers.conv(name + ".depthwise", layers.relu(name + ".relu", x), net_.channels(x),
                                      FilterWindow::of(window, net_.channels(x)), false);
    return net_.net().unit(name, deep, channels, FilterWindow::of({1, 1, 0}), Activation::None);
  }
  TensorId five(const std::string& n, TensorId x, std::int64_t c, std::int64_t stride) { return separable(n, x, c, {5, stride, 2}); }
  TensorId three(const std::string& n, TensorId x, std::int64_t c, std::int64_t stride) { return separable(n, x, c, {3, stride, 1}); }
  TensorId seven(const std::string& n, TensorId x, std::int64_t c, std::int64_t stride) { return separable(n, x, c, {7, stride, 3}); }

  TensorId normal(const std::string& name, TensorId x, TensorId left, std::int64_t c) {
    auto& l = net_.layers();
    const TensorId right = net_.pointwise(name + ".input", x, c);
    return l.concat(name, {left, l.add(name + ".0", five(name + ".0a", right, c, 1), three(name + ".0b", left, c, 1)),
                           l.add(name + ".1", five(name + ".1a", left, c, 1), three(name + ".1b", left, c, 1)),
                           l.add(name + ".2", net_.average(name + ".2a", right, 1), left),
                           l.add(name + ".3", net_.average(name + ".3a", left, 1), net_.average(name + ".3b", left, 1)),
                           l.add(name + ".4", three(name + ".4a", right, c, 1), right)});
  }

  /// `left` None: the first cell, whose two inputs are the same.
  TensorId reduction(const std::string& name, TensorId x, TensorId left, std::int64_t c) {
    auto& l = net_.layers();
    const TensorId right = net_.pointwise(name + ".input", x, c), other = left == TensorId::None ? x : left;
    const TensorId first = l.add(name + ".0", five(name + ".0a", right, c, 2), seven(name + ".0b", other, c, 2));
    const TensorId second = l.add(name + ".1", net_.maximum(name + ".1a", right, 2), seven(name + ".1b", other, c, 2));
    return l.concat(name, {second, l.add(name + ".2", net_.average(name + ".2a", right, 2), five(name + ".2b", other, c, 2)),
                           l.add(name + ".3", net_.average(name + ".3a", first, 1), second),
                           l.add(name + ".4", three(name + ".4a", first, c, 1), net_.maximum(name + ".4b", right, 2))});
  }

  NasnetSize size_;
  const ZooValues& values_;
  CellNetwork net_{1e-3};
};

template <NasnetSize kSize>
Graph nasnet(const ZooValues& values) {
  return NasNet(kSize, values).build();
}

constexpr auto kNasnetMobile = image_parameters(224, 32), kNasnetLarge = image_parameters(331, 32);
constexpr ZooRow kNasnetRows[] = {
    {"nasnet_mobile", "NASNet-A 4 @ 1056 (Zoph et al. 2018)", kNasnetMobile, nasnet<NasnetSize{4, 1056, 32}>},
    {"nasnet_large", "NASNet-A 6 @ 4032 (Zoph et al. 2018)", kNasnetLarge, nasnet<NasnetSize{6, 4032, 96}>},
};

}  // namespace

std::span<const ZooRow> searched_networks() { return kNasnetRows; }

}  // namespace rehearsal::graph::zoo
