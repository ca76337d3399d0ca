#pragma once
// How much of a GPU a matrix product occupies: FLOPs after tile, wave and split-K quantisation.

namespace rehearsal::costmodel {

/// batch products of m×k by k×n.
struct MatmulShape {
  double m = 1, n = 1, k = 1, batch = 1;
};

/// k elements that filling and draining the main loop of one tile cost, for dense products, and for batched ones and convolutions.
inline constexpr double kDenseLoopOverhead = 320, kShortLoopOverhead = 96;

/// FLOPs of the time that `units` multiprocessors are occupied: the least over tile sizes and splits of k of
///   max(1/2, ceil(2w)/2) · units · 2·tm·tn·(k/s + loop_overhead) · penalty(tile), w = ceil(m/tm)·ceil(n/tn)·batch·s / units,
/// with two tiles resident per multiprocessor (half waves), w + 1/4 above 8 waves, and 4 % for adding s > 1 partial results.
/// Tiles and their penalties are those of CUTLASS's and cuBLAS's usual kernels; small tiles reuse less of shared memory, which costs
/// slower arithmetic only `reuse_share` of the penalty.
[[nodiscard]] double quantised_flops(const MatmulShape&, int units, double loop_overhead, double reuse_share = 1);

/// n and k rounded up to what matrix units load at once (16 bytes); CUDA cores need no rounding.
[[nodiscard]] MatmulShape aligned(const MatmulShape&, int element_bytes, bool matrix_units);

}  // namespace rehearsal::costmodel
