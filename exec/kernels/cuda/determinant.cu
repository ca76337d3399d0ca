// Determinants and their gradients: a thread has a matrix, or a minor, at a time, in scratch memory of its own.

#include "exec/kernels/cuda/families.hpp"
#include "exec/kernels/cuda/cuda_kernel.hpp"
#include "exec/kernels/reference/determinant.hpp"

namespace rehearsal::exec::cuda {
namespace {

constexpr std::int64_t kMostThreads = 4096;

struct Matrices {
  std::int64_t n, count, threads;
  /// `each`: items of one matrix.
  Matrices(const graph::Shape& shape, std::int64_t each)
      : n(shape.back()),
        count(graph::element_count(graph::Shape(shape.begin(), shape.end() - 2)) * each),
        threads(std::min(count, kMostThreads)) {}
  [[nodiscard]] std::int64_t bytes() const { return threads * n * n * static_cast<std::int64_t>(sizeof(double)); }
};

template <class T>
struct FindDeterminants {
  const T* x;
  T* y;
  Matrices matrices;
  double* scratch;
  REHEARSAL_BODY void operator()(std::int64_t thread) const {
    const std::int64_t size = matrices.n * matrices.n;
    double* a = scratch + thread * size;
    for (std::int64_t i = thread; i < matrices.count; i += matrices.threads) {
      for (std::int64_t e = 0; e < size; ++e) a[e] = static_cast<double>(real(x[i * size + e]));
      y[i] = static_cast<T>(static_cast<Real<T>>(reference::determinant(a, matrices.n)));
    }
  }
};

struct Det {
  static Matrices matrices(const graph::NodeView& node) { return {node.input(0).shape, 1}; }
  static std::int64_t workspace_bytes(const graph::NodeView& node) { return matrices(node).bytes(); }
  template <class T>
  static void run(const Call& call) {
    const Matrices m = matrices(call.problem.view());
    for_each(call.context.stream, m.threads,
             FindDeterminants<T>{call.in<T>(0), call.out<T>(), m, static_cast<double*>(call.context.workspace)});
  }
};

/// One cofactor times the gradient of its matrix. Cofactors exist for singular matrices, too.
template <class T>
struct FindCofactors {
  const T *dy, *x;
  T* dx;
  Matrices matrices;
  double* scratch;
  REHEARSAL_BODY void operator()(std::int64_t thread) const {
    const std::int64_t n = matrices.n;
    double* a = scratch + thread * n * n;
    for (std::int64_t item = thread; item < matrices.count; item += matrices.threads) {
      const std::int64_t i = item / (n * n), row = item / n % n, column = item % n;
      std::int64_t to = 0;
      for (std::int64_t r = 0; r < n; ++r)
        for (std::int64_t c = 0; c < n; ++c)
          if (r != row && c != column) a[to++] = static_cast<double>(real(x[(i * n + r) * n + c]));
      const double cofactor = reference::determinant(a, n - 1) * ((row + column) % 2 == 0 ? 1 : -1);
      dx[item] = static_cast<T>(static_cast<Real<T>>(static_cast<double>(real(dy[i])) * cofactor));
    }
  }
};

struct DetGrad {
  static Matrices matrices(const graph::NodeView& node) {
    const auto& shape = node.input(1).shape;
    return {shape, shape.back() * shape.back()};
  }
  static std::int64_t workspace_bytes(const graph::NodeView& node) { return matrices(node).bytes(); }
  template <class T>
  static void run(const Call& call) {
    const Matrices m = matrices(call.problem.view());
    for_each(call.context.stream, m.threads,
             FindCofactors<T>{call.in<T>(0), call.in<T>(1), call.out<T>(), m, static_cast<double*>(call.context.workspace)});
  }
};

constexpr std::string_view kName = "cuda:determinant";
constexpr KernelRow kRows[] = {
    {"Det", kName, make_by_output_with_workspace<Det, Floats>},
    {"DetGrad", kName, make_by_output_with_workspace<DetGrad, Floats>},
};

}  // namespace

std::span<const KernelRow> determinant_kernels() { return kRows; }

}  // namespace rehearsal::exec::cuda
