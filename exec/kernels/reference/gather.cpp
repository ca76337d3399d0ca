// Rows of a block that an index does not fall into are left 0: the sum over the blocks is then the whole.

#include <algorithm>
#include <string>

#include "base/error.hpp"
#include "exec/kernels/reference/families.hpp"
#include "exec/kernels/reference/reference.hpp"
#include "graph/ops/axes.hpp"

namespace rehearsal::exec::reference {
namespace {

using graph::AxisSplit;

/// The block of rows that this kernel holds of a dimension of `global` rows.
struct Rows {
  std::int64_t first, count, global;

  /// Row within the block, -1 when it lies in another one. Throws BadInput when it lies nowhere.
  [[nodiscard]] std::int64_t find(std::int64_t index) const {
    if (index < -global || index >= global)
      throw BadInput("index " + std::to_string(index) + " lies outside a dimension of size " + std::to_string(global));
    const std::int64_t local = (index < 0 ? index + global : index) - first;
    return local >= 0 && local < count ? local : -1;
  }
};

std::int64_t read_index(const Call& call, std::int64_t i) {
  return call.problem.inputs[1]->dtype == DType::I32 ? call.in<std::int32_t>(1)[i] : call.in<std::int64_t>(1)[i];
}

std::vector<std::int64_t> read_rows(const Call& call, const Rows& rows) {
  std::vector<std::int64_t> found(static_cast<std::size_t>(graph::element_count(call.in_shape(1))));
  for (std::size_t i = 0; i < found.size(); ++i) found[i] = rows.find(read_index(call, static_cast<std::int64_t>(i)));
  return found;
}

std::size_t axis_in(const Call& call, const graph::Shape& data) {
  return static_cast<std::size_t>(graph::normalize_axis(call.attributes().integer("axis", 0), data.size()));
}

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

/// Calls body(number of the index, number of the element of a tensor of shape `data`) for every index.
template <class F>
void for_each_element(const Call& call, const graph::Shape& data, const Rows& rows, const F& body) {
  const graph::Shape& shape = call.in_shape(1);
  const std::size_t axis = axis_in(call, data);
  graph::StridedView picked = graph::whole_view(data);
  const std::int64_t stride = picked.strides[axis];
  picked.shape = shape;
  picked.strides[axis] = 0;
  const graph::RowWalk<2> walk({graph::whole_view(shape), picked});
  const auto [step, data_step] = walk.steps();
  walk.each([&, step = step, data_step = data_step](std::int64_t, const std::array<std::int64_t, 2>& at) {
    for (std::int64_t i = 0; i < walk.length(); ++i) {
      const std::int64_t index = at[0] + i * step, row = rows.find(read_index(call, index));
      body(index, row < 0 ? -1 : at[1] + i * data_step + row * stride);
    }
  });
}

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

constexpr std::string_view kAny = "reference:any";
constexpr KernelRow kRows[] = {
    {"Gather", kAny, make_by_size<Gather>},
    {"GatherGrad", kAny, make_by_output<GatherGrad, Floats>},
    {"GatherElements", kAny, make_by_size<GatherElements>},
    {"GatherElementsGrad", kAny, make_by_output<GatherElementsGrad, Floats>},
};

}  // namespace

std::span<const KernelRow> gather_kernels() { return kRows; }

}  // namespace rehearsal::exec::reference
