#pragma once
// What lies under the windows of an image: a row for each channel and tap, a column for each window, zeros where it stands out of the
// image.

#include "exec/kernels/reference/reference.hpp"
#include "exec/kernels/reference/window.hpp"

namespace rehearsal::exec::reference {

class UnderWindows {
 public:
  /// `image`: a shape [batch, channels, spatial...]; attributes as Conv has them, and "kernel_shape".
  UnderWindows(const graph::Shape& image, const graph::Attributes& attributes) : channels_(image[1]) {
    const auto window = graph::window_of(attributes, attributes.integers("kernel_shape"));
    plane_ = plane_of(window, image, graph::image_shape(1, 1, graph::windows_in(graph::spatial_of(image), window)));
  }

  [[nodiscard]] std::int64_t features() const { return channels_ * plane_.taps(); }
  [[nodiscard]] std::int64_t positions() const { return plane_.windows_size(); }
  [[nodiscard]] std::int64_t image_elements() const { return channels_ * plane_.image_size(); }

  /// Of one image of the batch. `out`: features() x positions().
  template <class T>
  void write(const T* image, T* out) const {
    std::fill_n(out, features() * positions(), T(0));
    for (std::int64_t c = 0; c < channels_; ++c, image += plane_.image_size())
      for (std::int64_t tap = 0; tap < plane_.taps(); ++tap, out += positions())
        for_rows_of_tap(plane_, tap, [&](std::int64_t from, std::int64_t to, std::int64_t count) {
          for (std::int64_t i = 0; i < count; ++i) out[to + i] = image[from + i * plane_.stride[2]];
        });
  }

 private:
  std::int64_t channels_;
  Plane plane_;
};

}  // namespace rehearsal::exec::reference
