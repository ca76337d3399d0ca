#pragma once
// Means, medians and quantiles of a few numbers. Every function returns 0 of none.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <span>
#include <vector>

namespace rehearsal {

[[nodiscard]] inline double mean_of(std::span<const double> values) {
  return values.empty() ? 0 : std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

/// Number `at` of the values, from the smallest, 0, on; of those behind the last the last.
[[nodiscard]] inline double nth_smallest(std::vector<double> values, double at) {
  if (values.empty()) return 0;
  const auto place = values.begin() + static_cast<std::ptrdiff_t>(std::min(static_cast<double>(values.size() - 1), at));
  std::nth_element(values.begin(), place, values.end());
  return *place;
}

/// The value with `share` of them, or a little less, below it.
[[nodiscard]] inline double quantile_of(const std::vector<double>& values, double share) {
  return nth_smallest(values, share * static_cast<double>(values.size()));
}
/// Counted between the smallest value and the largest: of few values a smaller one than quantile_of().
[[nodiscard]] inline double inner_quantile_of(const std::vector<double>& values, double share) {
  return nth_smallest(values, share * (static_cast<double>(values.size()) - 1));
}

/// The upper one of the two in the middle of an even number.
[[nodiscard]] inline double median_of(const std::vector<double>& values) { return quantile_of(values, 0.5); }
/// The lower one of these two.
[[nodiscard]] inline double lower_median_of(const std::vector<double>& values) { return inner_quantile_of(values, 0.5); }

/// Standard deviation of the logarithm that a normal distribution with these quartiles has: they are 1.349 deviations apart.
[[nodiscard]] inline double log_deviation(double lower_quartile, double upper_quartile) {
  return lower_quartile > 0 ? std::log(upper_quartile / lower_quartile) / 1.349 : 0;
}

}  // namespace rehearsal
