// Maximum and mean over windows of channels-last images_of_pooling: all channels of a pixel side by side.

#include "exec/kernels/reference/pooling.hpp"

#include <limits>

#include "exec/kernels/native/families.hpp"
#include "exec/kernels/native/native.hpp"

namespace rehearsal::exec::native {
namespace {

using reference::Plane;
using reference::Triple;

Plane plane_of(const Call& call, const graph::Shape& image, const graph::Shape& windows) {
  return reference::plane_of(graph::window_of(call.attributes(), call.attributes().integers("kernel_shape")), image, windows);
}

/// Pixels under the taps of window number `window`, as far as they lie in the image: calls visit(tap, pixel).
template <class F>
void for_taps(const Plane& p, std::int64_t window, const F& visit) {
  const Triple at{window / (p.windows[2] * p.windows[1]), window / p.windows[2] % p.windows[1], window % p.windows[2]};
  Triple start;
  for (std::size_t a = 0; a < 3; ++a) start[a] = at[a] * p.stride[a] - p.low[a];
  std::int32_t tap = 0;
  for (std::int64_t d = 0; d < p.kernel[0]; ++d) {
    for (std::int64_t h = 0; h < p.kernel[1]; ++h) {
      for (std::int64_t w = 0; w < p.kernel[2]; ++w, ++tap) {
        const std::int64_t z = start[0] + d * p.dilation[0], y = start[1] + h * p.dilation[1], x = start[2] + w * p.dilation[2];
        if (z >= 0 && z < p.image[0] && y >= 0 && y < p.image[1] && x >= 0 && x < p.image[2])
          visit(tap, (z * p.image[1] + y) * p.image[2] + x);
      }
    }
  }
}

/// Largest element of one window by channel, and the tap it is under; -1 where the window sees padding only.
struct Best {
  explicit Best(std::int64_t channels) : taps(static_cast<std::size_t>(channels)) {}
  void find(const Plane& p, std::int64_t window, const float* image, std::int64_t pixel_stride, float* values) {
    const auto channels = static_cast<std::int64_t>(taps.size());
    bool first = true;
    std::fill_n(values, channels, -std::numeric_limits<float>::infinity());
    std::fill(taps.begin(), taps.end(), -1);
    for_taps(p, window, [&](std::int32_t tap, std::int64_t pixel) {
      const float* x = image + pixel * pixel_stride;
      if (first) {
        std::copy_n(x, channels, values);
        std::fill(taps.begin(), taps.end(), tap);
        first = false;
      } else {
        loops().largest(values, taps.data(), x, channels, tap);
      }
    });
  }
  std::vector<std::int32_t> taps;
};

void run_forward_pooling(const Call& call) {
  const Image image(call.in_shape(0));
  const Plane p = plane_of(call, call.in_shape(0), call.out_shape());
  const std::int64_t channels = image.channels, windows = p.windows_size();
  parallel_ranges(call.threads(), image.batch * windows, kElementsWorthAThread / channels + 1, [&](std::int64_t first, std::int64_t last) {
    Best best(channels);
    for (std::int64_t i = first; i < last; ++i)
      best.find(p, i % windows, call.in<float>(0) + i / windows * image.pixels * channels, channels, call.out<float>() + i * channels);
  });
}

constexpr std::int64_t kChannelsAtOnce = 64;

/// Adds the gradient of every window of one sample to where its largest elements are, for channels [first, first + count).
struct Scatter {
  const Plane& p;
  const reference::Crop& crop;
  std::int64_t channels, first, count;

