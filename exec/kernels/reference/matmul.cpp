// C = alpha op(A) op(B) + beta C0 of row-major matrices.

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "exec/kernels/reference/determinant.hpp"
#include "exec/kernels/reference/families.hpp"
#include "exec/kernels/reference/reference.hpp"
#include "graph/ops/matrix.hpp"
#include "graph/ops/strided.hpp"

namespace rehearsal::exec::reference {
namespace {

/// Rows of C that share each loaded row of B, and columns of B that stay in the first-level cache meanwhile.
constexpr std::int64_t kRowsAtOnce = 4, kColumnsAtOnce = 512;
constexpr double kFlopsWorthAThread = 1e5;

/// The transpose of a row-major matrix of `rows` x `columns`, in blocks so that both sides stay in cache.
template <class T>
void transpose(const T* from, std::int64_t rows, std::int64_t columns, T* to) {
  constexpr std::int64_t kBlock = 32;
  for (std::int64_t r0 = 0; r0 < rows; r0 += kBlock) {
    for (std::int64_t c0 = 0; c0 < columns; c0 += kBlock) {
      for (std::int64_t r = r0; r < std::min(rows, r0 + kBlock); ++r) {
        for (std::int64_t c = c0; c < std::min(columns, c0 + kBlock); ++c) to[c * rows + r] = from[r * columns + c];
      }
    }
  }
}

/// op(matrix) in row-major order: the stored one, or a transposed copy kept in `copy`.
template <class T>
const T* plain(const T* stored, bool transposed, std::pair<std::int64_t, std::int64_t> size, std::vector<T>& copy) {
  if (!transposed) return stored;
  copy.resize(static_cast<std::size_t>(size.first * size.second));
  transpose(stored, size.second, size.first, copy.data());
  return copy.data();
}

/// c[0..rows) += a b for a strip of at most kRowsAtOnce rows; a has stride k, b and c stride n.
template <class T, std::int64_t kMatmulRows>
void multiply_strip(const T* a, const T* b, T* c, std::int64_t n, std::int64_t k) {
  for (std::int64_t j0 = 0; j0 < n; j0 += kColumnsAtOnce) {
    const std::int64_t width = std::min(kColumnsAtOnce, n - j0);
    for (std::int64_t p = 0; p < k; ++p) {
      const T* row = b + p * n + j0;
      for (std::int64_t r = 0; r < kMatmulRows; ++r) {
        const T x = a[r * k + p];
        T* out = c + r * n + j0;
        for (std::int64_t j = 0; j < width; ++j) out[j] += x * row[j];
      }
    }
  }
}

/// Dot products of rows of `a` with one vector: nothing to vectorise over, so four running sums.
template <class T>
T dot(const T* a, const T* b, std::int64_t k) {
  T sums[4] = {};
  std::int64_t p = 0;
  for (; p + 4 <= k; p += 4) {
    for (int lane = 0; lane < 4; ++lane) sums[lane] += a[p + lane] * b[p + lane];
  }
  for (; p < k; ++p) sums[0] += a[p] * b[p];
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

struct Size {
  std::int64_t m, n, k;
};

/// c += a b, all plain row-major.
template <class T>
void multiply(const T* a, const T* b, T* c, const Size& size, int threads) {
  const auto [m, n, k] = size;
  const std::int64_t grain = static_cast<std::int64_t>(kFlopsWorthAThread / (2.0 * static_cast<double>(n * k) + 1.0)) + 1;
  parallel_ranges(threads, m, grain, [&, n = n, k = k](std::int64_t first, std::int64_t last) {
    std::int64_t i = first;
    for (; n == 1 && i < last; ++i) c[i] += dot(a + i * k, b, k);
    for (; i + kRowsAtOnce <= last; i += kRowsAtOnce) multiply_strip<T, kRowsAtOnce>(a + i * k, b, c + i * n, n, k);
    for (; i < last; ++i) multiply_strip<T, 1>(a + i * k, b, c + i * n, n, k);
  });
}

template <class T>
void multiply_stored(const Call& call, const graph::MatrixProduct& p, const std::array<std::int64_t, 3>& at) {
  std::vector<T> a_copy, b_copy;
  const T* a = plain(call.in<T>(0) + at[1], p.a.transposed, {p.m, p.k}, a_copy);
  const T* b = plain(call.in<T>(1) + at[2], p.b.transposed, {p.k, p.n}, b_copy);
  multiply(a, b, call.out<T>() + at[0], {p.m, p.n, p.k}, call.threads());
}

/// Offsets of every matrix of a batch: `shape` of matrices of `elements` elements, broadcast to `batch`.
graph::StridedView batch_view_of_matmul(const graph::Shape& shape, const graph::Shape& batch, std::int64_t elements) {
  graph::StridedView view = graph::broadcast_view(shape, batch);
  for (std::int64_t& stride : view.strides) stride *= elements;
  return view;
}

struct MatMul {
  template <class T>
  static void run(const Call& call) {
    const graph::MatrixProduct p = graph::matrix_product(call.in_shape(0), call.in_shape(1), call.attributes());
    std::fill_n(call.out<T>(), graph::element_count(call.out_shape()), T(0));
    const graph::Shape batch = graph::broadcast(p.a.batch, p.b.batch);
    const graph::RowWalk<3> walk({batch_view_of_matmul(batch, batch, p.m * p.n), batch_view_of_matmul(p.a.batch, batch, p.m * p.k),
                                  batch_view_of_matmul(p.b.batch, batch, p.k * p.n)});
    const auto steps = walk.steps();
    walk.each([&](std::int64_t, std::array<std::int64_t, 3> at) {
      for (std::int64_t i = 0; i < walk.length(); ++i) {
        multiply_stored<T>(call, p, at);
        for (std::size_t v = 0; v < 3; ++v) at[v] += steps[v];
      }
    });
  }
};

struct Gemm {
  template <class T>
  static void run(const Call& call) {
    const graph::MatrixProduct p = graph::matrix_product(call.in_shape(0), call.in_shape(1), call.attributes());
    const T alpha = static_cast<T>(call.attributes().number("alpha", 1.0)), beta = static_cast<T>(call.attributes().number("beta", 1.0));
    T* c = call.out<T>();
    const std::int64_t count = p.m * p.n;
    std::fill_n(c, count, T(0));
    multiply_stored<T>(call, p, {0, 0, 0});
    if (alpha != T(1)) std::for_each_n(c, count, [alpha](T& x) { x *= alpha; });
    if (!call.has_input(2)) return;
    const graph::Shape shape = {p.m, p.n};
    std::vector<T> bias(static_cast<std::size_t>(count));
    graph::copy_strided(call.in<T>(2), graph::broadcast_view(call.in_shape(2), shape), bias.data());
    for (std::int64_t i = 0; i < count; ++i) c[i] += beta * bias[static_cast<std::size_t>(i)];
  }
};

/// The matrix without one row and column.
template <class T>
std::vector<double> minor_of(const T* x, std::int64_t n, std::int64_t row, std::int64_t column) {
  std::vector<double> rest;
  for (std::int64_t r = 0; r < n; ++r) {
    for (std::int64_t c = 0; c < n; ++c)
      if (r != row && c != column) rest.push_back(static_cast<double>(x[r * n + c]));
  }
  return rest;
}

struct Det {
  template <class T>
  static void run(const Call& call) {
    const std::int64_t n = call.in_shape(0).back(), count = graph::element_count(call.out_shape());
    parallel_items(call.threads(), count, 16, [&](std::int64_t i) {
      const T* x = call.in<T>(0) + i * n * n;
      std::vector<double> a(x, x + n * n);
      call.out<T>()[i] = static_cast<T>(determinant(a.data(), n));
    });
  }
};

/// Cofactors exist for singular matrices too.
struct DetGrad {
  template <class T>
  static void run(const Call& call) {
    const std::int64_t n = call.in_shape(1).back(), count = graph::element_count(call.in_shape(0));
    parallel_items(call.threads(), count * n, 4, [&](std::int64_t item) {
      const std::int64_t i = item / n, row = item % n;
      for (std::int64_t column = 0; column < n; ++column) {
        auto rest = minor_of(call.in<T>(1) + i * n * n, n, row, column);
        const double cofactor = determinant(rest.data(), n - 1) * ((row + column) % 2 == 0 ? 1 : -1);
        call.out<T>()[(i * n + row) * n + column] = static_cast<T>(static_cast<double>(call.in<T>(0)[i]) * cofactor);
      }
    });
  }
};

constexpr KernelRow kMatmulRows[] = {
    {"MatMul", "reference:any", make_by_output<MatMul, Floats>},
    {"Gemm", "reference:any", make_by_output<Gemm, Floats>},
    {"Det", "reference:any", make_by_output<Det, Floats>},
    {"DetGrad", "reference:any", make_by_output<DetGrad, Floats>},
};

}  // namespace

std::span<const KernelRow> matmul_kernels() { return kMatmulRows; }

}  // namespace rehearsal::exec::reference
