#pragma once
// What pools share: planes with their windows, and how many elements a mean counts.

#include <algorithm>
#include <vector>

#include "exec/kernels/reference/reference.hpp"
#include "exec/kernels/reference/window.hpp"

namespace rehearsal::exec::reference {

/// The planes (batch * channels) of a pool between an image and its windows.
struct Planes {
  Plane plane;
  graph::Window window;
  std::int64_t count;

  Planes(const Call& call, const graph::Shape& image, const graph::Shape& windows)
      : window(graph::window_of(call.attributes(), call.attributes().integers("kernel_shape"))), count(image[0] * image[1]) {
    plane = plane_of(window, image, windows);
  }
};

/// The part of an image of which a gradient is the result: where a block's windows need more rows than the block has, fewer than all.
class Crop {
 public:
  Crop(const Call& call, const Plane& plane) : image_(plane.image), size_(plane.image) {
    const std::size_t rank = call.out_shape().size() - 2;
    for (std::size_t d = 0; d < rank; ++d) {
      first_[3 - rank + d] = call.out_origin(0, d + 2) - call.in_origin(0, d + 2);
      size_[3 - rank + d] = call.out_shape()[d + 2];
    }
  }
  [[nodiscard]] std::int64_t size() const { return size_[0] * size_[1] * size_[2]; }
  /// Number in the result of an element of the image; -1 where it is not part of it.
  [[nodiscard]] std::int64_t operator()(std::int64_t element) const {
    const Triple at{element / (image_[2] * image_[1]) - first_[0], element / image_[2] % image_[1] - first_[1],
                    element % image_[2] - first_[2]};
    for (std::size_t a = 0; a < 3; ++a)
      if (at[a] < 0 || at[a] >= size_[a]) return -1;
    return (at[0] * size_[1] + at[1]) * size_[2] + at[2];
  }

 private:
  Triple image_, size_, first_{0, 0, 0};
};

/// How many elements count in every window of axis `a`. Windows that ceil_mode lets reach beyond the high padding do not count what lies
/// there.
[[nodiscard]] inline std::vector<double> counted(const Planes& p, std::size_t a, bool include_pad) {
  const std::size_t rank = p.window.rank();
  const std::int64_t high = a + rank >= 3 ? p.window.high[a + rank - 3] : 0;
  const std::int64_t low_end = include_pad ? -p.plane.low[a] : 0, high_end = p.plane.image[a] + (include_pad ? high : 0);
  std::vector<double> counts(static_cast<std::size_t>(p.plane.windows[a]), 0.0);
  for (std::size_t w = 0; w < counts.size(); ++w) {
    for (std::int64_t k = 0; k < p.plane.kernel[a]; ++k) {
      const std::int64_t at = static_cast<std::int64_t>(w) * p.plane.stride[a] - p.plane.low[a] + k * p.plane.dilation[a];
      if (at >= low_end && at < high_end) counts[w] += 1;
    }
  }
  return counts;
}

/// 1 / (elements that count) of every window: a window's count is the product of its axes' counts.
[[nodiscard]] inline std::vector<double> window_weights(const Planes& p, bool include_pad) {
  const std::vector<double> z = counted(p, 0, include_pad), y = counted(p, 1, include_pad), x = counted(p, 2, include_pad);
  std::vector<double> weights;
  weights.reserve(static_cast<std::size_t>(p.plane.windows_size()));
  for (const double depth : z) {
    for (const double height : y) {
      for (const double width : x) weights.push_back(1.0 / std::max(1.0, depth * height * width));
    }
  }
  return weights;
}

}  // namespace rehearsal::exec::reference
