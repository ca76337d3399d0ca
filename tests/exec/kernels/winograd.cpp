// Convolutions by Winograd's tiles: against the reference, and of which shapes they are.

#include <array>
#include <cmath>
#include <cstring>

#include "exec/host/cpu_backend.hpp"
#include "exec/kernels/native/levels.hpp"
#include "tests/catch.hpp"
#include "tests/exec/kernels/against_reference.hpp"

using namespace rehearsal;
using namespace rehearsal::exec;
using graph::Shape;
using plan::Format;
using Sizes = std::vector<std::int64_t>;
using Types = std::vector<std::optional<graph::TensorType>>;

namespace {

/// A convolution of `in` channels to `out`, of taps and images like these, without strides.
struct Convolution {
  std::int64_t batch, in, out;
  Sizes image, taps, pads;

  [[nodiscard]] Shape shape(std::int64_t first, std::int64_t second, const Sizes& rest) const {
    Shape s{first, second};
    s.insert(s.end(), rest.begin(), rest.end());
    return s;
  }
  [[nodiscard]] Sizes windows() const {
    Sizes w;
    for (std::size_t d = 0; d < image.size(); ++d) w.push_back(image[d] + pads[d] + pads[d + image.size()] - taps[d] + 1);
    return w;
  }
  [[nodiscard]] Shape x() const { return shape(batch, in, image); }
  [[nodiscard]] Shape w() const { return shape(out, in, taps); }
  [[nodiscard]] Shape y() const { return shape(batch, out, windows()); }
  [[nodiscard]] Case forward(bool bias) const {
    Case c{"Conv", {{"pads", pads}}, {x(), w()}};
    if (bias) c.shapes.push_back({out});
    return c;
  }
  [[nodiscard]] Case image_gradient() const { return {"ConvGradInput", {{"pads", pads}, {"shape", image}}, {y(), w()}}; }
  [[nodiscard]] Case weight_gradient() const { return {"ConvGradWeight", {{"pads", pads}, {"kernel_shape", taps}}, {x(), y()}}; }
};

std::string offered(const Case& c, int threads = 1) {
  const CpuBackend backend("onednn");
  const auto& schema = graph::op_table()[graph::op(c.op)];
  Types operands, results;
  for (const auto& s : c.shapes) operands.emplace_back(graph::TensorType{DType::F32, s});
  for (auto& type : schema.infer({operands, {}, c.attributes})) results.emplace_back(std::move(type));
  const std::vector<Format> formats(operands.size(), Format::ChannelsLast);
  return backend.offer({schema, c.attributes, operands, results, formats, threads}).implementation;
}

bool has_vectors() { return native::loops().multiply_add_bytes >= 32; }

std::vector<float> numbers(std::size_t count, float seed) {
  std::vector<float> x(count);
  for (std::size_t i = 0; i < count; ++i) x[i] = std::sin(static_cast<float>(i + 1) * seed);
  return x;
}

}  // namespace