  void run(const float* x, const float* dy, float* dx) const {
    Best best(count);
    std::vector<float> values(static_cast<std::size_t>(count));
    std::vector<std::int64_t> pixels(static_cast<std::size_t>(p.taps()));
    for (std::int64_t i = 0; i < crop.size(); ++i) std::fill_n(dx + i * channels + first, count, 0.0F);
    for (std::int64_t w = 0; w < p.windows_size(); ++w) {
      best.find(p, w, x + first, channels, values.data());
      for_taps(p, w, [&](std::int32_t tap, std::int64_t pixel) { pixels[static_cast<std::size_t>(tap)] = crop(pixel); });
      const float* gradient = dy + w * channels + first;
      for (std::int64_t c = 0; c < count; ++c) {
        const auto tap = best.taps[static_cast<std::size_t>(c)];
        const std::int64_t pixel = tap < 0 ? -1 : pixels[static_cast<std::size_t>(tap)];
        if (pixel >= 0) dx[pixel * channels + first + c] += gradient[c];
      }
    }
  }
};

/// X, dY -> dX.
void run_gradient_pooling(const Call& call) {
  const Image image(call.in_shape(0));
  const Plane p = plane_of(call, call.in_shape(0), call.in_shape(1));
  const reference::Crop crop(call, p);
  const std::int64_t channels = image.channels, blocks = (channels + kChannelsAtOnce - 1) / kChannelsAtOnce;
  parallel_items(call.threads(), image.batch * blocks, 1, [&](std::int64_t i) {
    const std::int64_t n = i / blocks, first = i % blocks * kChannelsAtOnce;
    const Scatter scatter{p, crop, channels, first, std::min(kChannelsAtOnce, channels - first)};
    scatter.run(call.in<float>(0) + n * image.pixels * channels, call.in<float>(1) + n * p.windows_size() * channels,
                call.out<float>() + n * crop.size() * channels);
  });
}

bool includes_pad_of_pooling(const Call& call) { return call.attributes().integer("count_include_pad", 0) != 0; }

void run_mean(const Call& call) {
  const reference::Planes planes(call, call.in_shape(0), call.out_shape());
  const std::vector<double> weights = reference::window_weights(planes, includes_pad_of_pooling(call));
  const Image image(call.in_shape(0));
  const std::int64_t channels = image.channels, windows = planes.plane.windows_size();
  parallel_items(call.threads(), image.batch * windows, kElementsWorthAThread / channels + 1, [&](std::int64_t i) {
    float* y = call.out<float>() + i * channels;
    const float* x = call.in<float>(0) + i / windows * image.pixels * channels;
    const auto weight = static_cast<float>(weights[static_cast<std::size_t>(i % windows)]);
    std::fill_n(y, channels, 0.0F);
    for_taps(planes.plane, i % windows,
             [&](std::int32_t, std::int64_t pixel) { loops().add_scaled(y, x + pixel * channels, channels, weight); });
  });
}

/// dY -> dX.
void run_mean_gradient(const Call& call) {
  const reference::Planes planes(call, call.out_shape(), call.in_shape(0));
  const std::vector<double> weights = reference::window_weights(planes, includes_pad_of_pooling(call));
  const Image image(call.out_shape());
  const std::int64_t channels = image.channels, windows = planes.plane.windows_size();
  const std::int64_t blocks = (channels + kChannelsAtOnce - 1) / kChannelsAtOnce;
  parallel_items(call.threads(), image.batch * blocks, 1, [&](std::int64_t i) {
    const std::int64_t n = i / blocks, first = i % blocks * kChannelsAtOnce, count = std::min(kChannelsAtOnce, channels - first);
    float* dx = call.out<float>() + n * image.pixels * channels + first;
    const float* dy = call.in<float>(0) + n * windows * channels + first;
    for (std::int64_t p = 0; p < image.pixels; ++p) std::fill_n(dx + p * channels, count, 0.0F);
    for (std::int64_t w = 0; w < windows; ++w) {
      const auto weight = static_cast<float>(weights[static_cast<std::size_t>(w)]);
      for_taps(planes.plane, w,
               [&](std::int32_t, std::int64_t pixel) { loops().add_scaled(dx + pixel * channels, dy + w * channels, count, weight); });
    }
  });
}

template <Body kBody>
std::unique_ptr<Kernel> make_pooling(const KernelRequest& request, std::string& reason) {
  return takes(request, reason) ? make_kernel(request, kBody) : nullptr;
}

/// Everything channels-last, when one operand is.
bool images_of_pooling(const plan::LocalNode& node, std::vector<plan::Format>& inputs, std::vector<plan::Format>& outputs) {
  const bool any = std::find(node.input_formats.begin(), node.input_formats.end(), plan::Format::ChannelsLast) != node.input_formats.end();
  if (!any) return false;
  std::fill(inputs.begin(), inputs.end(), plan::Format::ChannelsLast);
  outputs[0] = plan::Format::ChannelsLast;
  return true;
}

constexpr KernelRow kPoolingRows[] = {
    {"MaxPool", "native:pooling", make_pooling<run_forward_pooling>, images_of_pooling},
    {"MaxPoolGrad", "native:pooling", make_pooling<run_gradient_pooling>, images_of_pooling},
    {"AveragePool", "native:pooling", make_pooling<run_mean>, images_of_pooling},
    {"AveragePoolGrad", "native:pooling", make_pooling<run_mean_gradient>, images_of_pooling},
};

}  // namespace

std::span<const KernelRow> pooling_kernels() { return kPoolingRows; }

}  // namespace rehearsal::exec::native
