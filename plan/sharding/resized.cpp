#include "plan/sharding/resized.hpp"

#include <algorithm>
#include <iterator>

#include "base/hash.hpp"
#include "graph/ops/interpolation.hpp"

namespace rehearsal::plan {
namespace {

using graph::ResizedAxis;
using graph::Tap;
using Taps = std::vector<Tap>;

/// Taps of a position of the larger side of the map: the result, or a gradient's operand. `axis` counts the mapped trailing axes.
Taps resize_at(const graph::Attributes& attributes, std::size_t axis, ResizedAxis sizes, std::int64_t position) {
  const auto scales = attributes.numbers("scales");
  sizes.scale = scales.empty() ? static_cast<double>(sizes.out) / static_cast<double>(sizes.in) : scales[axis];
  return graph::resize_taps(attributes, sizes, position);
}
Taps pad_at(const graph::Attributes& attributes, std::size_t axis, ResizedAxis sizes, std::int64_t position) {
  return graph::pad_taps(attributes, sizes.in, attributes.integers("pads")[axis], position);
}
std::size_t resized_axes(const graph::Attributes& attributes) { return attributes.integers("sizes").size(); }
std::size_t padded_axes(const graph::Attributes& attributes) { return attributes.integers("pads").size() / 2; }

struct MapRow {
  std::string_view op;
  bool gradient;  ///< from the result back to the operand
  Taps (*at)(const graph::Attributes&, std::size_t axis, ResizedAxis, std::int64_t position);
  std::size_t (*axes)(const graph::Attributes&);
};
constexpr MapRow kResizedRows[] = {
    {"Resize", false, resize_at, resized_axes},
    {"ResizeGrad", true, resize_at, resized_axes},
    {"Pad", false, pad_at, padded_axes},
    {"PadGrad", true, pad_at, padded_axes},
};

const MapRow* resized_row_of(const WindowedNode& n) {
  const auto* row = std::find_if(std::begin(kResizedRows), std::end(kResizedRows), [&](const MapRow& r) { return r.op == n.schema.name; });
  return row == std::end(kResizedRows) ? nullptr : row;
}

/// The map of one axis of the unsplit tensors.
struct ResizedTaps {
  explicit ResizedTaps(const WindowedNode& n) : row(*resized_row_of(n)), attributes(n.view.attributes) {
    const graph::Shape &from = n.view.input(0).shape, &to = n.view.output().shape;
    const std::size_t d = n.axis + 2;
    axis = d - (from.size() - row.axes(attributes));
    sizes = row.gradient ? ResizedAxis{to[d], from[d], 1} : ResizedAxis{from[d], to[d], 1};
  }
  [[nodiscard]] Taps at(std::int64_t position) const { return row.at(attributes, axis, sizes, position); }

  const MapRow& row;
  const graph::Attributes& attributes;
  std::size_t axis = 0;
  ResizedAxis sizes;
};

}  // namespace

bool is_resized(const WindowedNode& n) { return resized_row_of(n) != nullptr; }

Range resized_rows(const WindowedNode& n, Range block) {
  const ResizedTaps map(n);
  Range rows{0, 0};
  const auto include = [&](std::int64_t row) {
    rows = rows.count() < 1 ? Range{row, row + 1} : Range{std::min(rows.begin, row), std::max(rows.end, row + 1)};
  };
  const Range positions = map.row.gradient ? Range{0, map.sizes.out} : block;
  for (std::int64_t p = positions.begin; p < positions.end; ++p)
    for (const Tap& tap : map.at(p)) {
      const bool mine = tap.index >= block.begin && tap.index < block.end;
      if (!map.row.gradient) include(tap.index);
      if (map.row.gradient && mine) include(p);
    }
  return rows;
}

std::int32_t resized_halo(const WindowedNode& n) {
  const ResizedTaps map(n);
  Hasher hash;
  hash.add(n.schema.name).add(map.attributes.to_text()).add(map.sizes.in).add(map.sizes.out).add(static_cast<std::int64_t>(map.axis));
  return static_cast<std::int32_t>(hash.value() & 0x3FFFFFFF) + 1;
}

bool can_cut_resized(const WindowedNode& n, std::int64_t blocks) {
  const std::int64_t dealt = n.view.output().shape[n.axis + 2];
  for (std::int64_t r = 0; r < blocks; ++r) {
    const Range mine = block(dealt, blocks, r);
    if (mine.count() < 1 || resized_rows(n, mine).count() < 1) return false;
  }
  return true;
}

}  // namespace rehearsal::plan
