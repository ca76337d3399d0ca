// TopK: a team has a row, and finds one element after another in the order of values and, of equal ones, of positions: the first of those
// behind the last one found.

#include "exec/kernels/cuda/families.hpp"
#include "exec/kernels/cuda/cuda_kernel.hpp"
#include "graph/ops/axes.hpp"

namespace rehearsal::exec::cuda {
namespace {

/// Of two positions the first in order; -1 is behind all. What is no number counts as larger than every number.
template <class T>
struct FirstOf {
  const T* x;
  std::int64_t stride;
  bool largest;

  REHEARSAL_BODY static bool larger(Real<T> a, Real<T> b) { return a > b || (a != a && b == b); }
  REHEARSAL_BODY bool before(std::int64_t a, std::int64_t b) const {
    const auto at_a = real(x[a * stride]), at_b = real(x[b * stride]);
    if (largest ? larger(at_a, at_b) : larger(at_b, at_a)) return true;
    return !(largest ? larger(at_b, at_a) : larger(at_a, at_b)) && a < b;
  }
  REHEARSAL_BODY std::int64_t operator()(std::int64_t a, std::int64_t b) const {
    if (a < 0 || b < 0) return a < 0 ? b : a;
    return before(b, a) ? b : a;
  }
};

template <class T>
struct SelectFirst {
  const T* x;
  T* values;                ///< nullptr: not wanted
  std::int64_t* positions;  ///< nullptr: not wanted
  graph::AxisSplit split;
  std::int64_t k;
  bool largest;

  REHEARSAL_BODY void operator()(const Team& team, std::int64_t row) const {
    const std::int64_t outer = row / split.inner, inner = row - outer * split.inner;
    const FirstOf<T> order{x + outer * split.size * split.inner + inner, split.inner, largest};
    std::int64_t last = -1, to = outer * k * split.inner + inner;
    for (std::int64_t found = 0; found < k; ++found, to += split.inner) {
      std::int64_t best = -1;
      for (std::int64_t i = team.rank(); i < split.size; i += team.size())
        if (last < 0 || order.before(last, i)) best = order(best, i);
      last = team.reduce(best, order);
      if (team.rank() != 0) continue;
      if (values != nullptr) values[to] = order.x[last * split.inner];
      if (positions != nullptr) positions[to] = last;
    }
  }
};

struct TopK {
  template <class T>
  static void run(const Call& call) {
    const std::size_t axis = graph::axis_of(call.problem.view(), -1);
    const graph::AxisSplit split = graph::split_at(call.in_shape(0), axis);
    const std::size_t present = call.has_output(0) ? 0 : 1;
    for_each_row(call.context.stream, split.outer * split.inner, split.size,
                 SelectFirst<T>{call.in<T>(0), optional_out<T>(call, 0), optional_out<std::int64_t>(call, 1), split,
                                call.out_shape(present)[axis], call.attributes().integer("largest", 1) != 0});
  }
};

using Everything = reference::Types<float, double, Half, BFloat16, std::int32_t, std::int64_t, bool, std::int8_t, std::uint8_t, std::int16_t,
                                    std::uint16_t, std::uint32_t, std::uint64_t>;
constexpr KernelRow kRows[] = {{"TopK", "cuda:selection", make_by_input<TopK, Everything>}};

}  // namespace

std::span<const KernelRow> selection_kernels() { return kRows; }

}  // namespace rehearsal::exec::cuda
