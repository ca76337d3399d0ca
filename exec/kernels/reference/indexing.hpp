#pragma once
// What kernels that read or write at indices share. Operand 1 holds the indices, i32 or i64; negative ones count from the end.

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "exec/kernels/reference/reference.hpp"
#include "graph/ops/axes.hpp"

namespace rehearsal::exec::reference {

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

inline std::int64_t read_index(const Call& call, std::int64_t i) {
  return call.problem.inputs[1]->dtype == DType::I32 ? call.in<std::int32_t>(1)[i] : call.in<std::int64_t>(1)[i];
}

inline std::vector<std::int64_t> read_rows(const Call& call, const Rows& rows) {
  std::vector<std::int64_t> found(static_cast<std::size_t>(graph::element_count(call.in_shape(1))));
  for (std::size_t i = 0; i < found.size(); ++i) found[i] = rows.find(read_index(call, static_cast<std::int64_t>(i)));
  return found;
}

inline std::size_t axis_in(const Call& call, const graph::Shape& data) {
  return static_cast<std::size_t>(graph::normalize_axis(call.attributes().integer("axis", 0), data.size()));
}

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

/// Calls body(number of the address, number of the first element, elements of the slice) for every address along the last dimension of
/// the indices. Throws BadInput when one lies outside `data`.
template <class F>
void for_each_slice(const Call& call, const graph::Shape& data, const F& body) {
  const graph::Shape& indices = call.in_shape(1);
  const std::int64_t depth = indices.back(), count = graph::element_count(indices) / depth;
  const auto strides = graph::row_major_strides(data);
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t at = 0;
    for (std::int64_t d = 0; d < depth; ++d) {
      const auto u = static_cast<std::size_t>(d);
      at += Rows{0, data[u], data[u]}.find(read_index(call, i * depth + d)) * strides[u];
    }
    body(i, at, strides[static_cast<std::size_t>(depth - 1)]);
  }
}

}  // namespace rehearsal::exec::reference