TEST_CASE("Winograd's transforms convolve one tile, on every instruction set") {
  constexpr std::int64_t kChannels = 19;  // one whole vector of 16 and a part, or several smaller ones
  const auto image = numbers(36 * kChannels, 12.9898F), weights = numbers(9 * kChannels, 78.233F),
             gradient = numbers(16 * kChannels, 4.123F);
  for (const native::Loops* l : native::levels_here()) {
    std::vector<float> v(36 * kChannels), u(v), m(v), z(v), y(16 * kChannels), dw(9 * kChannels);
    const auto of = [](const std::vector<float>& x, std::int64_t side) {
      return native::ConstPatch{x.data(), side * kChannels, kChannels};
    };
    const auto to = [](std::vector<float>& x, std::int64_t side) { return native::Patch{x.data(), side * kChannels, kChannels}; };
    l->winograd.image(of(image, 6), to(v, 6), kChannels);
    l->winograd.weights(of(weights, 3), to(u, 6), kChannels);
    for (std::size_t i = 0; i < m.size(); ++i) m[i] = u[i] * v[i];
    l->winograd.result(of(m, 6), to(y, 4), kChannels);
    l->winograd.gradient(of(gradient, 4), to(z, 6), kChannels);
    for (std::size_t i = 0; i < z.size(); ++i) z[i] *= v[i];
    l->winograd.weight_gradient(of(z, 6), to(dw, 3), kChannels);
    const auto at = [](const std::vector<float>& x, std::int64_t side, std::int64_t row, std::int64_t column, std::int64_t c) {
      return static_cast<double>(x[static_cast<std::size_t>((row * side + column) * kChannels + c)]);
    };
    for (std::int64_t c = 0; c < kChannels; ++c) {
      for (std::int64_t i = 0; i < 16; ++i) {
        double sum = 0;
        for (std::int64_t t = 0; t < 9; ++t) sum += at(image, 6, i / 4 + t / 3, i % 4 + t % 3, c) * at(weights, 3, t / 3, t % 3, c);
        CHECK(std::fabs(at(y, 4, i / 4, i % 4, c) - sum) < 1e-5);
      }
      for (std::int64_t t = 0; t < 9; ++t) {
        double sum = 0;
        for (std::int64_t i = 0; i < 16; ++i) sum += at(image, 6, i / 4 + t / 3, i % 4 + t % 3, c) * at(gradient, 4, i / 4, i % 4, c);
        CHECK(std::fabs(at(dw, 3, t / 3, t % 3, c) - sum) < 1e-5);
      }
    }
  }
}

TEST_CASE("convolutions by Winograd's tiles agree with the reference, forward and backward") {
  const std::vector<Convolution> all = {
      {1, 16, 16, {32, 32}, {3, 3}, {1, 1, 1, 1}},               // whole tiles
      {3, 17, 24, {45, 50}, {3, 3}, {1, 1, 1, 1}},               // parts of tiles, channels of no whole vector
      {3, 16, 72, {35, 29}, {3, 3}, {0, 0, 0, 0}},               // a second panel of 8 channels
      {1, 16, 130, {39, 45}, {3, 3}, {2, 0, 0, 2}},              // other padding on every side
      {5, 96, 16, {31, 32}, {3, 3}, {1, 1, 1, 1}},               // several parts
      {1, 16, 16, {64, 150}, {3, 3}, {1, 1, 1, 1}},              // parts within one image
      {1, 16, 20, {7, 21, 22}, {3, 3, 3}, {1, 1, 1, 1, 1, 1}},   // a volume
      {2, 18, 16, {19, 16, 17}, {3, 3, 3}, {0, 1, 1, 1, 1, 0}},  // several parts along the third axis
      {2, 16, 16, {5, 16, 18}, {1, 3, 3}, {0, 1, 1, 0, 1, 1}},   // no taps along it
      {1, 16, 16, {14, 21, 21}, {4, 3, 3}, {2, 1, 1, 0, 1, 1}},
  };
  const std::string wants = has_vectors() ? "native:winograd" : "onednn:convolution";
  for (const auto& c : all)
    for (const int threads : {1, 3}) {
      INFO(c.in << " channels to " << c.out << " on " << threads << " threads");
      CHECK(compared(c.forward(false), Format::ChannelsLast, threads) == wants);
      CHECK(compared(c.forward(true), Format::Plain, threads) == wants);
      CHECK(compared(c.image_gradient(), Format::ChannelsLast, threads) == wants);
      CHECK(compared(c.weight_gradient(), Format::ChannelsLast, threads) == wants);
    }
}

