#include <cmath>

#include "exec/kernels/cuda/families.hpp"
#include "exec/kernels/cuda/lines.hpp"

namespace rehearsal::exec::cuda {
namespace {

Lines lines_of(const Call& call) { return {call.out_shape(), graph::axis_of(call.problem.view(), -1)}; }

template <bool kLog, class T>
struct SoftmaxLine {
  const T* x;
  T* y;
  template <class AnyTeam>
  REHEARSAL_BODY void operator()(const AnyTeam& team, const Line& line) const {
    if (line.size == 0) return;
    const T* from = x + line.first;
    T* to = y + line.first;
    Real<T> max = real(from[0]);
    for (std::int64_t s = team.rank(); s < line.size; s += team.size()) max = LargerOf{}(max, real(from[s * line.step]));
    max = team.max(max);
    double sum = 0;
    for (std::int64_t s = team.rank(); s < line.size; s += team.size())
      sum += static_cast<double>(std::exp(real(from[s * line.step]) - max));
    sum = team.sum(sum);
    const auto shift = static_cast<Real<T>>(std::log(sum)), factor = static_cast<Real<T>>(1.0 / sum);
    for (std::int64_t s = team.rank(); s < line.size; s += team.size()) {
      const Real<T> difference = real(from[s * line.step]) - max;
      to[s * line.step] = static_cast<T>(kLog ? difference - shift : std::exp(difference) * factor);
    }
  }
};

/// Subtracting the maximum first keeps exp() from overflowing. kLog: the logarithm of the result.
template <bool kLog>
struct Softmax {
  template <class T>
  static void run(const Call& call) {
    for_each_line(call.context.stream, lines_of(call), SoftmaxLine<kLog, T>{call.in<T>(0), call.out<T>()});
  }
};

template <bool kLog, class T>
struct SoftmaxGradLine {
  const T *dy, *y;
  T* dx;
  template <class AnyTeam>
  REHEARSAL_BODY void operator()(const AnyTeam& team, const Line& line) const {
    if (line.size == 0) return;
    const Real<T> head = real(y[line.first]);
    double sum = 0;
    int arrives = 0;
    for (std::int64_t s = team.rank(); s < line.size; s += team.size()) {
      const std::int64_t i = line.first + s * line.step;
      const auto gradient = static_cast<double>(real(dy[i]));
      sum += gradient * (kLog ? 1.0 : static_cast<double>(real(y[i])));
      if (gradient != 0) arrives = 1;
    }
    const auto all = static_cast<Real<T>>(team.sum(sum));
    // A row of which every element is hidden has no softmax; where no gradient arrives at it, none goes on (as the reference kernel says).
    const bool hidden = !kLog && head != head && team.max(arrives) == 0;
    for (std::int64_t s = team.rank(); s < line.size; s += team.size()) {
      const std::int64_t i = line.first + s * line.step;
      const Real<T> gradient = real(dy[i]), value = real(y[i]);
      const Real<T> result = kLog ? gradient - std::exp(value) * all : value * (gradient - all);
      dx[i] = static_cast<T>(hidden ? Real<T>(0) : result);
    }
  }
};

/// dx = y (dy - sum(dy y)); of the logarithm dx = dy - exp(y) sum(dy).
template <bool kLog>
struct SoftmaxGrad {
  template <class T>
  static void run(const Call& call) {
    for_each_line(call.context.stream, lines_of(call), SoftmaxGradLine<kLog, T>{call.in<T>(0), call.in<T>(1), call.out<T>()});
  }
};

constexpr std::string_view kName = "cuda:softmax";
constexpr KernelRow kRows[] = {
    {"Softmax", kName, make_by_output<Softmax<false>, Floats>},
    {"LogSoftmax", kName, make_by_output<Softmax<true>, Floats>},
    {"SoftmaxGrad", kName, make_by_output<SoftmaxGrad<false>, Floats>},
    {"LogSoftmaxGrad", kName, make_by_output<SoftmaxGrad<true>, Floats>},
};

}  // namespace

std::span<const KernelRow> softmax_kernels() { return kRows; }

}  // namespace rehearsal::exec::cuda
