// Sums run in double whatever the element type.

#include <limits>
#include <vector>

#include "exec/kernels/reference/families.hpp"
#include "exec/kernels/reference/reference.hpp"
#include "graph/ops/axes.hpp"

namespace rehearsal::exec::reference {
namespace {

using graph::AxisSplit;
using graph::Shape;
using graph::StridedView;

/// Integers are added as integers, everything else in double.
template <class T>
using Wide = std::conditional_t<std::is_integral_v<T>, T, double>;

struct ReductionSum {
  template <class T>
  static Wide<T> start() {
    return 0;
  }
  template <class T>
  static Wide<T> combine(Wide<T> a, T b) {
    return a + b;
  }
};
struct ReductionProduct {
  template <class T>
  static Wide<T> start() {
    return 1;
  }
  template <class T>
  static Wide<T> combine(Wide<T> a, T b) {
    return a * b;
  }
};
/// NaN wins, as in the elementwise functions.
struct ReductionMaximum {
  template <class T>
  static Wide<T> start() {
    return std::is_integral_v<T> ? std::numeric_limits<Wide<T>>::min() : -std::numeric_limits<Wide<T>>::infinity();
  }
  template <class T>
  static Wide<T> combine(Wide<T> a, T b) {
    return a > b || a != a ? a : Wide<T>(b);
  }
};
struct Minimum {
  template <class T>
  static Wide<T> start() {
    return std::is_integral_v<T> ? std::numeric_limits<Wide<T>>::max() : std::numeric_limits<Wide<T>>::infinity();
  }
  template <class T>
  static Wide<T> combine(Wide<T> a, T b) {
    return a < b || a != a ? a : Wide<T>(b);
  }
};

/// The operand walked together with the accumulator that each element goes into (stride 0 along reduced dimensions).
graph::RowWalk<2> reduction_walk(const Call& call) {
  const Shape& shape = call.in_shape(0);
  const Shape kept = graph::kept_shape(shape, graph::reduced_dimensions(call.problem.view()));
  return graph::RowWalk<2>({graph::whole_view(shape), graph::broadcast_view(kept, shape)});
}

/// Adds a row to one accumulator; independent lanes so that the sum of a long row is not one chain of additions.
template <class R, class T>
Wide<T> reduce_row(const T* x, std::int64_t count) {
  Wide<T> lanes[4] = {R::template start<T>(), R::template start<T>(), R::template start<T>(), R::template start<T>()};
  for (std::int64_t i = 0; i < count; ++i) lanes[i & 3] = R::template combine<T>(lanes[i & 3], x[i]);
  return lanes[0] == lanes[0] ? R::template combine<Wide<T>>(R::template combine<Wide<T>>(lanes[0], lanes[1]),
                                                             R::template combine<Wide<T>>(lanes[2], lanes[3]))
                              : lanes[0];
}

template <class R>
struct Reduce {
  template <class T>
  static void run(const Call& call) {
    const std::int64_t count = graph::element_count(call.out_shape());
    std::vector<Wide<T>> sums(static_cast<std::size_t>(count), R::template start<T>());
    const auto walk = reduction_walk(call);
    const auto [step, target_step] = walk.steps();
    walk.each([&, step = step, target_step = target_step](std::int64_t, const std::array<std::int64_t, 2>& at) {
      const T* x = call.in<T>(0) + at[0];
      Wide<T>* sum = sums.data() + at[1];
      if (target_step == 0 && step == 1) {
        *sum = R::template combine<Wide<T>>(*sum, reduce_row<R>(x, walk.length()));
      } else {
        for (std::int64_t i = 0; i < walk.length(); ++i) sum[i * target_step] = R::template combine<T>(sum[i * target_step], x[i * step]);
      }
    });
    const double scale = call.attributes().number("scale", 1.0);
    for (std::int64_t i = 0; i < count; ++i) {
      const Wide<T> sum = sums[static_cast<std::size_t>(i)];
      call.out<T>()[i] = static_cast<T>(std::is_integral_v<T> ? sum : static_cast<Wide<T>>(static_cast<double>(sum) * scale));
    }
  }
};

/// dx_i = dy * product of the other elements: exact also where elements are 0.
struct ReduceProdGrad {
  template <class T>
  static void run(const Call& call) {
    const Shape& shape = call.out_shape();
    const auto reduced = graph::reduced_dimensions({call.problem.view().outputs, {}, call.attributes()});
    const Shape kept = graph::kept_shape(shape, reduced);
    const auto count = static_cast<std::size_t>(graph::element_count(kept));
    std::vector<double> product(count, 1.0);  // of the elements that are not 0
    std::vector<std::int64_t> zeros(count, 0);
    const graph::RowWalk<2> walk({graph::whole_view(shape), graph::broadcast_view(kept, shape)});
    const auto [step, target_step] = walk.steps();
    const auto each = [&, step = step, target_step = target_step](const auto& body) {
      walk.each([&](std::int64_t, const std::array<std::int64_t, 2>& at) {
        for (std::int64_t i = 0; i < walk.length(); ++i) body(at[0] + i * step, static_cast<std::size_t>(at[1] + i * target_step));
      });
    };
    const T* x = call.in<T>(1);
    each([&](std::int64_t i, std::size_t target) {
      x[i] == T(0) ? void(++zeros[target]) : void(product[target] *= static_cast<double>(x[i]));
    });
    each([&](std::int64_t i, std::size_t target) {
      const std::int64_t others = zeros[target] - (x[i] == T(0) ? 1 : 0);
      const double slope = others > 0 ? 0.0 : x[i] == T(0) ? product[target] : product[target] / static_cast<double>(x[i]);
      call.out<T>()[i] = static_cast<T>(static_cast<double>(call.in<T>(0)[target]) * slope);
    });
  }
};

template <bool kMax>
struct Position {
  template <class T>
  static void run(const Call& call) {
    const auto [outer, size, inner] = graph::split_at(call.in_shape(0), graph::axis_of(call.problem.view(), 0));
    const bool last = call.attributes().integer("select_last_index", 0) != 0;
    const auto better = [last](T candidate, T best) { return (kMax ? candidate > best : candidate < best) || (last && candidate == best); };
    for (std::int64_t o = 0; o < outer; ++o) {
      for (std::int64_t i = 0; i < inner; ++i) {
        const T* x = call.in<T>(0) + o * size * inner + i;
        std::int64_t best = 0;
        for (std::int64_t s = 1; s < size; ++s) best = better(x[s * inner], x[best * inner]) ? s : best;
        call.out<std::int64_t>()[o * inner + i] = best;
      }
    }
  }
};

struct CumSum {
  template <class T>
  static void run(const Call& call) {
    const auto [outer, size, inner] = graph::split_at(call.in_shape(0), graph::axis_of(call.problem.view(), 0));
    const bool exclusive = call.attributes().integer("exclusive", 0) != 0, reverse = call.attributes().integer("reverse", 0) != 0;
    const std::int64_t step = reverse ? -inner : inner;
    for (std::int64_t row = 0; row < outer * inner; ++row) {
      std::int64_t at = row / inner * size * inner + row % inner + (reverse ? (size - 1) * inner : 0);
      Wide<T> sum = 0;
      for (std::int64_t s = 0; s < size; ++s, at += step) {
        const Wide<T> next = sum + call.in<T>(0)[at];
        call.out<T>()[at] = static_cast<T>(exclusive ? sum : next);
        sum = next;
      }
    }
  }
};

constexpr std::string_view kReductionAny = "reference:any";
constexpr KernelRow kReductionRows[] = {
    {"ReduceSum", kReductionAny, make_by_output<Reduce<ReductionSum>, Numbers>},
    {"ReduceMax", kReductionAny, make_by_output<Reduce<ReductionMaximum>, Numbers>},
    {"ReduceMin", kReductionAny, make_by_output<Reduce<Minimum>, Numbers>},
    {"ReduceProd", kReductionAny, make_by_output<Reduce<ReductionProduct>, Numbers>},
    {"ReduceProdGrad", kReductionAny, make_by_output<ReduceProdGrad, Floats>},
    {"ArgMax", kReductionAny, make_by_input<Position<true>, Numbers>},
    {"ArgMin", kReductionAny, make_by_input<Position<false>, Numbers>},
    {"CumSum", kReductionAny, make_by_output<CumSum, Numbers>},
};

}  // namespace

std::span<const KernelRow> reduction_kernels() { return kReductionRows; }

}  // namespace rehearsal::exec::reference
