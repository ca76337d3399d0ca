#pragma once
// Statistics of images that batch and group normalization keep as sums, and what rows need of them, in whatever order their images lie.

#include <cmath>

#include "exec/kernels/cuda/image_rows.hpp"

namespace rehearsal::exec::cuda {

/// Mean and biased variance of a statistic, or of a channel of which they are given.
struct ImageMoments {
  double mean, inverse;  ///< inverse deviation
};

/// Where moments come from.
template <class T>
struct ImageStatistics {
  ImageRows layout;
  double count, epsilon;
  const double* sums;          ///< of `layout`'s statistics, or nullptr:
  const T *means, *variances;  ///< of channels; no mean: 0

  ImageStatistics(const Call& call, const ImageRows& of)
      : layout(of),
        count(static_cast<double>(call.attributes().integer("count", 1))),
        epsilon(call.attributes().number("epsilon", 1e-5)),
        sums(nullptr),
        means(nullptr),
        variances(nullptr) {}
  static ImageStatistics of_sums(const Call& call, std::size_t operand) {
    return of_sums(call, ImageRows(call.in_shape(0), call.in_shape(operand)), operand);
  }
  static ImageStatistics of_sums(const Call& call, const ImageRows& layout, std::size_t operand) {
    ImageStatistics s(call, layout);
    s.sums = call.in<double>(operand);
    return s;
  }
  static ImageStatistics of_channels(const Call& call, const T* means, const T* variances) {
    ImageStatistics s(call, ImageRows::of_channels(call.in_shape(0)));
    s.means = means, s.variances = variances;
    return s;
  }
  [[nodiscard]] REHEARSAL_BODY ImageMoments moments(std::int64_t row) const {
    double mean = 0, variance = 0;
    if (sums != nullptr) {
      const std::int64_t s = layout.statistic_of(row);
      mean = sums[s] / count;
      variance = sums[layout.statistics() + s] / count - mean * mean;
      variance = variance > 0 ? variance : 0;
    } else {
      const std::int64_t c = divide(row, layout.channels).remainder;
      mean = means != nullptr ? static_cast<double>(real(means[c])) : 0.0;
      variance = static_cast<double>(real(variances[c]));
    }
    return {mean, 1.0 / std::sqrt(variance + epsilon)};
  }
};

/// Two sums of each statistic.
struct SumsStore {
  double* to;
  std::int64_t statistics;
  REHEARSAL_BODY void operator()(std::int64_t s, const double* totals) const {
    to[s] = totals[0];
    to[statistics + s] = totals[1];
  }
};

/// Factors of x -> (x - mean) * slope + bias.
template <class T>
struct ApplyFactors {
  ImageStatistics<T> statistics;
  const T *scale, *bias;  ///< no bias: 0
  RowFactors* factors;
  REHEARSAL_BODY void operator()(std::int64_t row) const {
    const std::int64_t c = divide(row, statistics.layout.channels).remainder;
    const ImageMoments m = statistics.moments(row);
    const double slope = static_cast<double>(real(scale[c])) * m.inverse;
    factors[row] = {m.mean, slope, 0, bias != nullptr ? static_cast<double>(real(bias[c])) : 0.0};
  }
};

/// Factors of dx = slope dy - linear (x - mean) + constant, where the sums contain the scale if Scaled.
template <bool Scaled, class T>
struct GradientFactors {
  ImageStatistics<T> statistics;
  const T* scale;
  const double* gradients;
  RowFactors* factors;
  REHEARSAL_BODY void operator()(std::int64_t row) const {
    const std::int64_t c = divide(row, statistics.layout.channels).remainder, s = statistics.layout.statistic_of(row);
    const ImageMoments m = statistics.moments(row);
    const double slope = m.inverse * static_cast<double>(real(scale[c])), factor = (Scaled ? m.inverse : slope) / statistics.count;
    const double linear = factor * gradients[statistics.layout.statistics() + s] * m.inverse;
    factors[row] = {m.mean, slope, linear, -factor * gradients[s]};
  }
};

}  // namespace rehearsal::exec::cuda
