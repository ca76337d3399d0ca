#pragma once
// Visits the taps of sliding windows over images of up to three spatial axes: what convolutions and pools share.

#include <algorithm>
#include <array>
#include <cstdint>

#include "graph/ops/window.hpp"

namespace rehearsal::exec::reference {

using Triple = std::array<std::int64_t, 3>;

/// A window sliding over one image plane (one channel). Missing leading axes have size 1, stride 1 and no padding.
struct Plane {
  Triple image{1, 1, 1}, windows{1, 1, 1}, kernel{1, 1, 1}, stride{1, 1, 1}, dilation{1, 1, 1}, low{0, 0, 0};

  [[nodiscard]] std::int64_t image_size() const { return image[0] * image[1] * image[2]; }
  [[nodiscard]] std::int64_t windows_size() const { return windows[0] * windows[1] * windows[2]; }
  [[nodiscard]] std::int64_t taps() const { return kernel[0] * kernel[1] * kernel[2]; }
};

/// `image` and `windows` are shapes [batch, channels, spatial...]: the windows that lie outside `windows` are not visited.
[[nodiscard]] inline Plane plane_of(const graph::Window& window, const graph::Shape& image, const graph::Shape& windows) {
  Plane plane;
  const std::size_t rank = window.rank();
  for (std::size_t d = 0; d < rank; ++d) {
    const std::size_t a = 3 - rank + d;
    plane.image[a] = image[d + 2];
    plane.windows[a] = windows[d + 2];
    plane.kernel[a] = window.kernel[d];
    plane.stride[a] = window.strides[d];
    plane.dilation[a] = window.dilations[d];
    plane.low[a] = window.low[d];
  }
  return plane;
}

/// Windows [first, last) of axis `a` whose tap `k` lies in the image, and the image position of that tap in window `first`.
struct WindowReach {
  std::int64_t first = 0, last = 0, image = 0;
};
[[nodiscard]] inline WindowReach reach_of(const Plane& p, std::size_t a, std::int64_t k) {
  const std::int64_t offset = k * p.dilation[a] - p.low[a], room = p.image[a] - 1 - offset;
  WindowReach r;
  r.first = offset >= 0 ? 0 : (-offset + p.stride[a] - 1) / p.stride[a];
  r.last = room < 0 ? 0 : std::min(p.windows[a], room / p.stride[a] + 1);
  r.image = r.first * p.stride[a] + offset;
  return r;
}

/// Calls row(image, windows, count) for every row of windows in which tap (kd, kh, kw) = `tap` lies in the image: offsets of the
/// first element in the plane of the image and in that of the windows. Image elements are p.stride[2] apart, windows 1.
template <class F>
void for_rows_of_tap(const Plane& p, std::int64_t tap, F&& row) {
  const WindowReach x = reach_of(p, 2, tap % p.kernel[2]);
  const WindowReach y = reach_of(p, 1, tap / p.kernel[2] % p.kernel[1]);
  const WindowReach z = reach_of(p, 0, tap / (p.kernel[2] * p.kernel[1]));
  if (x.last <= x.first) return;
  for (std::int64_t d = z.first; d < z.last; ++d) {
    const std::int64_t depth = z.image + (d - z.first) * p.stride[0];
    for (std::int64_t h = y.first; h < y.last; ++h) {
      const std::int64_t height = y.image + (h - y.first) * p.stride[1];
      row((depth * p.image[1] + height) * p.image[2] + x.image, (d * p.windows[1] + h) * p.windows[2] + x.first, x.last - x.first);
    }
  }
}

}  // namespace rehearsal::exec::reference
