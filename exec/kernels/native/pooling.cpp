// Maximum and mean over windows of channels-last images: all channels of a pixel side by side.

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
template <class T>
struct Best {
  explicit Best(std::int64_t channels) : taps(static_cast<std::size_t>(channels)) {}
  void find(const Plane& p, std::int64_t window, const T* image, std::int64_t pixel_stride, float* values) {
    const auto channels = static_cast<std::int64_t>(taps.size());
    bool first = true;
    std::fill_n(values, channels, -std::numeric_limits<float>::infinity());
    std::fill(taps.begin(), taps.end(), -1);
    for_taps(p, window, [&](std::int32_t tap, std::int64_t pixel) {
      const T* x = image + pixel * pixel_stride;
      if (first) {
        loops_over<T>().to_f32(values, x, channels);
        std::fill(taps.begin(), taps.end(), tap);
        first = false;
      } else {
        loops_over<T>().largest(values, taps.data(), x, channels, tap);
      }
    });
  }
  std::vector<std::int32_t> taps;
};

struct PoolingMaximum {
  template <class T>
  static void run(const Call& call) {
    const Image image(call.in_shape(0));
    const Plane p = plane_of(call, call.in_shape(0), call.out_shape());
    const std::int64_t channels = image.channels, windows = p.windows_size();
    parallel_ranges(call.threads(), image.batch * windows, kElementsWorthAThread / channels + 1,
                    [&](std::int64_t first, std::int64_t last) {
                      Best<T> best(channels);
                      std::vector<float> values(static_cast<std::size_t>(channels));
                      for (std::int64_t i = first; i < last; ++i) {
                        best.find(p, i % windows, call.in<T>(0) + i / windows * image.pixels * channels, channels, values.data());
                        loops_over<T>().from_f32(call.out<T>() + i * channels, values.data(), channels);
                      }
                    });
  }
};

constexpr std::int64_t kChannelsAtOnce = 64;

/// Adds the gradient of every window of one sample to where its largest elements are, for channels [first, first + count), in `sums`.
template <class T>
struct Scatter {
  const Plane& p;
  const reference::Crop& crop;
  std::int64_t channels, first, count;

  void run(const T* x, const T* dy, float* sums) const {
    Best<T> best(count);
    std::vector<float> values(static_cast<std::size_t>(count));
    std::vector<float> gradient(static_cast<std::size_t>(count));
    std::vector<std::int64_t> pixels(static_cast<std::size_t>(p.taps()));
    std::fill_n(sums, crop.size() * count, 0.0F);
    for (std::int64_t w = 0; w < p.windows_size(); ++w) {
      best.find(p, w, x + first, channels, values.data());
      for_taps(p, w, [&](std::int32_t tap, std::int64_t pixel) { pixels[static_cast<std::size_t>(tap)] = crop(pixel); });
      loops_over<T>().to_f32(gradient.data(), dy + w * channels + first, count);
      for (std::int64_t c = 0; c < count; ++c) {
        const auto tap = best.taps[static_cast<std::size_t>(c)];
        const std::int64_t pixel = tap < 0 ? -1 : pixels[static_cast<std::size_t>(tap)];
        if (pixel >= 0) sums[pixel * count + c] += gradient[static_cast<std::size_t>(c)];
      }
    }
  }
};

/// X, dY -> dX.
struct MaximumGradient {
  template <class T>
  static void run(const Call& call) {
    const Image image(call.in_shape(0));
    const Plane p = plane_of(call, call.in_shape(0), call.in_shape(1));
    const reference::Crop crop(call, p);
    const std::int64_t channels = image.channels, blocks = (channels + kChannelsAtOnce - 1) / kChannelsAtOnce, all = image.batch * blocks;
    const std::int64_t parts = std::max<std::int64_t>(1, std::min<std::int64_t>(call.threads(), all));
    parallel_items(static_cast<int>(parts), parts, 1, [&](std::int64_t part) {
      auto* sums = static_cast<float*>(call.context.workspace) + part * crop.size() * kChannelsAtOnce;
      for (std::int64_t i = part * all / parts; i < (part + 1) * all / parts; ++i) {
        const std::int64_t n = i / blocks, first = i % blocks * kChannelsAtOnce, count = std::min(kChannelsAtOnce, channels - first);
        const Scatter<T> scatter{p, crop, channels, first, count};
        scatter.run(call.in<T>(0) + n * image.pixels * channels, call.in<T>(1) + n * p.windows_size() * channels, sums);
        T* dx = call.out<T>() + n * crop.size() * channels + first;
        for (std::int64_t at = 0; at < crop.size(); ++at) loops_over<T>().from_f32(dx + at * channels, sums + at * count, count);
      }
    });
  }
};

std::unique_ptr<Kernel> make_maximum_gradient(const KernelRequest& request, std::string& reason) {
  if (!takes(request, reason)) return nullptr;
  const std::int64_t pixels = Image(request.view().output().shape).pixels;
  return make_kernel(request, body_of<MaximumGradient>(request),
                     request.threads * pixels * kChannelsAtOnce * static_cast<std::int64_t>(sizeof(float)));
}

bool includes_pad(const Call& call) { return call.attributes().integer("count_include_pad", 0) != 0; }

void run_mean(const Call& call) {
  const reference::Planes planes(call, call.in_shape(0), call.out_shape());
  const std::vector<double> weights = reference::window_weights(planes, includes_pad(call));
  const Image image(call.in_shape(0));
  const std::int64_t channels = image.channels, windows = planes.plane.windows_size();
  parallel_items(call.threads(), image.batch * windows, kElementsWorthAThread / channels + 1, [&](std::int64_t i) {
    float* y = call.out<float>() + i * channels;
    const float* x = call.in<float>(0) + i / windows * image.pixels * channels;
    const auto weight = static_cast<float>(weights[static_cast<std::size_t>(i % windows)]);
    std::fill_n(y, channels, 0.0F);
    for_taps(planes.plane, i % windows,
             [&](std::int32_t, std::int64_t pixel) { loops_over<float>().add_scaled(y, x + pixel * channels, channels, weight); });
  });
}

/// dY -> dX.
void run_mean_gradient(const Call& call) {
  const reference::Planes planes(call, call.out_shape(), call.in_shape(0));
  const std::vector<double> weights = reference::window_weights(planes, includes_pad(call));
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
      for_taps(planes.plane, w, [&](std::int32_t, std::int64_t pixel) {
        loops_over<float>().add_scaled(dx + pixel * channels, dy + w * channels, count, weight);
      });
    }
  });
}

template <KernelBody kBody>
std::unique_ptr<Kernel> make_mean(const KernelRequest& request, std::string& reason) {
  return takes_f32(request, reason) ? make_kernel(request, kBody) : nullptr;
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
    {"MaxPool", "native:pooling", make<PoolingMaximum>, images_of_pooling},
    {"MaxPoolGrad", "native:pooling", make_maximum_gradient, images_of_pooling},
    {"AveragePool", "native:pooling", make_mean<run_mean>, images_of_pooling},
    {"AveragePoolGrad", "native:pooling", make_mean<run_mean_gradient>, images_of_pooling},
};

}  // namespace

std::span<const KernelRow> pooling_kernels() { return kPoolingRows; }

}  // namespace rehearsal::exec::native
