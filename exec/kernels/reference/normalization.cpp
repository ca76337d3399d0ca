// Batch and group normalization share their kernels: both keep sums per statistic, and differ in which statistic an element belongs to.

#include <cmath>

#include "exec/kernels/reference/families.hpp"
#include "exec/kernels/reference/reference.hpp"
#include "exec/kernels/reference/partial_sums.hpp"

namespace rehearsal::exec::reference {
namespace {

/// An image [batch, channels, spatial...] as rows of one channel of one sample, and the statistic that each row belongs to:
/// sums [2, c] are of a channel over the batch, sums [2, n, groups] of a sample's group of channels.
struct NormalizationLayout {
  std::int64_t batch, channels, length = 1, groups;
  bool per_sample;

  NormalizationLayout(const graph::Shape& image, const graph::Shape& sums)
      : batch(image[0]), channels(image[1]), groups(sums.back()), per_sample(sums.size() == 3) {
    for (std::size_t d = 2; d < image.size(); ++d) length *= image[d];
  }

  [[nodiscard]] std::int64_t statistics() const { return per_sample ? batch * groups : groups; }
  [[nodiscard]] std::int64_t rows() const { return batch * channels; }
  [[nodiscard]] std::int64_t statistic_of(std::int64_t row) const {
    const std::int64_t group = row % channels / (channels / groups);
    return per_sample ? row / channels * groups + group : group;
  }
  /// Calls visit(row) for every row of statistic s.
  template <class F>
  void for_rows_of(std::int64_t s, F&& visit) const {
    const std::int64_t each = channels / groups, first = s % groups * each;
    const std::int64_t begin = per_sample ? s / groups : 0, end = per_sample ? begin + 1 : batch;
    for (std::int64_t n = begin; n < end; ++n) {
      for (std::int64_t c = first; c < first + each; ++c) visit(n * channels + c);
    }
  }
};

struct NormalizationMoments {
  double mean, variance;
};
/// Mean and biased variance of statistic s of `statistics`.
NormalizationMoments moments_of(const double* sums, std::int64_t statistics, std::int64_t s, const graph::Attributes& attributes) {
  const double count = static_cast<double>(attributes.integer("count", 1)), mean = sums[s] / count;
  return {mean, std::max(0.0, sums[statistics + s] / count - mean * mean)};
}
double inverse_deviation(double variance, const graph::Attributes& attributes) {
  return 1.0 / std::sqrt(variance + attributes.number("epsilon", 1e-5));
}

/// x * slope + offset for one row.
template <class T>
void apply_row(T* y, const T* x, std::int64_t length, double slope, double offset) {
  for (std::int64_t i = 0; i < length; ++i) y[i] = static_cast<T>(static_cast<double>(x[i]) * slope + offset);
}

/// X -> sums.
struct NormalizationSums {
  template <class T>
  static void run(const Call& call) {
    const NormalizationLayout layout(call.in_shape(0), call.out_shape());
    auto* sums = call.out<double>();
    parallel_items(call.threads(), layout.statistics(), 1, [&](std::int64_t s) {
      double sum = 0, squares = 0;
      layout.for_rows_of(s, [&](std::int64_t row) {
        const T* x = call.in<T>(0) + row * layout.length;
        sum += sum_of(layout.length, [&](std::int64_t i) { return static_cast<double>(x[i]); });
        squares += sum_of(layout.length, [&](std::int64_t i) { return static_cast<double>(x[i]) * static_cast<double>(x[i]); });
      });
      sums[s] = sum;
      sums[layout.statistics() + s] = squares;
    });
  }
};

/// X, sums, scale, bias -> Y.
struct NormalizationApply {
  template <class T>
  static void run(const Call& call) {
    const NormalizationLayout layout(call.in_shape(0), call.in_shape(1));
    parallel_items(call.threads(), layout.rows(), 4, [&](std::int64_t row) {
      const NormalizationMoments m = moments_of(call.in<double>(1), layout.statistics(), layout.statistic_of(row), call.attributes());
      const std::int64_t c = row % layout.channels;
      const double slope = static_cast<double>(call.in<T>(2)[c]) * inverse_deviation(m.variance, call.attributes());
      apply_row(call.out<T>() + row * layout.length, call.in<T>(0) + row * layout.length, layout.length, slope,
                static_cast<double>(call.in<T>(3)[c]) - m.mean * slope);
    });
  }
};

/// Sum of dy, and of dy times the normalized x, over one row.
struct RowGradient {
  double dy, dy_normalized;
};
template <class T>
RowGradient row_gradient(const T* x, const T* dy, std::int64_t length, NormalizationMoments m, double inverse) {
  return {sum_of(length, [&](std::int64_t i) { return static_cast<double>(dy[i]); }),
          inverse * sum_of(length, [&](std::int64_t i) { return static_cast<double>(dy[i]) * (static_cast<double>(x[i]) - m.mean); })};
}

/// X, sums, [scale if Scaled], dY -> sums of (scale) dY and of (scale) dY times the normalized X.
template <bool Scaled>
struct GradSums {
  template <class T>
  static void run(const Call& call) {
    const NormalizationLayout layout(call.in_shape(0), call.in_shape(1));
    auto* sums = call.out<double>();
    parallel_items(call.threads(), layout.statistics(), 1, [&](std::int64_t s) {
      const NormalizationMoments m = moments_of(call.in<double>(1), layout.statistics(), s, call.attributes());
      const double inverse = inverse_deviation(m.variance, call.attributes());
      RowGradient total{0, 0};
      layout.for_rows_of(s, [&](std::int64_t row) {
        const std::int64_t at = row * layout.length;
        const RowGradient r = row_gradient(call.in<T>(0) + at, call.in<T>(Scaled ? 3 : 2) + at, layout.length, m, inverse);
        const double weight = Scaled ? static_cast<double>(call.in<T>(2)[row % layout.channels]) : 1.0;
        total.dy += weight * r.dy;
        total.dy_normalized += weight * r.dy_normalized;
      });
      sums[s] = total.dy;
      sums[layout.statistics() + s] = total.dy_normalized;
    });
  }
};

/// X, sums, scale, dY, gradient sums -> dX = (scale dY - (sum + normalized X * sum') / count) / deviation, where the sums contain
/// the scale if Scaled.
template <bool Scaled>
struct NormalizationGradInput {
  template <class T>
  static void run(const Call& call) {
    const NormalizationLayout layout(call.in_shape(0), call.in_shape(1));
    const double *gradients = call.in<double>(4), count = static_cast<double>(call.attributes().integer("count", 1));
    parallel_items(call.threads(), layout.rows(), 4, [&](std::int64_t row) {
      const std::int64_t s = layout.statistic_of(row), at = row * layout.length;
      const NormalizationMoments m = moments_of(call.in<double>(1), layout.statistics(), s, call.attributes());
      const double inverse = inverse_deviation(m.variance, call.attributes()),
                   slope = inverse * static_cast<double>(call.in<T>(2)[row % layout.channels]);
      const double factor = (Scaled ? inverse : slope) / count;
      const double constant = factor * gradients[s], linear = factor * gradients[layout.statistics() + s] * inverse;
      const T *x = call.in<T>(0) + at, *dy = call.in<T>(3) + at;
      T* dx = call.out<T>() + at;
      for (std::int64_t i = 0; i < layout.length; ++i) {
        dx[i] = static_cast<T>(slope * static_cast<double>(dy[i]) - constant - linear * (static_cast<double>(x[i]) - m.mean));
      }
    });
  }
};

/// Gradient sums, scale -> dscale, dbias.
struct BatchNormGradParameters {
  template <class T>
  static void run(const Call& call) {
    const std::int64_t channels = call.in_shape(0)[1];
    for (std::int64_t c = 0; c < channels; ++c) {
      if (call.has_output(0)) call.out<T>(0)[c] = static_cast<T>(call.in<double>(0)[channels + c]);
      if (call.has_output(1)) call.out<T>(1)[c] = static_cast<T>(call.in<double>(0)[c]);
    }
  }
};

/// Sums, running mean, running variance -> new ones. One element has no unbiased variance; its biased one is kept.
struct BatchNormRunning {
  template <class T>
  static void run(const Call& call) {
    const std::int64_t channels = call.in_shape(0)[1];
    const double momentum = call.attributes().number("momentum", 0.9), count = static_cast<double>(call.attributes().integer("count", 1));
    for (std::int64_t c = 0; c < channels; ++c) {
      const NormalizationMoments m = moments_of(call.in<double>(0), channels, c, call.attributes());
      const double unbiased = m.variance * count / std::max(1.0, count - 1);
      const auto blend = [&](T old, double fresh) { return static_cast<T>(static_cast<double>(old) * momentum + fresh * (1 - momentum)); };
      if (call.has_output(0)) call.out<T>(0)[c] = blend(call.in<T>(1)[c], m.mean);
      if (call.has_output(1)) call.out<T>(1)[c] = blend(call.in<T>(2)[c], unbiased);
    }
  }
};

/// X, dY, and the moments of every row -> dscale, dbias.
template <class T, class MomentsOf>
void write_scale_gradients(const Call& call, const NormalizationLayout& layout, const T* dy, const MomentsOf& moments) {
  parallel_items(call.threads(), layout.channels, 1, [&](std::int64_t c) {
    RowGradient total{0, 0};
    for (std::int64_t row = c; row < layout.rows(); row += layout.channels) {
      const NormalizationMoments m = moments(row);
      const std::int64_t at = row * layout.length;
      const RowGradient r = row_gradient(call.in<T>(0) + at, dy + at, layout.length, m, inverse_deviation(m.variance, call.attributes()));
      total.dy += r.dy;
      total.dy_normalized += r.dy_normalized;
    }
    if (call.has_output(0)) call.out<T>(0)[c] = static_cast<T>(total.dy_normalized);
    if (call.has_output(1)) call.out<T>(1)[c] = static_cast<T>(total.dy);
  });
}

/// X, sums, dY -> dscale, dbias of group normalization.
struct GroupNormGradParameters {
  template <class T>
  static void run(const Call& call) {
    const NormalizationLayout layout(call.in_shape(0), call.in_shape(1));
    write_scale_gradients(call, layout, call.in<T>(2), [&](std::int64_t row) {
      return moments_of(call.in<double>(1), layout.statistics(), layout.statistic_of(row), call.attributes());
    });
  }
};

/// X, scale, bias, mean, variance -> Y.
struct Inference {
  template <class T>
  static void run(const Call& call) {
    const NormalizationLayout layout(call.in_shape(0), call.in_shape(1));
    parallel_items(call.threads(), layout.rows(), 4, [&](std::int64_t row) {
      const std::int64_t c = row % layout.channels, at = row * layout.length;
      const double slope =
          static_cast<double>(call.in<T>(1)[c]) * inverse_deviation(static_cast<double>(call.in<T>(4)[c]), call.attributes());
      apply_row(call.out<T>() + at, call.in<T>(0) + at, layout.length, slope,
                static_cast<double>(call.in<T>(2)[c]) - static_cast<double>(call.in<T>(3)[c]) * slope);
    });
  }
};

/// dY, scale, variance -> dX.
struct InferenceGradInput {
  template <class T>
  static void run(const Call& call) {
    const NormalizationLayout layout(call.in_shape(0), call.in_shape(1));
    parallel_items(call.threads(), layout.rows(), 4, [&](std::int64_t row) {
      const std::int64_t c = row % layout.channels, at = row * layout.length;
      const double slope =
          static_cast<double>(call.in<T>(1)[c]) * inverse_deviation(static_cast<double>(call.in<T>(2)[c]), call.attributes());
      apply_row(call.out<T>() + at, call.in<T>(0) + at, layout.length, slope, 0.0);
    });
  }
};

/// X, mean, variance, dY -> dscale, dbias.
struct InferenceGradParameters {
  template <class T>
  static void run(const Call& call) {
    const NormalizationLayout layout(call.in_shape(0), call.in_shape(1));
    write_scale_gradients(call, layout, call.in<T>(3), [&](std::int64_t row) {
      const std::int64_t c = row % layout.channels;
      return NormalizationMoments{static_cast<double>(call.in<T>(1)[c]), static_cast<double>(call.in<T>(2)[c])};
    });
  }
};

const KernelRow kNormalizationRows[] = {
    {"BatchNormSums", "reference:any", make_by_input<NormalizationSums, Floats>},
    {"BatchNormApply", "reference:any", make_by_output<NormalizationApply, Floats>},
    {"BatchNormGradSums", "reference:any", make_by_input<GradSums<false>, Floats>},
    {"BatchNormGradInput", "reference:any", make_by_output<NormalizationGradInput<false>, Floats>},
    {"BatchNormGradParameters", "reference:any", make_by_input<BatchNormGradParameters, Floats, 1>},
    {"BatchNormRunning", "reference:any", make_by_input<BatchNormRunning, Floats, 1>},
    {"BatchNormInference", "reference:any", make_by_output<Inference, Floats>},
    {"BatchNormInferenceGradInput", "reference:any", make_by_output<InferenceGradInput, Floats>},
    {"BatchNormInferenceGradParameters", "reference:any", make_by_input<InferenceGradParameters, Floats>},
    {"GroupNormSums", "reference:any", make_by_input<NormalizationSums, Floats>},
    {"GroupNormApply", "reference:any", make_by_output<NormalizationApply, Floats>},
    {"GroupNormGradSums", "reference:any", make_by_input<GradSums<true>, Floats>},
    {"GroupNormGradInput", "reference:any", make_by_output<NormalizationGradInput<true>, Floats>},
    {"GroupNormGradParameters", "reference:any", make_by_input<GroupNormGradParameters, Floats>},
};

}  // namespace

std::span<const KernelRow> normalization_kernels() { return kNormalizationRows; }

}  // namespace rehearsal::exec::reference
