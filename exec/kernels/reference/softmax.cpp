#include <cmath>

#include "exec/kernels/reference/families.hpp"
#include "exec/kernels/reference/reference.hpp"
#include "exec/kernels/reference/partial_sums.hpp"
#include "graph/ops/axes.hpp"

namespace rehearsal::exec::reference {
namespace {

constexpr std::int64_t kSoftmaxElementsWorthAThread = 1 << 12;

/// Calls body(first element, step) for every line along the attribute axis of result 0.
template <class F>
void for_each_line(const Call& call, F&& body) {
  const auto [outer, size, inner] = graph::split_at(call.out_shape(), graph::axis_of(call.problem.view(), -1));
  parallel_items(call.threads(), outer * inner, kSoftmaxElementsWorthAThread / (size + 1) + 1,
                 [&, size = size, inner = inner](std::int64_t line) { body(line / inner * size * inner + line % inner, inner, size); });
}

template <class T>
T largest(const T* x, std::int64_t step, std::int64_t size) {
  T max = x[0];
  for (std::int64_t s = 1; s < size; ++s) max = std::max(max, x[s * step]);
  return max;
}

/// Subtracting the maximum first keeps exp() from overflowing. kLog: the logarithm of the result.
template <bool kLog>
struct Softmax {
  template <class T>
  static void run(const Call& call) {
    for_each_line(call, [&](std::int64_t first, std::int64_t step, std::int64_t size) {
      if (size == 0) return;
      const T* x = call.in<T>(0) + first;
      T* y = call.out<T>() + first;
      const T max = largest(x, step, size);
      for (std::int64_t s = 0; s < size; ++s) y[s * step] = kLog ? x[s * step] - max : std::exp(x[s * step] - max);
      const double sum = sum_of(
          size, [&](std::int64_t s) { return kLog ? static_cast<double>(std::exp(y[s * step])) : static_cast<double>(y[s * step]); });
      const T shift = static_cast<T>(std::log(sum)), factor = static_cast<T>(1.0 / sum);
      for (std::int64_t s = 0; s < size; ++s) y[s * step] = kLog ? y[s * step] - shift : y[s * step] * factor;
    });
  }
};

/// A row of which every element is hidden has no softmax; where its results were replaced, no gradient arrives, and none goes on. That is
/// how attention over padding is written: Where(IsNaN(softmax), 0, softmax).
template <class T>
bool is_hidden_row(const T* dy, const T* y, std::int64_t step, std::int64_t size) {
  if (size == 0 || !std::isnan(y[0])) return false;
  for (std::int64_t s = 0; s < size; ++s)
    if (dy[s * step] != 0) return false;
  return true;
}

/// dx = y (dy - sum(dy y)); of the logarithm dx = dy - exp(y) sum(dy).
template <bool kLog>
struct SoftmaxGrad {
  template <class T>
  static void run(const Call& call) {
    for_each_line(call, [&](std::int64_t first, std::int64_t step, std::int64_t size) {
      const T *dy = call.in<T>(0) + first, *y = call.in<T>(1) + first;
      T* dx = call.out<T>() + first;
      if (!kLog && is_hidden_row(dy, y, step, size)) {
        for (std::int64_t s = 0; s < size; ++s) dx[s * step] = 0;
        return;
      }
      const T sum = static_cast<T>(sum_of(
          size, [&](std::int64_t s) { return static_cast<double>(dy[s * step]) * (kLog ? 1.0 : static_cast<double>(y[s * step])); }));
      for (std::int64_t s = 0; s < size; ++s) {
        const std::int64_t i = s * step;
        dx[i] = kLog ? dy[i] - std::exp(y[i]) * sum : y[i] * (dy[i] - sum);
      }
    });
  }
};

constexpr std::string_view kSoftmaxAny = "reference:any";
constexpr KernelRow kSoftmaxRows[] = {
    {"Softmax", kSoftmaxAny, make_by_output<Softmax<false>, Floats>},
    {"LogSoftmax", kSoftmaxAny, make_by_output<Softmax<true>, Floats>},
    {"SoftmaxGrad", kSoftmaxAny, make_by_output<SoftmaxGrad<false>, Floats>},
    {"LogSoftmaxGrad", kSoftmaxAny, make_by_output<SoftmaxGrad<true>, Floats>},
};

}  // namespace

std::span<const KernelRow> softmax_kernels() { return kSoftmaxRows; }

}  // namespace rehearsal::exec::reference
