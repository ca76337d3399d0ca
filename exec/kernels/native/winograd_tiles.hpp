#pragma once
// A convolution of 3 x 3 taps as products of matrices (graph/ops/tiled_convolution.hpp): every tile of results has 36 numbers per channel
// of the image and of the result, and each of the 36 is a product with weights of its own.

#include <cstdint>

#include "exec/kernels/native/loops.hpp"
#include "graph/ops/tiled_convolution.hpp"

namespace rehearsal::exec::native {

using graph::TiledConvolution;

/// Results of a product that lie side by side in memory.
inline constexpr std::int64_t kWinogradPanel = 64;

/// Tiles that are made at once: slices [first_slice, + slices) of a volume, and of each rows of tiles [first_row, + rows).
struct WinogradPart {
  std::int64_t volume, first_slice, slices, first_row, rows;
};

/// How the tiles are dealt out. A part has about so many numbers, but no fewer than the weights, which every part reads.
class WinogradParts {
 public:
  WinogradParts(const TiledConvolution& shape, std::int64_t numbers);

  [[nodiscard]] std::int64_t count() const { return s_.volumes * of_volume_ * of_slice_; }
  [[nodiscard]] WinogradPart part(std::int64_t number) const;
  /// Room for one part's numbers of the image, of the result, and of both.
  [[nodiscard]] std::int64_t image_numbers() const {
    return TiledConvolution::kPoints * (slices_ + s_.taps - 1) * rows_ * s_.tile_columns() * s_.in;
  }
  [[nodiscard]] std::int64_t result_numbers() const { return TiledConvolution::kPoints * slices_ * rows_ * s_.tile_columns() * s_.out; }
  [[nodiscard]] std::int64_t numbers() const { return image_numbers() + result_numbers(); }

 private:
  TiledConvolution s_;
  std::int64_t slices_ = 1, rows_ = 1;         ///< of tiles, of a part
  std::int64_t of_volume_ = 1, of_slice_ = 1;  ///< parts
};

/// One part's numbers: 36 matrices of tiles (slices, rows, columns of tiles) by channels.
struct WinogradNumbers {
  float* first;
  std::int64_t slices, tiles;  ///< tiles of a slice
  std::int64_t channels;
  [[nodiscard]] std::int64_t point() const { return slices * tiles * channels; }
  /// Of a tile: the points, 6 x 6.
  [[nodiscard]] Patch patch(std::int64_t tile) const { return {first + tile * channels, TiledConvolution::kPatch * point(), point()}; }
};

/// Walks over tiles with so many threads.
class WinogradTiles {
 public:
  WinogradTiles(const TiledConvolution& shape, int threads) : s_(shape), threads_(threads) {}

  /// The part's patches of the image, with the slices that its taps reach; zeros where it ends.
  void take_image(const WinogradPart& part, const float* image, const WinogradNumbers& to) const;
  /// The same of gradients of results.
  void take_gradient(const WinogradPart& part, const float* gradient, const WinogradNumbers& to) const;
  /// The results, with a number per channel added where `bias` is given.
  void put_result(const WinogradPart& part, const WinogradNumbers& from, const float* bias, float* result) const;

 private:
  /// One tile: its numbers, and where the first of its results is.
  struct Place {
    Patch numbers;
    std::int64_t slice, row, column;
  };
  /// make() is called once for each thread, and what it returns with the place of every tile.
  template <class Make>
  void walk(const WinogradPart&, const WinogradNumbers&, const Make& make) const;

  TiledConvolution s_;
  int threads_;
};

}  // namespace rehearsal::exec::native
