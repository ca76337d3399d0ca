#pragma once
// A convolution of 3 x 3 taps as products of matrices: every tile of 4 x 4 results has 36 numbers per channel of the image and of the
// result, and each of the 36 is a product with weights of its own. That is a quarter of the multiplications. A third axis of taps (of
// volumes) is summed over; samples of images take its place in memory, with one tap.

#include <cstdint>

#include "exec/kernels/native/loops.hpp"

namespace rehearsal::exec::native {

inline constexpr std::int64_t kWinogradPoints = 36, kWinogradTile = 4, kWinogradPatch = 6, kWinogradTaps = 9;
/// Results of a product that lie side by side in memory, and the multiple of which there are.
inline constexpr std::int64_t kWinogradPanel = 64, kWinogradLine = 16;

/// Sizes of one convolution, forward; slices are what lies along the third axis.
struct WinogradShape {
  std::int64_t volumes = 1, image_slices = 1, slices = 1, taps = 1;       ///< taps: of the third axis
  std::int64_t image_rows = 1, image_columns = 1, rows = 1, columns = 1;  ///< pixels of a slice
  std::int64_t slice_low = 0, row_low = 0, column_low = 0;                ///< padding before the first
  std::int64_t in = 1, out = 1;                                           ///< channels

  [[nodiscard]] std::int64_t tile_rows() const { return (rows + kWinogradTile - 1) / kWinogradTile; }
  [[nodiscard]] std::int64_t tile_columns() const { return (columns + kWinogradTile - 1) / kWinogradTile; }
  /// Of weights: of each point, an inner number per tap and channel of the image, a panel of results after the other.
  [[nodiscard]] std::int64_t inner() const { return taps * in; }
  [[nodiscard]] std::int64_t padded_out() const { return (out + kWinogradLine - 1) / kWinogradLine * kWinogradLine; }
  [[nodiscard]] std::int64_t weights_of_point() const { return inner() * padded_out(); }
  [[nodiscard]] std::int64_t weight_numbers() const { return kWinogradPoints * weights_of_point(); }
  [[nodiscard]] std::int64_t tiles() const { return volumes * slices * tile_rows() * tile_columns(); }
  /// The convolution that takes gradients of results to gradients of the image: taps from the other end, channels exchanged.
  [[nodiscard]] WinogradShape transposed() const;
};

/// Tiles that are made at once: slices [first_slice, + slices) of a volume, and of each rows of tiles [first_row, + rows).
struct WinogradPart {
  std::int64_t volume, first_slice, slices, first_row, rows;
};

/// How the tiles are dealt out. A part has about so many numbers, but no fewer than the weights, which every part reads.
class WinogradParts {
 public:
  WinogradParts(const WinogradShape& shape, std::int64_t numbers);

  [[nodiscard]] std::int64_t count() const { return s_.volumes * of_volume_ * of_slice_; }
  [[nodiscard]] WinogradPart part(std::int64_t number) const;
  /// Room for one part's numbers of the image, of the result, and of both.
  [[nodiscard]] std::int64_t image_numbers() const { return kWinogradPoints * (slices_ + s_.taps - 1) * rows_ * s_.tile_columns() * s_.in; }
  [[nodiscard]] std::int64_t result_numbers() const { return kWinogradPoints * slices_ * rows_ * s_.tile_columns() * s_.out; }
  [[nodiscard]] std::int64_t numbers() const { return image_numbers() + result_numbers(); }

 private:
  WinogradShape s_;
  std::int64_t slices_ = 1, rows_ = 1;         ///< of tiles, of a part
  std::int64_t of_volume_ = 1, of_slice_ = 1;  ///< parts
};

/// One part's numbers: 36 matrices of tiles (slices, rows, columns of tiles) by channels.
struct WinogradNumbers {
  float* first;
  std::int64_t slices, tiles;  ///< tiles of a slice
  std::int64_t channels;
  [[nodiscard]] std::int64_t point() const { return slices * tiles * channels; }
  [[nodiscard]] float* tile(std::int64_t number) const { return first + number * channels; }
};

/// Walks over tiles with so many threads.
class WinogradTiles {
 public:
  WinogradTiles(const WinogradShape& shape, int threads) : s_(shape), threads_(threads) {}

  /// The part's patches of the image, with the slices that its taps reach; zeros where it ends.
  void take_image(const WinogradPart& part, const float* image, const WinogradNumbers& to) const;
  /// The same of gradients of results.
  void take_gradient(const WinogradPart& part, const float* gradient, const WinogradNumbers& to) const;
  /// The results, with a number per channel added where `bias` is given.
  void put_result(const WinogradPart& part, const WinogradNumbers& from, const float* bias, float* result) const;

 private:
  WinogradShape s_;
  int threads_;
};

}  // namespace rehearsal::exec::native
