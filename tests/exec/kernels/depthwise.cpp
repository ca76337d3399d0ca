// Gradients of the weights of depthwise convolutions: against the reference, and of which windows they are.

#include "exec/host/cpu_backend.hpp"
#include "exec/kernels/native/levels.hpp"
#include "graph/ops/window.hpp"
#include "tests/catch.hpp"
#include "tests/exec/kernels/against_reference.hpp"

using namespace rehearsal;
using namespace rehearsal::exec;
using plan::Format;
using Sizes = std::vector<std::int64_t>;

namespace {

constexpr const char* kOwn = "native:depthwise";

/// A window over images of so many channels.
struct Window {
  Sizes taps, pads, strides = {}, dilations = {};
};

Case gradient(std::int64_t batch, std::int64_t channels, const Sizes& image, const Window& w) {
  Case c{"ConvGradWeight", {{"kernel_shape", w.taps}, {"pads", w.pads}, {"group", channels}}, {{batch, channels}, {batch, channels}}};
  if (!w.strides.empty()) c.attributes.set("strides", w.strides);
  if (!w.dilations.empty()) c.attributes.set("dilations", w.dilations);
  c.shapes[0].insert(c.shapes[0].end(), image.begin(), image.end());
  for (const auto size : graph::windows_in(image, graph::window_of(c.attributes, w.taps))) c.shapes[1].push_back(size);
  return c;
}

/// What runs it, and why nothing before that does.
plan::KernelOffer offered(const Case& c, DType type = DType::F32) {
  const auto& schema = graph::op_table()[graph::op(c.op)];
  std::vector<std::optional<graph::TensorType>> operands, results;
  for (const auto& s : c.shapes) operands.emplace_back(graph::TensorType{type, s});
  for (auto& t : schema.infer({operands, {}, c.attributes})) results.emplace_back(std::move(t));
  const std::vector<Format> formats(operands.size(), Format::ChannelsLast);
  return CpuBackend("onednn").offer({schema, c.attributes, operands, results, formats, 1});
}

const Window kFive{{5, 5}, {2, 2, 2, 2}}, kSeven{{7, 7}, {3, 3, 3, 3}}, kThree{{3, 3}, {1, 1, 1, 1}};

}  // namespace

TEST_CASE("sums of taps are of each channel, on every instruction set") {
  constexpr auto kChannels = native::kDepthwiseChannels;
  // Two rows of three pixels, which are 1 2 3 and 4 5 6 in channel 0 and so much more in channel c; every gradient is 1, 10, 100 of a row.
  for (const native::Loops* l : native::levels_here()) {
    std::vector<float> x(8 * kChannels), dy(6 * kChannels), sums(2 * kChannels, 1000.0F);
    for (std::int64_t c = 0; c < kChannels; ++c) {
      for (std::int64_t p = 0; p < 8; ++p) x[p * kChannels + c] = p % 4 == 3 ? 0.0F : static_cast<float>(p / 4 * 3 + p % 4 + 1 + c);
      for (std::int64_t p = 0; p < 6; ++p) dy[p * kChannels + c] = p % 3 == 0 ? 1.0F : p % 3 == 1 ? 10.0F : 100.0F;
    }
    l->depthwise.sums({2, 3, 4 * kChannels, kChannels, 3 * kChannels, kChannels}, 2, x.data(), dy.data(), sums.data());
    for (std::int64_t c = 0; c < kChannels; ++c) {
      INFO("channel " << c);
      const auto more = static_cast<float>(c);
      CHECK(sums[c] == 1000 + 321 + 654 + 222 * more);           // 1 + 20 + 300, 4 + 50 + 600, and 111 a row
      CHECK(sums[kChannels + c] == 1000 + 32 + 65 + 22 * more);  // 2 + 30 + 0, 5 + 60 + 0, and 11 a row
    }
    const std::vector<native::Bf16> half{{0x3F80}, {0x4000}, {0x4040}, {0x4080}};  // 1 2 3 4
    l->depthwise.take_bf16({2, 2, 1}, half.data(), x.data());                      // of two channels a pixel the first
    CHECK(x[0] == 1);
    CHECK(x[1] == 0);
    CHECK(x[kChannels] == 3);
  }
}

