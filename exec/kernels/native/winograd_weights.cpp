#include "exec/kernels/native/winograd_weights.hpp"

#include <algorithm>
#include <vector>

#include "exec/kernels/native/native.hpp"

namespace rehearsal::exec::native {
namespace {

/// Taps that are exchanged with channels at once; with a panel of channels they fill a first-level cache.
constexpr std::int64_t kTapsAtOnce = graph::kMostTiledTaps * TiledConvolution::kTaps;

/// Rows of taps with a panel of channels each, and back.
struct TapsRoom {
  std::vector<float> numbers = std::vector<float>(static_cast<std::size_t>(kTapsAtOnce * kWinogradPanel));
  [[nodiscard]] std::uint32_t* words() { return reinterpret_cast<std::uint32_t*>(numbers.data()); }
  [[nodiscard]] Patch taps(std::int64_t number) {
    return {numbers.data() + number * TiledConvolution::kTaps * kWinogradPanel, 3 * kWinogradPanel, kWinogradPanel};
  }
  /// The same from the last to the first.
  [[nodiscard]] ConstPatch turned(std::int64_t number) const {
    return {numbers.data() + (number * TiledConvolution::kTaps + TiledConvolution::kTaps - 1) * kWinogradPanel, -3 * kWinogradPanel,
            -kWinogradPanel};
  }
};

const std::uint32_t* words(const float* x) { return reinterpret_cast<const std::uint32_t*>(x); }

ConstPatch as_const(const Patch& p) { return {p.first, p.row, p.column}; }

/// Where the numbers of the weights begin that belong to a panel, an inner number and the first point.
Patch weights_at(const TiledConvolution& s, float* weights, const WinogradPanel& panel, std::int64_t inner) {
  const std::int64_t point = s.weights_of_point();
  return {weights + panel.first * s.inner() + inner * panel.width, TiledConvolution::kPatch * point, point};
}

/// A panel's numbers of all points, from the first of each sum on.
void add_up(const TiledConvolution& s, const WinogradSums& from, std::int64_t first, std::int64_t width, std::vector<float>& to) {
  for (std::int64_t p = 0; p < TiledConvolution::kPoints; ++p) {
    float* numbers = to.data() + p * kWinogradPanel;
    std::copy_n(from.first + p * s.weights_of_point() + first, width, numbers);
    for (std::int64_t i = 1; i < from.count; ++i)
      loops().f32.add(numbers, from.first + i * s.weight_numbers() + p * s.weights_of_point() + first, width);
  }
}

}  // namespace

WinogradPanel panel_of(const TiledConvolution& s, std::int64_t number) {
  const std::int64_t first = number * kWinogradPanel;
  return {first, std::min(kWinogradPanel, s.out - first), std::min(kWinogradPanel, s.padded_out() - first)};
}

std::int64_t panels_of(const TiledConvolution& s) { return (s.out + kWinogradPanel - 1) / kWinogradPanel; }

void take_winograd_weights(const TiledConvolution& s, int threads, const float* w, float* to) {
  const std::int64_t of_channel = s.taps * TiledConvolution::kTaps, at_once = std::max<std::int64_t>(1, kTapsAtOnce / of_channel);
  const std::int64_t blocks = (s.in + at_once - 1) / at_once;
  parallel_ranges(threads, panels_of(s) * blocks, 1, [&](std::int64_t first, std::int64_t last) {
    TapsRoom room;
    for (std::int64_t item = first; item < last; ++item) {
      const WinogradPanel panel = panel_of(s, item / blocks);
      const std::int64_t channel = item % blocks * at_once, channels = std::min(at_once, s.in - channel);
      loops().transpose32(words(w + (panel.first * s.in + channel) * of_channel), s.in * of_channel, room.words(), kWinogradPanel,
                          panel.count, channels * of_channel);
      for (std::int64_t c = 0; c < channels; ++c)
        for (std::int64_t t = 0; t < s.taps; ++t)
          loops().winograd.weights(as_const(room.taps(c * s.taps + t)), weights_at(s, to, panel, t * s.in + channel + c), panel.width);
    }
  });
}

void take_turned_winograd_weights(const TiledConvolution& s, int threads, const float* w, float* to) {
  parallel_ranges(threads, s.in, 1, [&](std::int64_t first, std::int64_t last) {
    TapsRoom room;
    for (std::int64_t c = first; c < last; ++c)
      for (std::int64_t p = 0; p < panels_of(s); ++p) {
        const WinogradPanel panel = panel_of(s, p);
        loops().transpose32(words(w + (c * s.out + panel.first) * s.taps * TiledConvolution::kTaps), s.taps * TiledConvolution::kTaps,
                            room.words(), kWinogradPanel, panel.count, s.taps * TiledConvolution::kTaps);
        for (std::int64_t t = 0; t < s.taps; ++t)
          loops().winograd.weights(room.turned(t), weights_at(s, to, panel, (s.taps - 1 - t) * s.in + c), panel.width);
      }
  });
}

void put_winograd_weights(const TiledConvolution& s, int threads, const WinogradSums& from, float* w) {
  const std::int64_t of_channel = s.taps * TiledConvolution::kTaps, at_once = std::max<std::int64_t>(1, kTapsAtOnce / of_channel);
  const std::int64_t blocks = (s.in + at_once - 1) / at_once;
  parallel_ranges(threads, panels_of(s) * blocks, 1, [&](std::int64_t first, std::int64_t last) {
    TapsRoom room;
    std::vector<float> sum(static_cast<std::size_t>(TiledConvolution::kPoints * kWinogradPanel));
    for (std::int64_t item = first; item < last; ++item) {
      const WinogradPanel panel = panel_of(s, item / blocks);
      const std::int64_t channel = item % blocks * at_once, channels = std::min(at_once, s.in - channel);
      for (std::int64_t c = 0; c < channels; ++c)
        for (std::int64_t t = 0; t < s.taps; ++t) {
          add_up(s, from, (t * s.in + channel + c) * s.padded_out() + panel.first, panel.width, sum);
          loops().winograd.weight_gradient({sum.data(), TiledConvolution::kPatch * kWinogradPanel, kWinogradPanel},
                                           room.taps(c * s.taps + t), panel.width);
        }
      loops().transpose32(room.words(), kWinogradPanel, reinterpret_cast<std::uint32_t*>(w + (panel.first * s.in + channel) * of_channel),
                          s.in * of_channel, channels * of_channel, panel.count);
    }
  });
}

}  // namespace rehearsal::exec::native
