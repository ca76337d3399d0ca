#pragma once
#include <cstdint>
#include <utility>

namespace rehearsal::exec::reference {

/// Of the n x n matrix `a`, which is destroyed: by elimination with the largest pivot of each column (Golub, Van Loan, "Matrix
/// Computations", algorithm 3.4.1). Constant expressions are what GPUs compile, too.
constexpr double determinant(double* a, std::int64_t n) {
  const auto magnitude = [](double x) { return x < 0 ? -x : x; };
  double product = 1;
  for (std::int64_t k = 0; k < n; ++k) {
    std::int64_t pivot = k;
    for (std::int64_t r = k + 1; r < n; ++r) pivot = magnitude(a[r * n + k]) > magnitude(a[pivot * n + k]) ? r : pivot;
    if (a[pivot * n + k] == 0) return 0;
    if (pivot != k) {
      for (std::int64_t c = 0; c < n; ++c) std::swap(a[k * n + c], a[pivot * n + c]);
      product = -product;
    }
    product *= a[k * n + k];
    for (std::int64_t r = k + 1; r < n; ++r) {
      const double factor = a[r * n + k] / a[k * n + k];
      for (std::int64_t c = k; c < n; ++c) a[r * n + c] -= factor * a[k * n + c];
    }
  }
  return product;
}

}  // namespace rehearsal::exec::reference
