#include "plan/sharding/windows.hpp"

#include <algorithm>

#include "base/hash.hpp"
#include "graph/ops/window.hpp"
#include "plan/sharding/resized.hpp"

namespace rehearsal::plan {
namespace {

using graph::WindowSides;

std::int64_t floor_div(std::int64_t a, std::int64_t b) { return a / b - (a % b < 0); }
std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return -floor_div(-a, b); }

/// One spatial axis: position o of the small side covers rows o·stride - low + tap·dilation of the large side.
struct Axis {
  std::int64_t stride = 1, low = 0, high = 0, span = 1;
  std::int64_t large = 0, small = 0;  ///< rows
};

/// Rows of the large side under positions [block.begin, block.end), padding included.
Range covered(const Axis& a, Range block) { return {block.begin * a.stride - a.low, (block.end - 1) * a.stride - a.low + a.span}; }

/// Positions of the small side that touch rows [block.begin, block.end); one more where a stride jumps over the first row, so that the
/// block's own padding is not negative.
Range touching(const Axis& a, Range block) {
  const std::int64_t first = std::min(ceil_div(block.begin + a.low - a.span + 1, a.stride), floor_div(block.begin + a.low, a.stride));
  return {first, floor_div(block.end - 1 + a.low, a.stride) + 1};
}

Range inside(Range rows, std::int64_t size) { return {std::max<std::int64_t>(rows.begin, 0), std::min(rows.end, size)}; }

const WindowSides* sides_of(const WindowedNode& n) { return n.schema.window ? &*n.schema.window : nullptr; }

const graph::Shape& shape_of(const WindowedNode& n, int operand) {
  return operand < 0 ? n.view.output().shape : n.view.input(static_cast<std::size_t>(operand)).shape;
}

graph::Window window_in(const WindowedNode& n, const WindowSides& sides) {
  const auto kernel = sides.kernel < 0 ? n.view.attributes.integers("kernel_shape") : graph::spatial_of(shape_of(n, sides.kernel));
  return graph::window_of(n.view.attributes, kernel);
}

Axis axis_in(const WindowedNode& n, const WindowSides& sides) {
  const graph::Window w = window_in(n, sides);
  const std::size_t d = n.axis;
  return {w.strides[d], w.low[d], w.high[d], w.span(d), shape_of(n, sides.large)[d + 2], shape_of(n, sides.small)[d + 2]};
}

/// True where the ranks' blocks are those of the small side.
bool by_small(const WindowSides& sides) { return sides.sums_positions || sides.small < 0; }

Range rows_of(const Axis& a, const WindowSides& sides, bool large, Range block) {
  if (by_small(sides)) return large ? inside(covered(a, block), a.large) : block;
  const Range positions = inside(touching(a, block), a.small);
  if (!large) return positions;
  if (!sides.crops) return block;
  const Range seen = inside(covered(a, positions), a.large);
  return {std::min(seen.begin, block.begin), std::max(seen.end, block.end)};
}

/// Is every window divided by as many elements as any other? A block's kernel is told to count padding, that of axes which are whole, too.
bool counts_alike(const graph::Window& w, const graph::Attributes& attributes) {
  const auto pads = [](std::int64_t rows) { return rows != 0; };
  return attributes.integer("count_include_pad", 0) != 0 || (std::ranges::none_of(w.low, pads) && std::ranges::none_of(w.high, pads));
}

}  // namespace

WindowAnchor anchor_of(const WindowedNode& n) {
  const WindowSides* sides = sides_of(n);
  if (sides && sides->sums_positions) return {false, static_cast<std::size_t>(sides->small)};
  return {};
}

Range rows_needed(const WindowedNode& n, std::size_t operand, Range block) {
  if (is_resized(n)) return resized_rows(n, block);
  const WindowSides& sides = *sides_of(n);
  return rows_of(axis_in(n, sides), sides, static_cast<int>(operand) == sides.large, block);
}

