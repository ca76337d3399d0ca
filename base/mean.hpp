#pragma once
#include <numeric>
#include <span>

namespace rehearsal {

/// 0 of none.
[[nodiscard]] inline double mean_of(std::span<const double> values) {
  return values.empty() ? 0 : std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

}  // namespace rehearsal
