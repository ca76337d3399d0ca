#include "exec/host/compressors/power_sgd.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/error.hpp"
#include "base/random.hpp"

namespace rehearsal::exec {
namespace {

template <class T>
bool finite(const T* values, std::int64_t count) {
  return std::all_of(values, values + count, [](T x) { return std::isfinite(x); });
}

/// Columns that are zero say nothing: of a first step, or of a gradient of lower rank.
template <class T>
void draw_zero_columns(const FactorTask& task, T* q) {
  const auto& s = task.size;
  for (std::int64_t k = 0; k < s.rank; ++k) {
    bool zero = true;
    for (std::int64_t j = 0; zero && j < s.columns; ++j) zero = q[j * s.rank + k] == 0;
    for (std::int64_t j = 0; zero && j < s.columns; ++j)
      q[j * s.rank + k] = static_cast<T>(random_normal(task.step_seed, task.shared_stream, static_cast<std::uint64_t>(j * s.rank + k)));
  }
}

template <class T>
void project(const plan::LowRankFactors& s, const T* m, const T* q, T* p) {
#pragma omp parallel for schedule(static)
  for (std::int64_t i = 0; i < s.rows; ++i)
    for (std::int64_t k = 0; k < s.rank; ++k) {
      double sum = 0;
      for (std::int64_t j = 0; j < s.columns; ++j)
        sum += static_cast<double>(m[i * s.columns + j]) * static_cast<double>(q[j * s.rank + k]);
      p[i * s.rank + k] = static_cast<T>(sum);
    }
}

/// Columns of P, made orthonormal one after the other; one that depends on those before is left 0.
template <class T>
std::vector<double> orthonormal(const plan::LowRankFactors& s, const T* p) {
  constexpr double kDependent = 1e-7;  // of a column's length, what rounding in f32 leaves of one that depends on others
  std::vector<double> q(p, p + s.rows * s.rank);
  const auto at = [&](std::int64_t i, std::int64_t k) -> double& { return q[static_cast<std::size_t>(i * s.rank + k)]; };
  const auto dot = [&](std::int64_t a, std::int64_t b) {
    double sum = 0;
    for (std::int64_t i = 0; i < s.rows; ++i) sum += at(i, a) * at(i, b);
    return sum;
  };
  for (std::int64_t k = 0; k < s.rank; ++k) {
    const double before = std::sqrt(dot(k, k));
    for (std::int64_t other = 0; other < k; ++other) {
      const double along = dot(k, other);
      for (std::int64_t i = 0; i < s.rows; ++i) at(i, k) -= along * at(i, other);
    }
    const double length = std::sqrt(dot(k, k));
    const double scale = length > kDependent * before ? 1 / length : 0;
    for (std::int64_t i = 0; i < s.rows; ++i) at(i, k) *= scale;
  }
  return q;
}

template <class T>
void first_factor_of(const FactorTask& task, T* m, T* kept, T* p) {
  const auto elements = task.size.rows * task.size.columns;
#pragma omp parallel for schedule(static)
  for (std::int64_t e = 0; e < elements; ++e) m[e] += kept[e];
  draw_zero_columns(task, kept + elements);
  project(task.size, m, kept + elements, p);
}

template <class T>
void second_factor_of(const FactorTask& task, const T* m, const T* first_sum, T* q) {
  const auto& s = task.size;
  if (!finite(first_sum, s.first())) return std::fill(q, q + s.second(), std::numeric_limits<T>::quiet_NaN());
  const auto p = orthonormal(s, first_sum);
#pragma omp parallel for schedule(static)
  for (std::int64_t j = 0; j < s.columns; ++j)
    for (std::int64_t k = 0; k < s.rank; ++k) {
      double sum = 0;
      for (std::int64_t i = 0; i < s.rows; ++i)
        sum += static_cast<double>(m[i * s.columns + j]) * p[static_cast<std::size_t>(i * s.rank + k)];
      q[j * s.rank + k] = static_cast<T>(sum);
    }
}

template <class T>
void from_factors_of(const FactorTask& task, const FactorSums& sums, T* m, T* kept) {
  const auto& s = task.size;
  const auto elements = s.rows * s.columns;
  const auto* q = static_cast<const T*>(sums.second);
  if (!finite(static_cast<const T*>(sums.first), s.first()) || !finite(q, s.second()))
    return std::fill(m, m + elements, std::numeric_limits<T>::quiet_NaN());
  const auto p = orthonormal(s, static_cast<const T*>(sums.first));
#pragma omp parallel for schedule(static)
  for (std::int64_t i = 0; i < s.rows; ++i)
    for (std::int64_t j = 0; j < s.columns; ++j) {
      double sum = 0;
      for (std::int64_t k = 0; k < s.rank; ++k) sum += p[static_cast<std::size_t>(i * s.rank + k)] * static_cast<double>(q[j * s.rank + k]);
      auto& own = m[i * s.columns + j];
      kept[i * s.columns + j] = static_cast<T>(static_cast<double>(own) - sum / sums.ranks);
      own = static_cast<T>(sum);
    }
  std::copy(q, q + s.second(), kept + elements);
}

/// Calls with a value of the type that the gradients have.
template <class Call>
void with_type(DType dtype, const Call& call) {
  ensure(dtype == DType::F32 || dtype == DType::F64, "compressors take f32 or f64");
  dtype == DType::F32 ? call(float{}) : call(double{});
}

}  // namespace

void first_factor(DType dtype, const FactorTask& task, void* gradient, void* kept, void* first) {
  with_type(dtype, [&]<class T>(T) { first_factor_of(task, static_cast<T*>(gradient), static_cast<T*>(kept), static_cast<T*>(first)); });
}

void second_factor(DType dtype, const FactorTask& task, const void* gradient, const void* first_sum, void* second) {
  with_type(dtype, [&]<class T>(T) {
    second_factor_of(task, static_cast<const T*>(gradient), static_cast<const T*>(first_sum), static_cast<T*>(second));
  });
}

void from_factors(DType dtype, const FactorTask& task, const FactorSums& sums, void* gradient, void* kept) {
  with_type(dtype, [&]<class T>(T) { from_factors_of(task, sums, static_cast<T*>(gradient), static_cast<T*>(kept)); });
}

}  // namespace rehearsal::exec
