#pragma once
// Convolutions of 3 x 3 taps by Winograd's minimal filtering F(4 x 4, 3 x 3): which suit it, and how large they are. Every tile of 4 x 4
// results is 36 products of numbers of the image and of the weights, a quarter of what its taps multiply.

#include <optional>
#include <string>

#include "graph/op_schema.hpp"

namespace rehearsal::graph {

/// Sizes of one convolution, forward; slices are what lies along the third axis of volumes. Samples of images are slices, with one tap.
struct TiledConvolution {
  static constexpr std::int64_t kPoints = 36, kTile = 4, kPatch = 6, kTaps = 9;
  static constexpr std::int64_t kLine = 16;  ///< results' channels come in such numbers

  std::int64_t volumes = 1, image_slices = 1, slices = 1, taps = 1;       ///< taps: of the third axis
  std::int64_t image_rows = 1, image_columns = 1, rows = 1, columns = 1;  ///< pixels of a slice
  std::int64_t slice_low = 0, row_low = 0, column_low = 0;                ///< padding before the first
  std::int64_t in = 1, out = 1;                                           ///< channels

  [[nodiscard]] std::int64_t tile_rows() const { return (rows + kTile - 1) / kTile; }
  [[nodiscard]] std::int64_t tile_columns() const { return (columns + kTile - 1) / kTile; }
  [[nodiscard]] std::int64_t tiles() const { return volumes * slices * tile_rows() * tile_columns(); }
  /// Of weights: of each point, an inner number per tap and channel of the image, a panel of results after the other.
  [[nodiscard]] std::int64_t inner() const { return taps * in; }
  [[nodiscard]] std::int64_t padded_out() const { return (out + kLine - 1) / kLine * kLine; }
  [[nodiscard]] std::int64_t weights_of_point() const { return inner() * padded_out(); }
  [[nodiscard]] std::int64_t weight_numbers() const { return kPoints * weights_of_point(); }
  /// The convolution that takes gradients of results to gradients of the image: taps from the other end, channels exchanged.
  [[nodiscard]] TiledConvolution transposed() const;
};

/// Along the third axis.
inline constexpr std::int64_t kMostTiledTaps = 16;

/// Of a Conv, a ConvGradInput (as the convolution that it is, of the gradient) or a ConvGradWeight that tiles can make; else says why not.
[[nodiscard]] std::optional<TiledConvolution> tiled_convolution(const OpSchema& schema, const NodeView& node, std::string& reason);
/// Whether tiles are expected to take less time than taps, else why not: however many samples a rank has, so that plans which deal them out
/// differently compute alike.
[[nodiscard]] bool is_quicker_by_tiles(const OpSchema& schema, const NodeView& node, std::string& reason);

}  // namespace rehearsal::graph
