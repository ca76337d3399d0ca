#include "exec/kernels/native/winograd_tiles.hpp"

#include <algorithm>
#include <vector>

#include "exec/kernels/native/native.hpp"

namespace rehearsal::exec::native {
namespace {

/// Fewer tiles make products of too few rows.
constexpr std::int64_t kFewestTiles = 96;
/// Slices of a part whose neighbours are transformed as well.
constexpr std::int64_t kSlicesWithTaps = 4;

/// One plane of pixels.
struct PixelPlane {
  std::int64_t rows, columns, channels;
  [[nodiscard]] std::int64_t elements() const { return rows * columns * channels; }
};

/// size x size pixels from (row, column) on, of which those outside of the plane are 0.
void copy_patch(const PixelPlane& p, const float* pixels, std::int64_t row, std::int64_t column, const Patch& to) {
  const std::int64_t size = to.row / to.column;
  std::fill_n(to.first, size * to.row, 0.0F);
  const std::int64_t first = std::max<std::int64_t>(0, -column), last = std::min(size, p.columns - column);
  if (first >= last) return;
  for (std::int64_t y = std::max<std::int64_t>(0, -row); y < std::min(size, p.rows - row); ++y)
    std::copy_n(pixels + ((row + y) * p.columns + column + first) * p.channels, (last - first) * p.channels,
                to.first + y * to.row + first * to.column);
}

/// Transforms size x size pixels where they lie, or a copy of them at the edge.
class PatchReader {
 public:
  PatchReader(const PixelPlane& plane, std::int64_t size, WinogradLoops::Transform transform)
      : p_(plane), size_(size), transform_(transform), room_(static_cast<std::size_t>(size * size * plane.channels)) {}

  void read(const float* pixels, std::int64_t row, std::int64_t column, const Patch& to) {
    if (row >= 0 && column >= 0 && row + size_ <= p_.rows && column + size_ <= p_.columns) {
      const std::int64_t below = p_.columns * p_.channels;
      return transform_({pixels + row * below + column * p_.channels, below, p_.channels}, to, p_.channels);
    }
    const Patch copy{room_.data(), size_ * p_.channels, p_.channels};
    copy_patch(p_, pixels, row, column, copy);
    transform_({copy.first, copy.row, copy.column}, to, p_.channels);
  }

 private:
  PixelPlane p_;
  std::int64_t size_;
  WinogradLoops::Transform transform_;
  std::vector<float> room_;
};

}  // namespace

WinogradParts::WinogradParts(const TiledConvolution& s, std::int64_t numbers) : s_(s) {
  const std::int64_t of_tile = TiledConvolution::kPoints * (s.in + s.out), of_slice = s.tile_rows() * s.tile_columns();
  const std::int64_t tiles = std::max(kFewestTiles, std::max(numbers, s.weight_numbers()) / of_tile);
  const auto deal = [](std::int64_t all, std::int64_t most, std::int64_t& parts) {
    const std::int64_t at_once = std::clamp<std::int64_t>(most, 1, all);
    parts = (all + at_once - 1) / at_once;
    return (all + parts - 1) / parts;
  };
  slices_ = deal(s.slices, s.taps == 1 ? tiles / of_slice : std::max(kSlicesWithTaps, tiles / of_slice), of_volume_);
  rows_ = deal(s.tile_rows(), tiles / (slices_ * s.tile_columns()), of_slice_);
}

WinogradPart WinogradParts::part(std::int64_t number) const {
  const std::int64_t row = number % of_slice_ * rows_, slice = number / of_slice_ % of_volume_ * slices_;
  return {number / of_slice_ / of_volume_, slice, std::clamp<std::int64_t>(s_.slices - slice, 0, slices_), row,
          std::clamp<std::int64_t>(s_.tile_rows() - row, 0, rows_)};
}

template <class Make>
void WinogradTiles::walk(const WinogradPart& part, const WinogradNumbers& numbers, const Make& make) const {
  const std::int64_t columns = s_.tile_columns();
  parallel_ranges(threads_, numbers.slices * numbers.tiles, 1, [&](std::int64_t first, std::int64_t last) {
    auto visit = make();
    for (std::int64_t i = first; i < last; ++i)
      visit(Place{numbers.patch(i), part.first_slice + i / numbers.tiles,
                  (part.first_row + i % numbers.tiles / columns) * TiledConvolution::kTile, i % columns * TiledConvolution::kTile});
  });
}

void WinogradTiles::take_image(const WinogradPart& part, const float* image, const WinogradNumbers& to) const {
  const PixelPlane plane{s_.image_rows, s_.image_columns, s_.in};
  walk(part, to, [&] {
    return [&, reader = PatchReader(plane, TiledConvolution::kPatch, loops().winograd.image)](const Place& tile) mutable {
      const std::int64_t slice = tile.slice - s_.slice_low;
      if (slice >= 0 && slice < s_.image_slices)
        return reader.read(image + (part.volume * s_.image_slices + slice) * plane.elements(), tile.row - s_.row_low,
                           tile.column - s_.column_low, tile.numbers);
      for (std::int64_t p = 0; p < TiledConvolution::kPoints; ++p) std::fill_n(tile.numbers.first + p * tile.numbers.column, s_.in, 0.0F);
    };
  });
}

void WinogradTiles::take_gradient(const WinogradPart& part, const float* gradient, const WinogradNumbers& to) const {
  const PixelPlane plane{s_.rows, s_.columns, s_.out};
  walk(part, to, [&] {
    return [&, reader = PatchReader(plane, TiledConvolution::kTile, loops().winograd.gradient)](const Place& tile) mutable {
      reader.read(gradient + (part.volume * s_.slices + tile.slice) * plane.elements(), tile.row, tile.column, tile.numbers);
    };
  });
}

void WinogradTiles::put_result(const WinogradPart& part, const WinogradNumbers& from, const float* bias, float* result) const {
  constexpr auto kTile = TiledConvolution::kTile;
  const std::int64_t below = s_.columns * s_.out;
  walk(part, from, [&] {
    return [&, room = std::vector<float>(static_cast<std::size_t>(kTile * kTile * s_.out))](const Place& tile) mutable {
      float* y = result + ((part.volume * s_.slices + tile.slice) * s_.rows + tile.row) * below + tile.column * s_.out;
      const std::int64_t rows = std::min(kTile, s_.rows - tile.row), width = std::min(kTile, s_.columns - tile.column);
      const bool whole = rows == kTile && width == kTile;
      const Patch to = whole ? Patch{y, below, s_.out} : Patch{room.data(), kTile * s_.out, s_.out};
      loops().winograd.result({tile.numbers.first, tile.numbers.row, tile.numbers.column}, to, s_.out);
      for (std::int64_t r = 0; r < rows; ++r) {
        if (!whole) std::copy_n(to.first + r * to.row, width * s_.out, y + r * below);
        for (std::int64_t c = 0; bias != nullptr && c < width; ++c) loops().f32.add(y + r * below + c * s_.out, bias, s_.out);
      }
    };
  });
}

}  // namespace rehearsal::exec::native