std::int32_t halo_number(const WindowedNode& n, std::size_t operand) {
  if (is_resized(n)) return resized_halo(n);
  const WindowSides& sides = *sides_of(n);
  const Axis a = axis_in(n, sides);
  if ((sides.sums_positions && static_cast<int>(operand) == sides.small)) return 0;
  if (a.span == 1 && a.stride == 1) return 0;  // nor is there padding, which is less than the span
  Hasher hash;
  hash.add(std::int64_t{by_small(sides)}).add(std::int64_t{static_cast<int>(operand) == sides.large});
  for (const std::int64_t x : {a.stride, a.low, a.span, a.large, a.small}) hash.add(x);
  return static_cast<std::int32_t>(hash.value() & 0x3FFFFFFF) + 1;
}

graph::Attributes local_attributes(const WindowedNode& n, Range block, graph::Attributes attributes) {
  if (is_resized(n)) return attributes;  // its kernels ask where blocks begin
  const WindowSides& sides = *sides_of(n);
  const Axis a = axis_in(n, sides);
  graph::Window w = window_in(n, sides);
  const std::size_t d = n.axis;
  std::int64_t added = 0;
  if (by_small(sides)) {
    const Range all = covered(a, block), own = inside(all, a.large);
    w.low[d] = own.begin - all.begin;
    w.high[d] = all.end - own.end;
  } else {
    const Range from = inside(touching(a, block), a.small), rows = rows_of(a, sides, true, block);
    w.low[d] = a.low + rows.begin - from.begin * a.stride;
    const std::int64_t beyond = (from.count() - 1) * a.stride + a.span - w.low[d] - rows.count();
    w.high[d] = std::max<std::int64_t>(beyond, 0);
    added = std::max<std::int64_t>(-beyond, 0);  // rows that no position reaches
  }
  std::vector<std::int64_t> pads = w.low;
  pads.insert(pads.end(), w.high.begin(), w.high.end());
  attributes.set("pads", std::move(pads));
  if (sides.averages) attributes.set("count_include_pad", std::int64_t{1});
  if (n.schema.name == "ConvTranspose") {
    auto padding = attributes.integers("output_padding");
    padding.resize(w.rank(), 0);
    padding[d] = added;
    attributes.set("output_padding", std::move(padding));
  }
  if (auto shape = attributes.integers("shape"); shape.size() == w.rank()) {
    shape[d] = block.count();
    attributes.set("shape", std::move(shape));
  }
  return attributes;
}

graph::Attributes merged_windows(graph::Attributes now, const graph::Attributes& alone, std::size_t axis) {
  for (const char* key : {"pads", "output_padding", "shape"}) {
    const auto from = alone.integers(key);
    auto to = now.integers(key);
    if (from.empty()) continue;
    to.resize(from.size(), 0);
    to[axis] = from[axis];
    const std::size_t rank = from.size() / 2;
    if (std::string_view(key) == "pads") to[rank + axis] = from[rank + axis];
    now.set(key, std::move(to));
  }
  if (const auto counts = alone.integer("count_include_pad", 0); counts != 0) now.set("count_include_pad", counts);
  return now;
}

bool can_cut(const WindowedNode& n, std::int64_t blocks) {
  if (is_resized(n)) return can_cut_resized(n, blocks);
  const WindowSides* sides = sides_of(n);
  if (!sides || n.view.attributes.integer("ceil_mode", 0) != 0) return false;
  if (sides->averages && !counts_alike(window_in(n, *sides), n.view.attributes)) return false;
  const Axis a = axis_in(n, *sides);
  const std::int64_t dealt = by_small(*sides) ? a.small : a.large;
  for (std::int64_t r = 0; r < blocks; ++r) {
    const Range mine = block(dealt, blocks, r);
    if (mine.count() < 1 || rows_of(a, *sides, true, mine).count() < 1 || rows_of(a, *sides, false, mine).count() < 1) return false;
  }
  return true;
}

}  // namespace rehearsal::plan
