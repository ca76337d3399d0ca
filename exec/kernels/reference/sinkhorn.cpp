// Matrices scaled until rows and columns add up to 1 (graph/ops/sinkhorn.cpp).

#include "exec/kernels/reference/families.hpp"
#include "exec/kernels/reference/reference.hpp"

namespace rehearsal::exec::reference {
namespace {

/// One division of an n x n matrix by its sums: of columns in even steps, of rows in odd ones.
struct AlternatingDivision {
  std::int64_t n, step;
  double epsilon;

  /// Element i of line l.
  [[nodiscard]] std::int64_t at(std::int64_t l, std::int64_t i) const { return step % 2 == 0 ? i * n + l : l * n + i; }
  [[nodiscard]] double sum(const double* x, std::int64_t l) const {
    double sum = epsilon;
    for (std::int64_t i = 0; i < n; ++i) sum += x[at(l, i)];
    return sum;
  }
  void divide(const double* x, double* y) const {
    for (std::int64_t l = 0; l < n; ++l) {
      const double of = sum(x, l);
      for (std::int64_t i = 0; i < n; ++i) y[at(l, i)] = x[at(l, i)] / of;
    }
  }
  /// y = x / s: dx = (dy - sum of dy y) / s.
  void differentiate(const double* x, double* gradient) const {
    for (std::int64_t l = 0; l < n; ++l) {
      const double of = sum(x, l);
      double inner = 0;
      for (std::int64_t i = 0; i < n; ++i) inner += gradient[at(l, i)] * x[at(l, i)] / of;
      for (std::int64_t i = 0; i < n; ++i) gradient[at(l, i)] = (gradient[at(l, i)] - inner) / of;
    }
  }
};

/// The matrix before every division, and the result: 2 iterations matrices in a row.
template <class T>
std::vector<double> divided(const Call& call, const T* x, std::int64_t n) {
  const std::int64_t steps = 2 * call.attributes().integer("iterations", 1) - 1;
  std::vector<double> all(static_cast<std::size_t>((steps + 1) * n * n));
  std::copy_n(x, n * n, all.begin());
  for (std::int64_t step = 0; step < steps; ++step)
    AlternatingDivision{n, step, call.attributes().number("epsilon", 0)}.divide(all.data() + step * n * n, all.data() + (step + 1) * n * n);
  return all;
}

constexpr std::int64_t kMatricesWorthAThread = 64;

struct Sinkhorn {
  template <class T>
  static void run(const Call& call) {
    const std::int64_t n = call.in_shape(0).back(), count = graph::element_count(call.in_shape(0)) / std::max<std::int64_t>(1, n * n);
    parallel_items(call.threads(), count, kMatricesWorthAThread, [&](std::int64_t i) {
      const auto all = divided(call, call.in<T>(0) + i * n * n, n);
      for (std::int64_t e = 0; e < n * n; ++e)
        call.out<T>()[i * n * n + e] = static_cast<T>(all[all.size() - static_cast<std::size_t>(n * n - e)]);
    });
  }
};

struct SinkhornGrad {
  template <class T>
  static void run(const Call& call) {
    const std::int64_t n = call.in_shape(0).back(), count = graph::element_count(call.in_shape(0)) / std::max<std::int64_t>(1, n * n);
    parallel_items(call.threads(), count, kMatricesWorthAThread, [&](std::int64_t i) {
      const auto all = divided(call, call.in<T>(1) + i * n * n, n);
      const T* dy = call.in<T>(0) + i * n * n;
      std::vector<double> gradient(dy, dy + n * n);
      for (std::int64_t step = 2 * call.attributes().integer("iterations", 1) - 2; step >= 0; --step)
        AlternatingDivision{n, step, call.attributes().number("epsilon", 0)}.differentiate(all.data() + step * n * n, gradient.data());
      for (std::int64_t e = 0; e < n * n; ++e) call.out<T>()[i * n * n + e] = static_cast<T>(gradient[static_cast<std::size_t>(e)]);
    });
  }
};

constexpr KernelRow kSinkhornRows[] = {
    {"Sinkhorn", "reference:any", make_by_output<Sinkhorn, Floats>},
    {"SinkhornGrad", "reference:any", make_by_output<SinkhornGrad, Floats>},
};

}  // namespace

std::span<const KernelRow> sinkhorn_kernels() { return kSinkhornRows; }

}  // namespace rehearsal::exec::reference
