// Szegedy et al., "Rethinking the Inception Architecture for Computer Vision", CVPR 2016 (v3 as torchvision has it, without the auxiliary
// classifier), and Szegedy et al., "Inception-v4, Inception-ResNet and the Impact of Residual Connections", AAAI 2017, figures 3 to 9.

#include "graph/zoo/image_network.hpp"

namespace rehearsal::graph::zoo {
namespace {

/// One convolution of a branch; `stride` 2 has no padding, as have the 3x3 of the stems.
struct InceptionStep {
  std::int64_t channels, height, width, stride = 1;
  bool padded = true;
};

class Inception {
 public:
  explicit Inception(const ZooValues& values) : values_(values), net_({.epsilon = 1e-3}) {}

  Graph version3() && {
    TensorId x = net_.layers().image(values_.at("batch"), 3, values_.at("image"));
    x = branch("stem.a", x, {{32, 3, 3, 2, false}, {32, 3, 3, 1, false}, {64, 3, 3}});
    x = branch("stem.b", max_pool("stem.pool_a", x), {{80, 1, 1}, {192, 3, 3, 1, false}});
    x = max_pool("stem.pool_b", x);
    for (const std::int64_t pooled : {32, 64, 64}) x = version3_a(next("a"), x, pooled);
    x = version3_reduction(next("b"), x, {{384, 3, 3, 2, false}}, {{64, 1, 1}, {96, 3, 3}, {96, 3, 3, 2, false}});
    for (const std::int64_t c : {128, 160, 160, 192}) x = version3_c(next("c"), x, c);
    x = version3_reduction(next("d"), x, {{192, 1, 1}, {320, 3, 3, 2, false}},
                           {{192, 1, 1}, {192, 1, 7}, {192, 7, 1}, {192, 3, 3, 2, false}});
    for (int i = 0; i < 2; ++i) x = version3_e(next("e"), x);
    return std::move(net_).classified(x, "fc", values_.at("classes"), 0.5);
  }

  Graph version4() && {
    TensorId x = version4_stem(net_.layers().image(values_.at("batch"), 3, values_.at("image")));
    for (int i = 0; i < 4; ++i) x = version4_a(next("a"), x);
    x = version3_reduction(next("reduction"), x, {{384, 3, 3, 2, false}}, {{192, 1, 1}, {224, 3, 3}, {256, 3, 3, 2, false}});
    for (int i = 0; i < 7; ++i) x = version4_b(next("b"), x);
    x = version3_reduction(next("reduction"), x, {{192, 1, 1}, {192, 3, 3, 2, false}},
                           {{256, 1, 1}, {256, 1, 7}, {320, 7, 1}, {320, 3, 3, 2, false}});
    for (int i = 0; i < 3; ++i) x = version4_c(next("c"), x);
    return std::move(net_).classified(x, "fc", values_.at("classes"), 0.2);
  }

 private:
  std::string next(const std::string& kind) { return "mixed" + std::to_string(++modules_) + kind; }
  TensorId max_pool(const std::string& name, TensorId x) { return net_.layers().max_pool(name, x, {3, 2, 0}); }
  TensorId concat(const std::string& name, std::vector<TensorId> parts) { return net_.layers().concat(name, std::move(parts)); }

  TensorId branch(const std::string& name, TensorId x, const std::vector<InceptionStep>& steps) {
    int number = 0;
    for (const InceptionStep& s : steps) {
      const Shape pad = s.padded ? Shape{s.height / 2, s.width / 2} : Shape{0, 0};
      x = net_.unit(name + "." + std::to_string(++number), x, s.channels, {{s.height, s.width}, {s.stride, s.stride}, pad},
                    Activation::Relu);
    }
    return x;
  }
  TensorId pooled(const std::string& name, TensorId x, std::int64_t channels) {
    return branch(name, net_.layers().average_pool(name + ".pool", x, {3, 1, 1}), {{channels, 1, 1}});
  }
  /// 1x3 and 3x1 beside each other.
  TensorId forked(const std::string& name, TensorId x, std::int64_t channels) {
    return concat(name, {branch(name + ".wide", x, {{channels, 1, 3}}), branch(name + ".high", x, {{channels, 3, 1}})});
  }

