#pragma once
// The windows of a pool over planes of up to three dimensions: which elements a window holds, and which windows hold an element.

#include <limits>

#include "exec/kernels/cuda/cuda_kernel.hpp"
#include "exec/kernels/reference/window.hpp"

namespace rehearsal::exec::cuda {

/// Sizes or places along up to three spatial axes; missing leading axes have size 1.
struct Three {
  std::int64_t z, y, x;
  REHEARSAL_BODY std::int64_t size() const { return z * y * x; }
  /// Number of an element at `at` of a plane of these sizes.
  REHEARSAL_BODY std::int64_t number(const Three& at) const { return (at.z * y + at.y) * x + at.x; }
};
inline Three three(const reference::Triple& t) { return {t[0], t[1], t[2]}; }

/// Where an element lies in a tensor of planes.
struct PlanePosition {
  std::int64_t plane;
  Three at;
};
REHEARSAL_BODY PlanePosition plane_position(std::int64_t i, const Three& sizes) {
  const Division x = divide(i, sizes.x), y = divide(x.quotient, sizes.y), z = divide(y.quotient, sizes.z);
  return {z.quotient, {z.remainder, y.remainder, x.remainder}};
}

/// Numbers first, ..., last - 1.
struct PoolSpan {
  std::int64_t first, last;
};
REHEARSAL_BODY std::int64_t quotient_up(std::int64_t number, std::int64_t by) {
  return number <= 0 ? 0 : divide(number + by - 1, by).quotient;
}

/// Windows along one axis.
struct Axis {
  std::int64_t image, windows, kernel, stride, dilation, low;

  /// Where tap 0 of a window lies; may be before the image.
  REHEARSAL_BODY std::int64_t start(std::int64_t window) const { return window * stride - low; }
  /// Taps of a window that lie in [from, to).
  REHEARSAL_BODY PoolSpan taps(std::int64_t window, std::int64_t from, std::int64_t to) const {
    const std::int64_t at = start(window), first = quotient_up(from - at, dilation), last = quotient_up(to - at, dilation);
    return {first, last < kernel ? last : kernel};
  }
  /// Windows that reach from before an element to behind it; which of their taps hold it, holds() says.
  REHEARSAL_BODY PoolSpan windows_over(std::int64_t element) const {
    const std::int64_t shifted = element + low, span = (kernel - 1) * dilation + 1,
                       last = shifted < 0 ? 0 : divide(shifted, stride).quotient + 1;
    return {quotient_up(shifted - span + 1, stride), last < windows ? last : windows};
  }
  REHEARSAL_BODY bool holds(std::int64_t window, std::int64_t element) const {
    return dilation == 1 || (element - start(window)) % dilation == 0;
  }
};

struct Pool {
  Axis z, y, x;
  std::int64_t planes;
  Three image, windows;

  Pool(const graph::NodeView& node, const graph::Shape& image_shape, const graph::Shape& windows_shape) {
    const auto plane =
        reference::plane_of(graph::window_of(node.attributes, node.attributes.integers("kernel_shape")), image_shape, windows_shape);
    const auto axis = [&](std::size_t a) {
      return Axis{plane.image[a], plane.windows[a], plane.kernel[a], plane.stride[a], plane.dilation[a], plane.low[a]};
    };
    z = axis(0), y = axis(1), x = axis(2);
    image = three(plane.image), windows = three(plane.windows);
    planes = image_shape[0] * image_shape[1];
  }
  [[nodiscard]] std::int64_t all_windows() const { return planes * windows.size(); }

  /// visit(element of the plane) for every tap of a window that lies in the image.
  template <class Visit>
  REHEARSAL_BODY void for_taps(const Three& window, Visit& visit) const {
    const PoolSpan depths = z.taps(window.z, 0, z.image), heights = y.taps(window.y, 0, y.image), widths = x.taps(window.x, 0, x.image);
    for (std::int64_t d = depths.first; d < depths.last; ++d) {
      for (std::int64_t h = heights.first; h < heights.last; ++h) {
        const std::int64_t row = image.number({z.start(window.z) + d * z.dilation, y.start(window.y) + h * y.dilation, x.start(window.x)});
        for (std::int64_t w = widths.first; w < widths.last; ++w) visit(row + w * x.dilation);
      }
    }
  }
  /// visit(window, its number in the plane) for every window of which a tap holds the element.
  template <class Visit>
  REHEARSAL_BODY void for_windows(const Three& element, Visit& visit) const {
    const PoolSpan depths = z.windows_over(element.z), heights = y.windows_over(element.y), widths = x.windows_over(element.x);
    for (std::int64_t d = depths.first; d < depths.last; ++d) {
      if (!z.holds(d, element.z)) continue;
      for (std::int64_t h = heights.first; h < heights.last; ++h) {
        if (!y.holds(h, element.y)) continue;
        for (std::int64_t w = widths.first; w < widths.last; ++w)
          if (x.holds(w, element.x)) visit(Three{d, h, w}, windows.number({d, h, w}));
      }
    }
  }
};

/// The part of an image that a gradient is wanted of: where a block's windows need more rows than the block has, fewer than all.
struct WantedPart {
  Three size, first;
  /// `result` as [n, c, spatial...].
  WantedPart(const Call& call, const graph::Shape& result) : size{1, 1, 1}, first{0, 0, 0} {
    reference::Triple sizes{1, 1, 1}, begins{0, 0, 0};
    const std::size_t rank = result.size() - 2;
    for (std::size_t d = 0; d < rank; ++d) {
      begins[3 - rank + d] = call.out_origin(0, d + 2) - call.in_origin(0, d + 2);
      sizes[3 - rank + d] = result[d + 2];
    }
    size = three(sizes), first = three(begins);
  }
  /// Of element i of the result, in the image.
  REHEARSAL_BODY PlanePosition place(std::int64_t i) const {
    const PlanePosition in_part = plane_position(i, size);
    return {in_part.plane, {in_part.at.z + first.z, in_part.at.y + first.y, in_part.at.x + first.x}};
  }
};

/// Of the places of all windows' winners, counted in their planes. Throws Refusal where 32 bits do not count so far.
[[nodiscard]] inline std::int64_t bytes_of_winners(const Pool& pool, const graph::Shape& image) {
  if (pool.image.size() > std::numeric_limits<std::int32_t>::max())
    throw Refusal("a pool over planes of shape " + graph::to_text(image) + " has more elements than 32 bits count");
  return pool.all_windows() * static_cast<std::int64_t>(sizeof(std::int32_t));
}

}  // namespace rehearsal::exec::cuda
