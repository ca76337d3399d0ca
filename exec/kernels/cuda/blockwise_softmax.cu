// Attention block by block (graph/ops/blockwise_softmax.cpp). Everything runs along the last dimension, a team for each row. What is kept of
// a row, and the dots of two rows, are f32 where scores have 16 bits (plan/lowering/ring_attention.cpp).

#include <cmath>
#include <limits>

#include "exec/kernels/cuda/families.hpp"
#include "exec/kernels/cuda/cuda_kernel.hpp"

namespace rehearsal::exec::cuda {
namespace {

/// body(team, row) for every row of operand 0.
template <class Body>
void for_rows(const Call& call, const Body& body) {
  const std::int64_t length = call.in_shape(0).back();
  if (length > 0) for_each_row(call.context.stream, graph::element_count(call.in_shape(0)) / length, length, body);
}

/// What is kept of a row of scores.
template <class T>
struct RowSum {
  Real<T> max, sum;
  REHEARSAL_BODY bool none() const { return max == -std::numeric_limits<Real<T>>::infinity(); }
};
template <class T>
REHEARSAL_BODY RowSum<T> row_sum(const Real<T>* kept, std::int64_t row) {
  return {kept[2 * row], kept[2 * row + 1]};
}
template <class T>
REHEARSAL_BODY void keep(Real<T>* kept, std::int64_t row, const RowSum<T>& sum) {
  kept[2 * row] = sum.max;
  kept[2 * row + 1] = sum.sum;
}

template <class T>
struct BlockSoftmaxRow {
  std::int64_t length;
  const T* scores;
  T* weights;
  Real<T>* kept;
  REHEARSAL_BODY void operator()(const Team& team, std::int64_t row) const {
    const T* x = scores + row * length;
    T* w = weights + row * length;
    RowSum<T> of{real(x[0]), 0};
    for (std::int64_t i = team.rank(); i < length; i += team.size()) of.max = LargerOf{}(of.max, real(x[i]));
    of.max = team.max(of.max);
    double sum = 0;
    if (!of.none()) {
      for (std::int64_t i = team.rank(); i < length; i += team.size()) sum += static_cast<double>(std::exp(real(x[i]) - of.max));
    }
    sum = team.sum(sum);
    of.sum = static_cast<Real<T>>(sum);
    const auto factor = static_cast<Real<T>>(1.0 / sum);
    // Where no key of this block is seen, it weighs nothing beside the others.
    for (std::int64_t i = team.rank(); i < length; i += team.size())
      w[i] = static_cast<T>(of.none() ? Real<T>(0) : std::exp(real(x[i]) - of.max) * factor);
    if (team.rank() == 0) keep<T>(kept, row, of);
  }
};

struct BlockSoftmax {
  template <class T>
  static void run(const Call& call) {
    for_rows(call, BlockSoftmaxRow<T>{call.in_shape(0).back(), call.in<T>(0), call.out<T>(0), call.out<Real<T>>(1)});
  }
};

/// The results may lie where operands 0 and 1 do.
template <class T>
struct MergeRow {
  std::int64_t length;
  const T* x;
  const Real<T>* kept_x;
  const T* y;
  const Real<T>* kept_y;
  T* out;
  Real<T>* kept_out;
  REHEARSAL_BODY void operator()(const Team& team, std::int64_t row) const {
    const auto a = row_sum<T>(kept_x, row), b = row_sum<T>(kept_y, row);
    RowSum<T> both{LargerOf{}(a.max, b.max), 0};
    Real<T> of_a = 0, of_b = 0;
    if (!both.none()) {
      of_a = a.sum * std::exp(a.max - both.max), of_b = b.sum * std::exp(b.max - both.max);
      both.sum = of_a + of_b;
      of_a /= both.sum, of_b /= both.sum;
    }
    for (std::int64_t i = row * length + team.rank(); i < (row + 1) * length; i += team.size())
      out[i] = static_cast<T>(of_a * real(x[i]) + of_b * real(y[i]));
    team.wait();  // all threads have read what is kept
    if (team.rank() == 0) keep<T>(kept_out, row, both);
  }
};

struct MergeBlocks {
  template <class T>
  static void run(const Call& call) {
    for_rows(call, MergeRow<T>{call.in_shape(0).back(), call.in<T>(0), call.in<Real<T>>(1), call.in<T>(2), call.in<Real<T>>(3),
                               call.out<T>(0), call.out<Real<T>>(1)});
  }
};

template <class T>
struct WeightsRow {
  std::int64_t length;
  const T* scores;
  const Real<T>* kept;
  T* weights;
  REHEARSAL_BODY void operator()(const Team& team, std::int64_t row) const {
    const auto of = row_sum<T>(kept, row);
    const auto factor = static_cast<Real<T>>(1.0 / static_cast<double>(of.sum));
    for (std::int64_t i = row * length + team.rank(); i < (row + 1) * length; i += team.size())
      weights[i] = static_cast<T>(std::exp(real(scores[i]) - of.max) * factor);
  }
};

struct BlockWeights {
  template <class T>
  static void run(const Call& call) {
    for_rows(call, WeightsRow<T>{call.in_shape(0).back(), call.in<T>(0), call.in<Real<T>>(1), call.out<T>()});
  }
};

template <class T>
struct DotRow {
  std::int64_t length;
  const T *x, *y;
  Real<T>* out;
  REHEARSAL_BODY void operator()(const Team& team, std::int64_t row) const {
    double sum = 0;
    for (std::int64_t i = row * length + team.rank(); i < (row + 1) * length; i += team.size())
      sum += static_cast<double>(real(x[i])) * static_cast<double>(real(y[i]));
    sum = team.sum(sum);
    if (team.rank() == 0) out[row] = static_cast<Real<T>>(sum);
  }
};

struct RowDot {
  template <class T>
  static void run(const Call& call) {
    for_rows(call, DotRow<T>{call.in_shape(0).back(), call.in<T>(0), call.in<T>(1), call.out<Real<T>>()});
  }
};

template <class T>
struct GradRow {
  std::int64_t length;
  const T *dw, *w;
  const Real<T>* dots;
  T* dx;
  REHEARSAL_BODY void operator()(const Team& team, std::int64_t row) const {
    const Real<T> dot = dots[row];
    for (std::int64_t i = row * length + team.rank(); i < (row + 1) * length; i += team.size())
      dx[i] = static_cast<T>(real(w[i]) * (real(dw[i]) - dot));
  }
};

struct BlockSoftmaxGrad {
  template <class T>
  static void run(const Call& call) {
    for_rows(call, GradRow<T>{call.in_shape(0).back(), call.in<T>(0), call.in<T>(1), call.in<Real<T>>(2), call.out<T>()});
  }
};

constexpr std::string_view kName = "cuda:blockwise_softmax";
constexpr KernelRow kRows[] = {
    {"BlockSoftmax", kName, make_by_output<BlockSoftmax, Floats>},         {"MergeBlocks", kName, make_by_output<MergeBlocks, Floats>},
    {"BlockWeights", kName, make_by_output<BlockWeights, Floats>},         {"RowDot", kName, make_by_input<RowDot, Floats>},
    {"BlockSoftmaxGrad", kName, make_by_output<BlockSoftmaxGrad, Floats>},
};

}  // namespace

std::span<const KernelRow> blockwise_softmax_kernels() { return kRows; }

}  // namespace rehearsal::exec::cuda
