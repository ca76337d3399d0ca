// Attention block by block (graph/ops/blockwise_softmax.cpp). Everything runs along the last dimension.

#include <cmath>
#include <limits>

#include "exec/kernels/reference/families.hpp"
#include "exec/kernels/reference/reference.hpp"
#include "exec/kernels/reference/rows.hpp"

namespace rehearsal::exec::reference {
namespace {

constexpr std::int64_t kElementsWorthAThread = 1 << 12;

/// Calls body(row) for every row of operand 0.
template <class F>
void for_each_row(const Call& call, F&& body) {
  const std::int64_t length = call.in_shape(0).back(), count = graph::element_count(call.in_shape(0));
  if (length > 0) parallel_items(call.threads(), count / length, kElementsWorthAThread / length + 1, body);
}

struct BlockSoftmax {
  template <class T>
  static void run(const Call& call) {
    const std::int64_t length = call.in_shape(0).back();
    for_each_row(call, [&](std::int64_t row) {
      const T* x = call.in<T>(0) + row * length;
      T* w = call.out<T>(0) + row * length;
      T max = x[0];
      for (std::int64_t i = 1; i < length; ++i) max = std::max(max, x[i]);
      call.out<T>(1)[row] = max;
      // No key of this block is seen: it weighs nothing beside the others.
      if (max == -std::numeric_limits<T>::infinity()) return void(std::fill_n(w, length, T{0}));
      for (std::int64_t i = 0; i < length; ++i) w[i] = std::exp(x[i] - max);
      const double sum = sum_of(length, [&](std::int64_t i) { return static_cast<double>(w[i]); });
      const T factor = static_cast<T>(1.0 / sum);
      for (std::int64_t i = 0; i < length; ++i) w[i] *= factor;
      call.out<T>(1)[row] += static_cast<T>(std::log(sum));
    });
  }
};

/// The result may lie where operands 0 and 1 do.
struct MergeBlocks {
  template <class T>
  static void run(const Call& call) {
    const std::int64_t length = call.in_shape(0).back();
    for_each_row(call, [&](std::int64_t row) {
      const T a = call.in<T>(1)[row], b = call.in<T>(3)[row], high = std::max(a, b);
      const bool none = high == -std::numeric_limits<T>::infinity();
      const T l = none ? high : high + std::log(std::exp(a - high) + std::exp(b - high));
      const T of_a = none ? T{0} : std::exp(a - l), of_b = none ? T{0} : std::exp(b - l);
      const T *x = call.in<T>(0) + row * length, *y = call.in<T>(2) + row * length;
      T* out = call.out<T>(0) + row * length;
      for (std::int64_t i = 0; i < length; ++i) out[i] = of_a * x[i] + of_b * y[i];
      call.out<T>(1)[row] = l;
    });
  }
};

struct BlockWeights {
  template <class T>
  static void run(const Call& call) {
    const std::int64_t length = call.in_shape(0).back();
    for_each_row(call, [&](std::int64_t row) {
      const T l = call.in<T>(1)[row];
      for (std::int64_t i = row * length; i < (row + 1) * length; ++i) call.out<T>()[i] = std::exp(call.in<T>(0)[i] - l);
    });
  }
};

struct RowDot {
  template <class T>
  static void run(const Call& call) {
    const std::int64_t length = call.in_shape(0).back();
    for_each_row(call, [&](std::int64_t row) {
      const T *x = call.in<T>(0) + row * length, *y = call.in<T>(1) + row * length;
      call.out<T>()[row] =
          static_cast<T>(sum_of(length, [&](std::int64_t i) { return static_cast<double>(x[i]) * static_cast<double>(y[i]); }));
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

constexpr std::string_view kAny = "reference:any";
constexpr KernelRow kRows[] = {
    {"BlockSoftmax", kAny, make_by_output<BlockSoftmax, Floats>},         {"MergeBlocks", kAny, make_by_output<MergeBlocks, Floats>},
    {"BlockWeights", kAny, make_by_output<BlockWeights, Floats>},         {"RowDot", kAny, make_by_output<RowDot, Floats>},
    {"BlockSoftmaxGrad", kAny, make_by_output<BlockSoftmaxGrad, Floats>},
};

}  // namespace

std::span<const KernelRow> blockwise_softmax_kernels() { return kRows; }

}  // namespace rehearsal::exec::reference
