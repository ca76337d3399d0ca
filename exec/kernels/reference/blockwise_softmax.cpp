// Attention block by block (graph/ops/blockwise_softmax.cpp). Everything runs along the last dimension.

#include <cmath>
#include <limits>

#include "exec/kernels/reference/families.hpp"
#include "exec/kernels/reference/reference.hpp"
#include "exec/kernels/reference/partial_sums.hpp"

namespace rehearsal::exec::reference {
namespace {

constexpr std::int64_t kBlockwiseSoftmaxElementsWorthAThread = 1 << 12;

/// Calls body(row) for every row of operand 0.
template <class F>
void for_each_row(const Call& call, F&& body) {
  const std::int64_t length = call.in_shape(0).back(), count = graph::element_count(call.in_shape(0));
  if (length > 0) parallel_items(call.threads(), count / length, kBlockwiseSoftmaxElementsWorthAThread / length + 1, body);
}

/// What is kept of a row of scores.
template <class T>
struct RowSum {
  T max, sum;
  [[nodiscard]] bool none() const { return max == -std::numeric_limits<T>::infinity(); }
};
template <class T>
RowSum<T> row_sum(const T* kept, std::int64_t row) {
  return {kept[2 * row], kept[2 * row + 1]};
}
template <class T>
void keep(T* kept, std::int64_t row, RowSum<T> sum) {
  kept[2 * row] = sum.max;
  kept[2 * row + 1] = sum.sum;
}

struct BlockSoftmax {
  template <class T>
  static void run(const Call& call) {
    const std::int64_t length = call.in_shape(0).back();
    for_each_row(call, [&](std::int64_t row) {
      const T* x = call.in<T>(0) + row * length;
      T* w = call.out<T>(0) + row * length;
      RowSum<T> of{x[0], 0};
      for (std::int64_t i = 1; i < length; ++i) of.max = std::max(of.max, x[i]);
      if (of.none()) {  // no key of this block is seen: it weighs nothing beside the others
        std::fill_n(w, length, T{0});
        return keep(call.out<T>(1), row, of);
      }
      for (std::int64_t i = 0; i < length; ++i) w[i] = std::exp(x[i] - of.max);
      const double sum = sum_of(length, [&](std::int64_t i) { return static_cast<double>(w[i]); });
      const T factor = static_cast<T>(1.0 / sum);
      for (std::int64_t i = 0; i < length; ++i) w[i] *= factor;
      of.sum = static_cast<T>(sum);
      keep(call.out<T>(1), row, of);
    });
  }
};

/// The result may lie where operands 0 and 1 do.
struct MergeBlocks {
  template <class T>
  static void run(const Call& call) {
    const std::int64_t length = call.in_shape(0).back();
    for_each_row(call, [&](std::int64_t row) {
      const auto a = row_sum(call.in<T>(1), row), b = row_sum(call.in<T>(3), row);
      RowSum<T> both{std::max(a.max, b.max), 0};
      T of_a = 0, of_b = 0;
      if (!both.none()) {
        of_a = a.sum * std::exp(a.max - both.max), of_b = b.sum * std::exp(b.max - both.max);
        both.sum = of_a + of_b;
        of_a /= both.sum, of_b /= both.sum;
      }
      const T *x = call.in<T>(0) + row * length, *y = call.in<T>(2) + row * length;
      T* out = call.out<T>(0) + row * length;
      for (std::int64_t i = 0; i < length; ++i) out[i] = of_a * x[i] + of_b * y[i];
      keep(call.out<T>(1), row, both);
    });
  }
};

struct BlockWeights {
  template <class T>
  static void run(const Call& call) {
    const std::int64_t length = call.in_shape(0).back();
    for_each_row(call, [&](std::int64_t row) {
      const auto of = row_sum(call.in<T>(1), row);
      const T factor = static_cast<T>(1.0 / static_cast<double>(of.sum));
      for (std::int64_t i = row * length; i < (row + 1) * length; ++i) call.out<T>()[i] = std::exp(call.in<T>(0)[i] - of.max) * factor;
    });
  }
};

/// Summed in the order of the product that makes a gradient of weights: where one key has all the weight, both are the same number, and the
/// gradient of its score is 0 as it is in one piece.
struct RowDot {
  template <class T>
  static void run(const Call& call) {
    const std::int64_t length = call.in_shape(0).back();
    for_each_row(call, [&](std::int64_t row) {
      const T *x = call.in<T>(0) + row * length, *y = call.in<T>(1) + row * length;
      double sum = 0;
      for (std::int64_t i = 0; i < length; ++i) sum += static_cast<double>(x[i]) * static_cast<double>(y[i]);
      call.out<T>()[row] = static_cast<T>(sum);
    });
  }
};

struct BlockSoftmaxGrad {
  template <class T>
  static void run(const Call& call) {
    const std::int64_t length = call.in_shape(0).back();
    for_each_row(call, [&](std::int64_t row) {
      const T dot = call.in<T>(2)[row];
      for (std::int64_t i = row * length; i < (row + 1) * length; ++i) call.out<T>()[i] = call.in<T>(1)[i] * (call.in<T>(0)[i] - dot);
    });
  }
};

constexpr std::string_view kBlockwiseSoftmaxAny = "reference:any";
constexpr KernelRow kBlockwiseSoftmaxRows[] = {
    {"BlockSoftmax", kBlockwiseSoftmaxAny, make_by_output<BlockSoftmax, Floats>},
    {"MergeBlocks", kBlockwiseSoftmaxAny, make_by_output<MergeBlocks, Floats>},
    {"BlockWeights", kBlockwiseSoftmaxAny, make_by_output<BlockWeights, Floats>},
    {"RowDot", kBlockwiseSoftmaxAny, make_by_output<RowDot, Floats>},
    {"BlockSoftmaxGrad", kBlockwiseSoftmaxAny, make_by_output<BlockSoftmaxGrad, Floats>},
};

}  // namespace

std::span<const KernelRow> blockwise_softmax_kernels() { return kBlockwiseSoftmaxRows; }

}  // namespace rehearsal::exec::reference
