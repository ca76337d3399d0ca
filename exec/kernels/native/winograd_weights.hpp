#pragma once
// Weights of Winograd's convolutions, and their gradients: from nine taps to 36 points and back.

#include "exec/kernels/native/winograd_tiles.hpp"

namespace rehearsal::exec::native {

/// Channels of results that lie side by side, and what they are padded to.
struct WinogradPanel {
  std::int64_t first, count, width;
};
[[nodiscard]] WinogradPanel panel_of(const TiledConvolution& s, std::int64_t number);
[[nodiscard]] std::int64_t panels_of(const TiledConvolution& s);

/// From w [out, in, taps, 3, 3].
void take_winograd_weights(const TiledConvolution& s, int threads, const float* w, float* to);
/// From w [in, out, taps, 3, 3] of the convolution that this one is the transposed of.
void take_turned_winograd_weights(const TiledConvolution& s, int threads, const float* w, float* to);

/// Gradients of the points, in so many parts one behind the other; rows of weights are padded_out() apart.
struct WinogradSums {
  const float* first;
  std::int64_t count;
};
/// To w [out, in, taps, 3, 3].
void put_winograd_weights(const TiledConvolution& s, int threads, const WinogradSums& from, float* w);

}  // namespace rehearsal::exec::native
