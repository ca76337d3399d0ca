// Rows of a block that an index does not fall into are left 0: the sum over the blocks is then the whole.

#include <algorithm>

#include "exec/kernels/reference/families.hpp"
#include "exec/kernels/reference/indexing.hpp"

namespace rehearsal::exec::reference {
namespace {

using graph::AxisSplit;

struct Gather {
  template <class T>
  static void run(const Call& call) {
    const std::size_t axis = axis_in(call, call.in_shape(0));
    const AxisSplit split = graph::split_at(call.in_shape(0), axis);
    const auto rows = read_rows(call, {call.in_origin(0, axis), split.size, call.in_global(0)[axis]});
    T* y = call.out<T>();
    for (std::int64_t o = 0; o < split.outer; ++o) {
      for (const std::int64_t row : rows) {
        if (row < 0) {
          std::fill_n(y, split.inner, T(0));
        } else {
          std::copy_n(call.in<T>(0) + (o * split.size + row) * split.inner, split.inner, y);
        }
        y += split.inner;
      }
    }
  }
};

struct GatherGrad {
  template <class T>
  static void run(const Call& call) {
    const std::size_t axis = axis_in(call, call.out_shape());
    const AxisSplit split = graph::split_at(call.out_shape(), axis);
    const auto rows = read_rows(call, {call.out_origin(0, axis), split.size, call.out_global()[axis]});
    std::fill_n(call.out<T>(), graph::element_count(call.out_shape()), T(0));
    const T* dy = call.in<T>(0);
    for (std::int64_t o = 0; o < split.outer; ++o) {
      for (const std::int64_t row : rows) {
        T* x = call.out<T>() + (o * split.size + row) * split.inner;
        for (std::int64_t i = 0; row >= 0 && i < split.inner; ++i) x[i] += dy[i];
        dy += split.inner;
      }
    }
  }
};

struct GatherElements {
  template <class T>
  static void run(const Call& call) {
    const std::size_t axis = axis_in(call, call.in_shape(0));
    const Rows rows{call.in_origin(0, axis), call.in_shape(0)[axis], call.in_global(0)[axis]};
    for_each_element(call, call.in_shape(0), rows,
                     [&](std::int64_t index, std::int64_t at) { call.out<T>()[index] = at < 0 ? T(0) : call.in<T>(0)[at]; });
  }
};

struct GatherElementsGrad {
  template <class T>
  static void run(const Call& call) {
    const std::size_t axis = axis_in(call, call.out_shape());
    const Rows rows{call.out_origin(0, axis), call.out_shape()[axis], call.out_global()[axis]};
    std::fill_n(call.out<T>(), graph::element_count(call.out_shape()), T(0));
    for_each_element(call, call.out_shape(), rows, [&](std::int64_t index, std::int64_t at) {
      if (at >= 0) call.out<T>()[at] += call.in<T>(0)[index];
    });
  }
};

constexpr std::string_view kGatherAny = "reference:any";
constexpr KernelRow kGatherRows[] = {
    {"Gather", kGatherAny, make_by_size<Gather>},
    {"GatherGrad", kGatherAny, make_by_output<GatherGrad, Floats>},
    {"GatherElements", kGatherAny, make_by_size<GatherElements>},
    {"GatherElementsGrad", kGatherAny, make_by_output<GatherElementsGrad, Floats>},
};

}  // namespace

std::span<const KernelRow> gather_kernels() { return kGatherRows; }

}  // namespace rehearsal::exec::reference
