// Batch, group and instance normalization in both orders: in channels-last order pixels are rows and channels columns, in plain order each
// channel of each sample is a row. Batch normalization takes the batch together, the others each sample by itself: what a channel is
// multiplied by then depends on the sample.

#include <cmath>

#include "exec/kernels/native/families.hpp"
#include "exec/kernels/native/native.hpp"

namespace rehearsal::exec::native {
namespace {

/// An image and what is known of it: sums [2, channels] are of the whole batch, sums [2, samples, groups] of a sample's channels.
struct NormalizedImage {
  Image image;
  std::int64_t taken;   ///< samples that have statistics of their own; 1: the batch has them together
  std::int64_t groups;  ///< of channels that have statistics together
  bool rows_are_pixels;

  NormalizedImage(const graph::Shape& shape, const graph::Shape& sums, plan::Format format)
      : image(shape),
        taken(sums.size() == 3 ? sums[1] : 1),
        groups(sums.back()),
        rows_are_pixels(format == plan::Format::ChannelsLast || image.pixels == 1) {}
  NormalizedImage(const Call& call, const graph::Shape& sums) : NormalizedImage(call.in_shape(0), sums, call.inputs[0].format) {}

  /// Channels with factors of their own: of all samples that are taken by themselves.
  [[nodiscard]] std::int64_t channels() const { return taken * image.channels; }
  [[nodiscard]] std::int64_t statistics() const { return taken * groups; }
  [[nodiscard]] std::int64_t statistic_of(std::int64_t channel) const {
    return channel / image.channels * groups + channel % image.channels / (image.channels / groups);
  }
  /// Pixels of what is taken together.
  [[nodiscard]] std::int64_t pixels() const { return image.batch / taken * image.pixels; }
  [[nodiscard]] ColumnSums column_sums() const { return {pixels(), image.channels, 2 * image.channels, taken}; }
};

struct Moments {
  std::vector<double> mean, inverse;  ///< by channel; inverse deviation
};

Moments moments_of(const Call& call, const NormalizedImage& of) {
  const double count = static_cast<double>(call.attributes().integer("count", 1)), epsilon = call.attributes().number("epsilon", 1e-5);
  const auto* sums = call.in<double>(1);
  Moments m;
  for (std::int64_t c = 0; c < of.channels(); ++c) {
    const std::int64_t s = of.statistic_of(c);
    const double mean = sums[s] / count, variance = std::max(0.0, sums[of.statistics() + s] / count - mean * mean);
    m.mean.push_back(mean);
    m.inverse.push_back(1.0 / std::sqrt(variance + epsilon));
  }
  return m;
}

/// Two sums a channel.
struct SumsByChannel {
  std::vector<double> first, second;
};

/// of_row(channel, first element, elements) returns two sums over part of a channel's row; of_block(first channel, first element, rows, two
/// rows of sums) adds those of a block of pixels.
template <class Row, class Block>
SumsByChannel sums_by_channel(const Call& call, const NormalizedImage& of, const Row& of_row, const Block& of_block) {
  constexpr std::int64_t kStays = 1 << 13;  // elements that are still in the first cache when they are read again
  const auto [batch, channels, pixels] = of.image;
  SumsByChannel sums{std::vector<double>(static_cast<std::size_t>(of.channels())),
                     std::vector<double>(static_cast<std::size_t>(of.channels()))};
  auto *first = sums.first.data(), *second = sums.second.data();
  if (of.rows_are_pixels) {
    std::vector<double> total(static_cast<std::size_t>(2 * of.channels()));
    sum_parts(call, of.column_sums(), total.data(), [&, channels = channels](std::int64_t row, std::int64_t rows, double* part) {
      of_block(row / of.pixels() * channels, row * channels, rows, part);
    });
    for (std::int64_t c = 0; c < of.channels(); ++c) {
      const double* of_sample = total.data() + c / channels * 2 * channels + c % channels;
      first[c] = of_sample[0];
      second[c] = of_sample[channels];
    }
    return sums;
  }
  parallel_items(call.threads(), of.channels(), 1, [&, rows = batch * channels, pixels = pixels](std::int64_t c) {
    for (std::int64_t row = c; row < rows; row += of.channels())
      for (std::int64_t at = 0; at < pixels; at += kStays) {
        const auto [a, b] = of_row(c, row * pixels + at, std::min(kStays, pixels - at));
        first[c] += a;
        second[c] += b;
      }
  });
  return sums;
}

/// Rows of a plain image: row(channel, first element); or blocks of pixels of a channels-last one: block(first channel, first element,
/// rows), in parallel.
template <class Row, class Block>
void for_elements(const Call& call, const NormalizedImage& of, const Row& row, const Block& block) {
  const auto [batch, channels, pixels] = of.image;
  if (of.rows_are_pixels) {
    parallel_ranges(call.threads(), batch * pixels, kElementsWorthAThread / channels + 1,
                    [&, channels = channels](std::int64_t at, std::int64_t last) {
                      while (at < last) {
                        const std::int64_t sample = at / of.pixels(), end = std::min(last, (sample + 1) * of.pixels());
                        block(sample * channels, at * channels, end - at);
                        at = end;
                      }
                    });
  } else {
    parallel_items(call.threads(), batch * channels, kElementsWorthAThread / pixels + 1,
                   [&, pixels = pixels](std::int64_t i) { row(i % of.channels(), i * pixels); });
  }
}

/// X -> [sum, sum of squares].
struct NormalizationSums {
  template <class T>
  static void run(const Call& call) {
    const NormalizedImage of(call, call.out_shape());
    const auto* x = call.in<T>(0);
    const auto sums = sums_by_channel(
        call, of,
        [&](std::int64_t, std::int64_t at, std::int64_t n) {
          return std::pair(loops_over<T>().row_sum(x + at, n), loops_over<T>().row_squares(x + at, n, 0.0));
        },
        [&](std::int64_t, std::int64_t at, std::int64_t rows, double* part) {
          loops_over<T>().column_moments(x + at, rows, of.image.channels, part, part + of.image.channels);
        });
    auto* out = call.out<double>();
    std::fill_n(out, 2 * of.statistics(), 0.0);
    for (std::int64_t c = 0; c < of.channels(); ++c) {
      out[of.statistic_of(c)] += sums.first[static_cast<std::size_t>(c)];
      out[of.statistics() + of.statistic_of(c)] += sums.second[static_cast<std::size_t>(c)];
    }
  }
};

/// X, sums, scale, bias -> Y.
struct NormalizationApply {
  template <class T>
  static void run(const Call& call) {
    const NormalizedImage of(call, call.in_shape(1));
    const auto m = moments_of(call, of);
    std::vector<double> slope(m.mean.size()), offset(m.mean.size());
    for (std::size_t c = 0; c < slope.size(); ++c) {
      const std::size_t own = c % static_cast<std::size_t>(of.image.channels);
      slope[c] = static_cast<double>(number(call.in<T>(2)[own])) * m.inverse[c];
      offset[c] = static_cast<double>(number(call.in<T>(3)[own])) - m.mean[c] * slope[c];
    }
    const auto* x = call.in<T>(0);
    auto* y = call.out<T>();
    for_elements(
        call, of,
        [&](std::int64_t channel, std::int64_t at) {
          const auto c = static_cast<std::size_t>(channel);
          loops_over<T>().row_affine(y + at, x + at, of.image.pixels, {slope[c], offset[c]});
        },
        [&](std::int64_t c, std::int64_t at, std::int64_t rows) {
          loops_over<T>().column_affine(y + at, x + at, rows, of.image.channels, slope.data() + c, offset.data() + c);
        });
  }
};

/// Of every channel: the sum of dY, and that of dY times the normalized X.
template <class T>
SumsByChannel gradients_by_channel(const Call& call, const NormalizedImage& of, const T* dy) {
  const auto m = moments_of(call, of);
  const auto* x = call.in<T>(0);
  auto sums = sums_by_channel(
      call, of,
      [&](std::int64_t c, std::int64_t at, std::int64_t n) {
        return std::pair(loops_over<T>().row_sum(dy + at, n),
                         loops_over<T>().row_product(dy + at, x + at, n, m.mean[static_cast<std::size_t>(c)]));
      },
      [&](std::int64_t c, std::int64_t at, std::int64_t rows, double* part) {
        loops_over<T>().column_gradient(x + at, dy + at, rows, of.image.channels, m.mean.data() + c, part, part + of.image.channels);
      });
  for (std::size_t c = 0; c < sums.second.size(); ++c) sums.second[c] *= m.inverse[c];
  return sums;
}

/// X, sums, [scale if Scaled], dY -> sums of (scale) dY and of (scale) dY times the normalized X.
template <bool Scaled>
struct GradientSums {
  template <class T>
  static void run(const Call& call) {
    const NormalizedImage of(call, call.in_shape(1));
    const auto sums = gradients_by_channel(call, of, call.in<T>(Scaled ? 3 : 2));
    auto* out = call.out<double>();
    std::fill_n(out, 2 * of.statistics(), 0.0);
    for (std::int64_t c = 0; c < of.channels(); ++c) {
      const double scale = Scaled ? static_cast<double>(number(call.in<T>(2)[c % of.image.channels])) : 1.0;
      out[of.statistic_of(c)] += scale * sums.first[static_cast<std::size_t>(c)];
      out[of.statistics() + of.statistic_of(c)] += scale * sums.second[static_cast<std::size_t>(c)];
    }
  }
};

/// X, sums, dY -> dscale, dbias of group normalization.
struct GradientParameters {
  template <class T>
  static void run(const Call& call) {
    const NormalizedImage of(call, call.in_shape(1));
    const auto sums = gradients_by_channel(call, of, call.in<T>(2));
    for (std::int64_t c = 0; c < of.image.channels; ++c) {
      double scale = 0, bias = 0;
      for (std::int64_t i = c; i < of.channels(); i += of.image.channels) {
        scale += sums.second[static_cast<std::size_t>(i)];
        bias += sums.first[static_cast<std::size_t>(i)];
      }
      if (call.has_output(0)) call.out<T>(0)[c] = rounded<T>(static_cast<float>(scale));
      if (call.has_output(1)) call.out<T>(1)[c] = rounded<T>(static_cast<float>(bias));
    }
  }
};

/// X, sums, scale, dY, gradient sums, which contain the scale if Scaled -> dX.
template <bool Scaled>
struct NormalizationGradientInput {
  template <class T>
  static void run(const Call& call) {
    const NormalizedImage of(call, call.in_shape(1));
    const auto m = moments_of(call, of);
    const double *gradients = call.in<double>(4), count = static_cast<double>(call.attributes().integer("count", 1));
    const std::size_t channels = m.mean.size();
    std::vector<double> dy_factor(channels), x_factor(channels), constant(channels);
    for (std::size_t c = 0; c < channels; ++c) {
      const std::int64_t s = of.statistic_of(static_cast<std::int64_t>(c));
      const double slope = m.inverse[c] * static_cast<double>(number(call.in<T>(2)[c % static_cast<std::size_t>(of.image.channels)]));
      const double factor = (Scaled ? m.inverse[c] : slope) / count, linear = factor * gradients[of.statistics() + s] * m.inverse[c];
      dy_factor[c] = slope;
      x_factor[c] = -linear;
      constant[c] = linear * m.mean[c] - factor * gradients[s];
    }
    const auto *x = call.in<T>(0), *dy = call.in<T>(3);
    auto* dx = call.out<T>();
    for_elements(
        call, of,
        [&](std::int64_t channel, std::int64_t at) {
          const auto c = static_cast<std::size_t>(channel);
          loops_over<T>().row_line(dx + at, dy + at, x + at, of.image.pixels, {dy_factor[c], x_factor[c], constant[c]});
        },
        [&](std::int64_t c, std::int64_t at, std::int64_t rows) {
          loops_over<T>().column_line(dx + at, dy + at, x + at, rows, of.image.channels, dy_factor.data() + c, x_factor.data() + c,
                                      constant.data() + c);
        });
  }
};

/// Operand 1 is the sums, except of what adds them up.
template <class B>
std::unique_ptr<Kernel> make_sums(const KernelRequest& request, std::string& reason) {
  if (!takes(request, reason)) return nullptr;
  const auto view = request.view();
  const NormalizedImage of(view.input(0).shape, view.has_input(1) ? view.input(1).shape : view.output().shape, request.input_formats[0]);
  const auto sums = of.column_sums();
  const std::int64_t doubles = of.rows_are_pixels ? sums.matrices * parts_of(sums.rows, sums.columns) * sums.width : 0;
  return make_kernel(request, body_of<B>(request), doubles * static_cast<std::int64_t>(sizeof(double)));
}

/// Sums of two samples may be shaped as the image, and have no order of pixels.
bool follow_image_beside_sums(const plan::LocalNode& node, std::vector<plan::Format>& inputs, std::vector<plan::Format>& outputs) {
  follow_operand(node, inputs, outputs);
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (node.inputs[i]->dtype == DType::F64) inputs[i] = plan::Format::Plain;
  if (node.outputs[0] && node.outputs[0]->dtype == DType::F64) outputs[0] = plan::Format::Plain;
  return true;
}

constexpr std::string_view kNormalizationName = "native:normalization";
constexpr KernelRow kNormalizationRows[] = {
    {"BatchNormSums", kNormalizationName, make_sums<NormalizationSums>, follow_image_beside_sums},
    {"BatchNormApply", kNormalizationName, make<NormalizationApply>, follow_image_beside_sums},
    {"BatchNormGradSums", kNormalizationName, make_sums<GradientSums<false>>, follow_image_beside_sums},
    {"BatchNormGradInput", kNormalizationName, make<NormalizationGradientInput<false>>, follow_image_beside_sums},
    {"GroupNormSums", kNormalizationName, make_sums<NormalizationSums>, follow_image_beside_sums},
    {"GroupNormApply", kNormalizationName, make<NormalizationApply>, follow_image_beside_sums},
    {"GroupNormGradSums", kNormalizationName, make_sums<GradientSums<true>>, follow_image_beside_sums},
    {"GroupNormGradInput", kNormalizationName, make<NormalizationGradientInput<true>>, follow_image_beside_sums},
    {"GroupNormGradParameters", kNormalizationName, make_sums<GradientParameters>, follow_image_beside_sums},
};

}  // namespace

std::span<const KernelRow> normalization_kernels() { return kNormalizationRows; }

}  // namespace rehearsal::exec::native
