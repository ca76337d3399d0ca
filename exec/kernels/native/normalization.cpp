// Batch normalization in both orders: in channels-last order pixels are rows and channels columns, in plain order each channel of each
// sample is a row.

#include <cmath>

#include "exec/kernels/native/families.hpp"
#include "exec/kernels/native/native.hpp"

namespace rehearsal::exec::native {
namespace {

struct Moments {
  std::vector<double> mean, inverse;  ///< by channel; inverse deviation
};

Moments moments_of(const Call& call, std::int64_t channels) {
  const double count = static_cast<double>(call.attributes().integer("count", 1)), epsilon = call.attributes().number("epsilon", 1e-5);
  const auto* sums = call.in<double>(1);
  Moments m{std::vector<double>(static_cast<std::size_t>(channels)), std::vector<double>(static_cast<std::size_t>(channels))};
  for (std::size_t c = 0; c < m.mean.size(); ++c) {
    m.mean[c] = sums[c] / count;
    const double variance = std::max(0.0, sums[m.mean.size() + c] / count - m.mean[c] * m.mean[c]);
    m.inverse[c] = 1.0 / std::sqrt(variance + epsilon);
  }
  return m;
}

/// Calls body(channel, first element, of the totals) for every channel of a plain image, samples in order.
template <class F>
void for_channels(const Call& call, const Image& image, const F& body) {
  parallel_items(call.threads(), image.channels, 1, [&](std::int64_t c) {
    for (std::int64_t n = 0; n < image.batch; ++n) body(c, (n * image.channels + c) * image.pixels);
  });
}

/// Rows of a plain image, or blocks of pixels of a channels-last one, in parallel.
template <class Row, class Block>
void for_elements(const Call& call, const Image& image, const Row& row, const Block& block) {
  if (channels_last(call.inputs[0])) {
    parallel_ranges(call.threads(), image.batch * image.pixels, kElementsWorthAThread / image.channels + 1,
                    [&](std::int64_t first, std::int64_t last) { block(first, last - first); });
  } else {
    parallel_items(call.threads(), image.batch * image.channels, kElementsWorthAThread / image.pixels + 1,
                   [&](std::int64_t i) { row(i % image.channels, i * image.pixels); });
  }
}

/// X -> [sum, sum of squares].
struct NormalizationSums {
  template <class T>
  static void run(const Call& call) {
    const Image image(call.in_shape(0));
    const auto* x = call.in<T>(0);
    auto* out = call.out<double>();
    const auto channels = image.channels;
    if (channels_last(call.inputs[0])) {
      return sum_parts(call, {image.batch * image.pixels, channels, 2 * channels}, out,
                       [&](std::int64_t first, std::int64_t rows, double* sums) {
                         loops_over<T>().column_moments(x + first * channels, rows, channels, sums, sums + channels);
                       });
    }
    std::fill_n(out, 2 * channels, 0.0);
    for_channels(call, image, [&](std::int64_t c, std::int64_t at) {
      out[c] += loops_over<T>().row_sum(x + at, image.pixels);
      out[channels + c] += loops_over<T>().row_squares(x + at, image.pixels, 0.0);
    });
  }
};

/// X, sums, scale, bias -> Y.
struct NormalizationApply {
  template <class T>
  static void run(const Call& call) {
    const Image image(call.in_shape(0));
    const auto m = moments_of(call, image.channels);
    std::vector<double> slope(m.mean.size()), offset(m.mean.size());
    for (std::size_t c = 0; c < slope.size(); ++c) {
      const double s = static_cast<double>(number(call.in<T>(2)[c])) * m.inverse[c];
      slope[c] = s;
      offset[c] = static_cast<double>(number(call.in<T>(3)[c])) - m.mean[c] * s;
    }
    const auto* x = call.in<T>(0);
    auto* y = call.out<T>();
    for_elements(
        call, image,
        [&](std::int64_t c, std::int64_t at) {
          loops_over<T>().row_affine(y + at, x + at, image.pixels,
                                     {slope[static_cast<std::size_t>(c)], offset[static_cast<std::size_t>(c)]});
        },
        [&](std::int64_t first, std::int64_t rows) {
          loops_over<T>().column_affine(y + first * image.channels, x + first * image.channels, rows, image.channels, slope.data(),
                                        offset.data());
        });
  }
};

/// X, sums, dY -> [sum of dY, sum of dY times the normalized X].
struct GradientSums {
  template <class T>
  static void run(const Call& call) {
    const Image image(call.in_shape(0));
    const auto m = moments_of(call, image.channels);
    const auto *x = call.in<T>(0), *dy = call.in<T>(2);
    auto* out = call.out<double>();
    const auto channels = image.channels;
    if (channels_last(call.inputs[0])) {
      sum_parts(call, {image.batch * image.pixels, channels, 2 * channels}, out, [&](std::int64_t first, std::int64_t rows, double* sums) {
        loops_over<T>().column_gradient(x + first * channels, dy + first * channels, rows, channels, m.mean.data(), sums, sums + channels);
      });
    } else {
      std::fill_n(out, 2 * channels, 0.0);
      for_channels(call, image, [&](std::int64_t c, std::int64_t at) {
        out[c] += loops_over<T>().row_sum(dy + at, image.pixels);
        out[channels + c] += loops_over<T>().row_product(dy + at, x + at, image.pixels, m.mean[static_cast<std::size_t>(c)]);
      });
    }
    for (std::int64_t c = 0; c < channels; ++c) out[channels + c] *= m.inverse[static_cast<std::size_t>(c)];
  }
};

/// X, sums, scale, dY, gradient sums -> dX.
struct NormalizationGradientInput {
  template <class T>
  static void run(const Call& call) {
    const Image image(call.in_shape(0));
    const auto m = moments_of(call, image.channels);
    const double *gradients = call.in<double>(4), count = static_cast<double>(call.attributes().integer("count", 1));
    const std::size_t channels = m.mean.size();
    std::vector<double> dy_factor(channels), x_factor(channels), constant(channels);
    for (std::size_t c = 0; c < channels; ++c) {
      const double slope = m.inverse[c] * static_cast<double>(number(call.in<T>(2)[c]));
      const double linear = slope / count * gradients[channels + c] * m.inverse[c];
      dy_factor[c] = slope;
      x_factor[c] = -linear;
      constant[c] = linear * m.mean[c] - slope / count * gradients[c];
    }
    const auto *x = call.in<T>(0), *dy = call.in<T>(3);
    auto* dx = call.out<T>();
    for_elements(
        call, image,
        [&](std::int64_t channel, std::int64_t at) {
          const auto c = static_cast<std::size_t>(channel);
          loops_over<T>().row_line(dx + at, dy + at, x + at, image.pixels, {dy_factor[c], x_factor[c], constant[c]});
        },
        [&](std::int64_t first, std::int64_t rows) {
          const std::int64_t at = first * image.channels;
          loops_over<T>().column_line(dx + at, dy + at, x + at, rows, image.channels, dy_factor.data(), x_factor.data(), constant.data());
        });
  }
};

std::int64_t workspace_of(const KernelRequest& request) {
  const Image image(request.view().input(0).shape);
  if (request.input_formats[0] != plan::Format::ChannelsLast) return 0;
  return parts_of(image.batch * image.pixels, image.channels) * 2 * image.channels * static_cast<std::int64_t>(sizeof(double));
}

template <class B>
std::unique_ptr<Kernel> make_sums(const KernelRequest& request, std::string& reason) {
  return takes(request, reason) ? make_kernel(request, body_of<B>(request), workspace_of(request)) : nullptr;
}

bool follow_image(const plan::LocalNode& node, std::vector<plan::Format>& inputs, std::vector<plan::Format>& outputs) {
  return is_image(node.inputs[0]->shape) && follow_operand(node, inputs, outputs);
}

constexpr std::string_view kNormalizationName = "native:normalization";
constexpr KernelRow kNormalizationRows[] = {
    {"BatchNormSums", kNormalizationName, make_sums<NormalizationSums>, follow_image},
    {"BatchNormApply", kNormalizationName, make<NormalizationApply>, follow_image},
    {"BatchNormGradSums", kNormalizationName, make_sums<GradientSums>, follow_image},
    {"BatchNormGradInput", kNormalizationName, make<NormalizationGradientInput>, follow_image},
};

}  // namespace

std::span<const KernelRow> normalization_kernels() { return kNormalizationRows; }

}  // namespace rehearsal::exec::native
