#include <algorithm>
#include <numeric>

#include "exec/kernels/reference/families.hpp"
#include "exec/kernels/reference/reference.hpp"
#include "graph/ops/axes.hpp"

namespace rehearsal::exec::reference {
namespace {

/// Positions of the k first elements of one row in the order of `before`; ties keep the order of positions.
template <class Before>
void find_first(std::vector<std::int64_t>& order, std::int64_t k, const Before& before) {
  std::iota(order.begin(), order.end(), 0);
  std::partial_sort(order.begin(), order.begin() + k, order.end(),
                    [&](std::int64_t a, std::int64_t b) { return before(a, b) || (!before(b, a) && a < b); });
}

/// Not a number counts as larger than every number, as in PyTorch.
template <class T>
bool larger(T a, T b) {
  return a > b || (a != a && b == b);
}

struct TopK {
  template <class T>
  static void run(const Call& call) {
    const std::size_t axis = graph::axis_of(call.problem.view(), -1);
    const graph::AxisSplit split = graph::split_at(call.in_shape(0), axis);
    const std::int64_t k = call.out_shape()[axis];
    const bool largest = call.attributes().integer("largest", 1) != 0;
    parallel_ranges(call.threads(), split.outer * split.inner, 16, [&](std::int64_t first, std::int64_t last) {
      std::vector<std::int64_t> order(static_cast<std::size_t>(split.size));
      for (std::int64_t row = first; row < last; ++row) {
        const std::int64_t outer = row / split.inner, inner = row % split.inner;
        const T* x = call.in<T>(0) + outer * split.size * split.inner + inner;
        const auto at = [&](std::int64_t i) { return x[i * split.inner]; };
        if (largest) {
          find_first(order, k, [&](std::int64_t a, std::int64_t b) { return larger(at(a), at(b)); });
        } else {
          find_first(order, k, [&](std::int64_t a, std::int64_t b) { return larger(at(b), at(a)); });
        }
        const std::int64_t to = outer * k * split.inner + inner;
        for (std::int64_t i = 0; i < k; ++i) {
          const std::int64_t position = order[static_cast<std::size_t>(i)];
          if (call.has_output(0)) call.out<T>(0)[to + i * split.inner] = at(position);
          if (call.has_output(1)) call.out<std::int64_t>(1)[to + i * split.inner] = position;
        }
      }
    });
  }
};

constexpr KernelRow kSelectionRows[] = {
    {"TopK", "reference:any", make_by_input<TopK, Everything>},
};

}  // namespace

std::span<const KernelRow> selection_kernels() { return kSelectionRows; }

}  // namespace rehearsal::exec::reference
