#include "graph/ops/tiled_convolution.hpp"

#include <algorithm>
#include <array>

#include "graph/ops/window.hpp"

namespace rehearsal::graph {
namespace {

constexpr int kResult = -1;

/// Which tensors of a node are a convolution's image, weights and windows: numbers of operands, or its result. And what moving a number of
/// its weights costs, in multiplications of a product: they may not stay in caches, and those of a gradient are read and written.
struct TiledOperator {
  std::string_view name;
  int image, weights, windows;
  std::int64_t to_move_weight;
};
constexpr std::array kTiledOperators{TiledOperator{"Conv", 0, 1, kResult, 32}, TiledOperator{"ConvGradInput", kResult, 1, 0, 32},
                                     TiledOperator{"ConvGradWeight", 0, kResult, 1, 64}};

/// nullptr: of another operator.
const TiledOperator* row_of(const OpSchema& schema) {
  const auto* op = std::ranges::find(kTiledOperators, schema.name, &TiledOperator::name);
  return op == kTiledOperators.end() ? nullptr : op;
}

/// The same of a number of the tiles, which stay in caches. All three are from times of kernels by themselves on a Zen 4 processor, where
/// tiles are 2 to 4 times quicker with many pixels, and slower where 512 channels meet a single image of 7 x 7.
constexpr std::int64_t kToMoveTile = 12;

/// Every stride and dilation 1, 3 x 3 taps (of volumes at most so many times), all channels of an image together.
bool has_taps(const Attributes& attributes, const Shape& image, const Shape& weights) {
  if (image.size() < 4 || image[1] != weights[1]) return false;
  const auto window = window_of(attributes, spatial_of(weights));
  const auto is = [](std::int64_t wanted) { return [wanted](std::int64_t n) { return n == wanted; }; };
  return std::all_of(window.kernel.end() - 2, window.kernel.end(), is(3)) && window.kernel.front() <= kMostTiledTaps &&
         std::ranges::all_of(window.strides, is(1)) && std::ranges::all_of(window.dilations, is(1));
}

TiledConvolution sizes_of(const Attributes& attributes, const Shape& image, const Shape& weights, const Shape& windows) {
  const auto low = window_of(attributes, spatial_of(weights)).low;
  TiledConvolution s;
  const std::size_t row = image.size() - 2;
  if (image.size() == 5) {
    s.volumes = image[0], s.image_slices = image[2], s.slices = windows[2], s.taps = weights[2], s.slice_low = low[0];
  } else {
    s.image_slices = s.slices = image[0];
  }
  s.image_rows = image[row], s.image_columns = image[row + 1], s.rows = windows[row], s.columns = windows[row + 1];
  s.row_low = low[row - 2], s.column_low = low[row - 1];
  s.in = image[1], s.out = windows[1];
  return s;
}

/// True where all that the tiles take is less than nine tenths of what the taps do: of four images or of one volume.
bool is_quicker(TiledConvolution s, bool volumes, std::int64_t to_move_weight) {
  constexpr std::int64_t kImages = 4;
  (volumes ? s.volumes : s.slices) = volumes ? 1 : kImages;
  const std::int64_t points = TiledConvolution::kPoints * s.tiles(), pixels = s.volumes * s.slices * s.rows * s.columns;
  const std::int64_t moved = points * (s.in + s.out) * kToMoveTile + s.weight_numbers() * to_move_weight;
  return 10 * (points * s.weights_of_point() + moved) < 9 * TiledConvolution::kTaps * s.inner() * s.out * pixels;
}

}  // namespace

TiledConvolution TiledConvolution::transposed() const {
  TiledConvolution t = *this;
  std::swap(t.image_slices, t.slices);
  std::swap(t.image_rows, t.rows);
  std::swap(t.image_columns, t.columns);
  std::swap(t.in, t.out);
  t.slice_low = taps - 1 - slice_low;
  t.row_low = 2 - row_low;
  t.column_low = 2 - column_low;
  return t;
}

std::optional<TiledConvolution> tiled_convolution(const OpSchema& schema, const NodeView& node, std::string& reason) {
  const auto* op = row_of(schema);
  if (op == nullptr) {
    reason = "Winograd's tiles are of convolutions";
    return std::nullopt;
  }
  const auto shape = [&](int which) -> const Shape& {
    return which == kResult ? node.output().shape : node.input(static_cast<std::size_t>(which)).shape;
  };
  const auto &image = shape(op->image), &weights = shape(op->weights), &windows = shape(op->windows);
  if (!has_taps(node.attributes, image, weights)) {
    reason = "Winograd's tiles need 3 x 3 taps, strides and dilations of 1, and one group";
    return std::nullopt;
  }
  auto s = sizes_of(node.attributes, image, weights, windows);
  if (op->image == kResult) s = s.transposed();
  if (std::min(s.in, s.out) >= TiledConvolution::kLine) return s;
  reason = "Winograd's tiles need 16 channels";
  return std::nullopt;
}

bool is_quicker_by_tiles(const OpSchema& schema, const NodeView& node, std::string& reason) {
  const auto s = tiled_convolution(schema, node, reason);
  if (!s) return false;
  const auto& operand = node.input(0).shape;  // of the image, or of what has as many axes
  if (is_quicker(*s, operand.size() == 5, row_of(schema)->to_move_weight)) return true;
  reason = "Winograd's tiles are not quicker with few pixels";
  return false;
}

}  // namespace rehearsal::graph