  TensorId version3_a(const std::string& name, TensorId x, std::int64_t channels) {
    return concat(name, {branch(name + ".1x1", x, {{64, 1, 1}}), branch(name + ".5x5", x, {{48, 1, 1}, {64, 5, 5}}),
                         branch(name + ".3x3", x, {{64, 1, 1}, {96, 3, 3}, {96, 3, 3}}), pooled(name + ".pooled", x, channels)});
  }
  TensorId version3_c(const std::string& name, TensorId x, std::int64_t c) {
    return concat(
        name, {branch(name + ".1x1", x, {{192, 1, 1}}), branch(name + ".7x7", x, {{c, 1, 1}, {c, 1, 7}, {192, 7, 1}}),
               branch(name + ".twice", x, {{c, 1, 1}, {c, 7, 1}, {c, 1, 7}, {c, 7, 1}, {192, 1, 7}}), pooled(name + ".pooled", x, 192)});
  }
  TensorId version3_e(const std::string& name, TensorId x) {
    return concat(
        name, {branch(name + ".1x1", x, {{320, 1, 1}}), forked(name + ".fork", branch(name + ".3x3", x, {{384, 1, 1}}), 384),
               forked(name + ".fork_2", branch(name + ".twice", x, {{448, 1, 1}, {384, 3, 3}}), 384), pooled(name + ".pooled", x, 192)});
  }
  /// Two branches and a pooling that halve the image.
  TensorId version3_reduction(const std::string& name, TensorId x, const std::vector<InceptionStep>& one,
                              const std::vector<InceptionStep>& two) {
    return concat(name, {branch(name + ".one", x, one), branch(name + ".two", x, two), max_pool(name + ".pool", x)});
  }

  TensorId version4_stem(TensorId x) {
    x = branch("stem.a", x, {{32, 3, 3, 2, false}, {32, 3, 3, 1, false}, {64, 3, 3}});
    x = concat("stem.b", {max_pool("stem.b.pool", x), branch("stem.b.conv", x, {{96, 3, 3, 2, false}})});
    x = concat("stem.c", {branch("stem.c.one", x, {{64, 1, 1}, {96, 3, 3, 1, false}}),
                          branch("stem.c.two", x, {{64, 1, 1}, {64, 1, 7}, {64, 7, 1}, {96, 3, 3, 1, false}})});
    return concat("stem.d", {branch("stem.d.conv", x, {{192, 3, 3, 2, false}}), max_pool("stem.d.pool", x)});
  }
  TensorId version4_a(const std::string& name, TensorId x) {
    return concat(name, {branch(name + ".1x1", x, {{96, 1, 1}}), branch(name + ".3x3", x, {{64, 1, 1}, {96, 3, 3}}),
                         branch(name + ".twice", x, {{64, 1, 1}, {96, 3, 3}, {96, 3, 3}}), pooled(name + ".pooled", x, 96)});
  }
  TensorId version4_b(const std::string& name, TensorId x) {
    return concat(name, {branch(name + ".1x1", x, {{384, 1, 1}}), branch(name + ".7x7", x, {{192, 1, 1}, {224, 1, 7}, {256, 7, 1}}),
                         branch(name + ".twice", x, {{192, 1, 1}, {192, 7, 1}, {224, 1, 7}, {224, 7, 1}, {256, 1, 7}}),
                         pooled(name + ".pooled", x, 128)});
  }
  TensorId version4_c(const std::string& name, TensorId x) {
    return concat(name, {branch(name + ".1x1", x, {{256, 1, 1}}), forked(name + ".fork", branch(name + ".one", x, {{384, 1, 1}}), 256),
                         forked(name + ".fork_2", branch(name + ".two", x, {{384, 1, 1}, {448, 3, 1}, {512, 1, 3}}), 256),
                         pooled(name + ".pooled", x, 256)});
  }

  const ZooValues& values_;
  ImageNetwork net_;
  int modules_ = 0;
};

constexpr auto kInceptionParameters = image_parameters(299, 75);
constexpr ZooRow kInceptionRows[] = {
    {"inception_v3", "Inception v3 (Szegedy et al. 2016) without the auxiliary classifier", kInceptionParameters,
     [](const ZooValues& v) { return Inception(v).version3(); }},
    {"inception_v4", "Inception v4 (Szegedy et al. 2017)", kInceptionParameters,
     [](const ZooValues& v) { return Inception(v).version4(); }},
};

}  // namespace

std::span<const ZooRow> inceptions() { return kInceptionRows; }

}  // namespace rehearsal::graph::zoo