TEST_CASE("gradients of depthwise weights agree with the reference in every type") {
  const std::vector<Case> all = {
      gradient(2, 16, {14, 14}, kFive),
      gradient(3, 17, {9, 12}, kSeven),  // channels of no whole block
      gradient(2, 3, {20, 21}, {{5, 5}, {0, 1, 2, 3}}),
      gradient(1, 40, {75, 40}, kFive),                               // several bands of rows, and sums of them
      gradient(2, 24, {15, 16}, {{5, 5}, {2, 2, 2, 2}, {2, 3}}),      // strides
      gradient(2, 20, {17, 16}, {{3, 3}, {2, 1, 2, 1}, {}, {2, 3}}),  // dilations
      gradient(2, 16, {13, 14}, {{3, 4}, {3, 3, 3, 3}, {2, 1}, {1, 2}}),
      gradient(2, 18, {3, 2}, kSeven),                              // more padding than pixels
      gradient(1, 16, {12, 30}, {{2, 9}, {0, 4, 0, 4}}),            // more taps than stay in registers
      gradient(2, 33, {50}, {{4}, {3, 0}}),                         // sequences, looking back
      gradient(2, 18, {6, 7, 8}, {{3, 5, 3}, {1, 2, 1, 1, 2, 1}}),  // volumes
      gradient(1, 16, {7, 6, 5}, {{2, 2, 2}, {0, 1, 0, 1, 0, 1}, {2, 1, 2}}),
  };
  for (const auto& c : all)
    for (const int threads : {1, 3}) {
      check(c, Format::ChannelsLast, kOwn, threads);
      CHECK(compared(c, Format::Plain, threads) == kOwn);
    }
  // Where oneDNN is expected to be quicker, too.
  CHECK(compared(gradient(2, 19, {12, 13}, kThree), Format::ChannelsLast, 2, kOwn) == kOwn);
  CHECK(compared(gradient(2, 32, {12, 13}, {{3, 3}, {1, 1, 1, 1}, {2, 2}}), Format::ChannelsLast, 1, kOwn) == kOwn);
}

TEST_CASE("gradients of depthwise weights do not depend on the number of threads") {
  for (const auto& c : {gradient(5, 40, {30, 31}, kSeven), gradient(2, 400, {8, 8}, kFive)})
    for (const auto& typed : {c, in_type(c, DType::BF16)}) CHECK(alike_on_threads(typed, {1, 2, 5, 40}));
}

TEST_CASE("gradients of depthwise weights are ours where oneDNN has no kernel of its own for them") {
  CHECK(offered(gradient(2, 96, {14, 14}, kSeven)).implementation == kOwn);
  CHECK(offered(gradient(2, 96, {14, 14}, kFive), DType::F16).implementation == kOwn);
  CHECK(offered(gradient(2, 96, {14, 14}, {{3, 5}, {1, 2, 1, 2}})).implementation == kOwn);
  CHECK(offered(gradient(2, 96, {14, 14}, {{3, 3}, {2, 2, 2, 2}})).implementation == kOwn);  // beyond half a window
  CHECK(offered(gradient(2, 96, {14}, {{3}, {1, 1}})).implementation == kOwn);
  const auto small = offered(gradient(2, 96, {14, 14}, kThree));
  CHECK(small.implementation == "onednn:convolution");
  CHECK(small.why.ends_with("native:depthwise: oneDNN is expected to be quicker at windows of 3 columns or fewer"));
  CHECK(offered(gradient(2, 96, {14, 14}, kThree), DType::F16).implementation == "widened:onednn:convolution");
  // Not depthwise: two channels a group, two results a channel, one channel. Nobody asks why.
  for (const auto& [x, w] : {std::pair<std::int64_t, std::int64_t>{8, 2}, {4, 1}, {1, 1}}) {
    auto c = gradient(2, x, {14, 14}, kFive);
    c.attributes.set("group", x / w);
    if (x == 4) c.shapes[1][1] = 8;
    const auto offer = offered(c);
    CHECK(offer.implementation == "onednn:convolution");
    CHECK(offer.why.find("depthwise") == std::string::npos);
  }
}