TEST_CASE("tiles are right where they are not expected to be quicker, too") {
  if (!has_vectors()) return;  // without AVX2 there are none
  const std::vector<Convolution> all = {
      {2, 64, 32, {1, 1}, {3, 3}, {1, 1, 1, 1}},              // less than a tile
      {1, 16, 128, {2, 3}, {3, 3}, {1, 1, 1, 1}},             // other sides
      {3, 96, 96, {4, 4}, {3, 3}, {1, 1, 1, 1}},              // one tile
      {2, 128, 144, {7, 7}, {3, 3}, {1, 1, 1, 1}},            // few pixels
      {1, 64, 64, {2, 2, 2}, {3, 3, 3}, {1, 1, 1, 1, 1, 1}},  // a small volume
      {1, 320, 64, {4, 4, 4}, {3, 3, 3}, {1, 1, 1, 1, 1, 1}},
  };
  for (const auto& c : all)
    for (const int threads : {1, 3}) {
      INFO(c.in << " channels to " << c.out << " on " << threads << " threads");
      CHECK(offered(c.forward(false)) == "onednn:convolution");
      (void)compared(c.forward(true), Format::ChannelsLast, threads, "native:winograd");
      (void)compared(c.image_gradient(), Format::ChannelsLast, threads, "native:winograd");
      (void)compared(c.weight_gradient(), Format::ChannelsLast, threads, "native:winograd");
    }
}

TEST_CASE("results by Winograd's tiles do not depend on the number of threads") {
  if (!has_vectors()) return;  // without AVX2 there are none
  const Convolution c{6, 32, 48, {30, 31}, {3, 3}, {1, 1, 1, 1}};
  for (const Case& made : {c.forward(false), c.image_gradient(), c.weight_gradient()}) {
    INFO(made.op);
    CHECK(offered(made) == "native:winograd");
    CHECK(alike_on_threads(made, {1, 2, 5, 40}));
  }
}

TEST_CASE("Winograd's tiles are taken where they are quicker, else the taps") {
  if (!has_vectors()) return;  // without AVX2 there are none
  const Sizes one{1, 1, 1, 1};
  // ResNet-50's: 4 x 4 results of 36 products in place of 144. With 512 channels the weights' 36 x 512 x 512 numbers are more than four
  // images of 7 x 7 have to multiply; samples beyond these change nothing, so that all plans compute alike.
  for (const std::int64_t batch : {1, 8}) {
    CHECK(offered(Convolution{batch, 64, 64, {56, 56}, {3, 3}, one}.forward(false)) == "native:winograd");
    CHECK(offered(Convolution{batch, 256, 256, {14, 14}, {3, 3}, one}.weight_gradient()) == "native:winograd");
    CHECK(offered(Convolution{batch, 512, 512, {7, 7}, {3, 3}, one}.forward(false)) == "onednn:convolution");
    CHECK(offered(Convolution{batch, 64, 64, {8, 16, 16}, {3, 3, 3}, {1, 1, 1, 1, 1, 1}}.forward(false)) == "native:winograd");
    CHECK(offered(Convolution{batch, 320, 320, {4, 4, 4}, {3, 3, 3}, {1, 1, 1, 1, 1, 1}}.forward(false)) == "onednn:convolution");
  }
  CHECK(offered(Convolution{8, 3, 64, {56, 56}, {3, 3}, one}.forward(false)) == "onednn:convolution");
  CHECK(offered(Convolution{8, 64, 8, {56, 56}, {3, 3}, one}.image_gradient()) == "onednn:convolution");
  CHECK(offered(Convolution{8, 64, 64, {56, 56}, {1, 1}, {0, 0, 0, 0}}.forward(false)) == "onednn:convolution");
  CHECK(offered(Convolution{8, 64, 64, {56, 56}, {5, 5}, {2, 2, 2, 2}}.forward(false)) == "onednn:convolution");
  CHECK(offered(Convolution{8, 64, 64, {56}, {3}, {1, 1}}.forward(false)) == "onednn:convolution");
  for (const auto& [key, value] :
       std::vector<std::pair<std::string, Sizes>>{{"strides", {2, 2}}, {"strides", {1, 2}}, {"dilations", {2, 1}}}) {
    auto c = Convolution{8, 64, 64, {56, 56}, {3, 3}, one}.forward(false);
    c.attributes.set(key, value);
    CHECK(offered(c) == "onednn:convolution");
  }
  Case grouped{"Conv", {{"pads", one}, {"group", std::int64_t{2}}}, {{8, 64, 56, 56}, {64, 32, 3, 3}}};
  CHECK(offered(grouped) == "onednn:convolution");
}
