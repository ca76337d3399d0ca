#include "graph/ops/strided.hpp"

namespace rehearsal::graph {

std::vector<std::int64_t> row_major_strides(const Shape& shape) {
  std::vector<std::int64_t> strides(shape.size(), 1);
  for (std::size_t d = shape.size(); d-- > 1;) strides[d - 1] = strides[d] * shape[d];
  return strides;
}

StridedView whole_view(const Shape& shape) { return {shape, row_major_strides(shape), 0}; }

StridedView broadcast_view(const Shape& from, const Shape& to) {
  StridedView view{to, std::vector<std::int64_t>(to.size(), 0), 0};
  const auto strides = row_major_strides(from);
  const std::size_t skipped = to.size() - from.size();
  for (std::size_t d = 0; d < from.size(); ++d) view.strides[d + skipped] = from[d] == 1 ? 0 : strides[d];
  return view;
}

StridedView transposed_view(const Shape& shape, const std::vector<std::int64_t>& perm) {
  StridedView view;
  const auto strides = row_major_strides(shape);
  for (const std::int64_t from : perm) {
    view.shape.push_back(shape[static_cast<std::size_t>(from)]);
    view.strides.push_back(strides[static_cast<std::size_t>(from)]);
  }
  return view;
}

StridedView part_view(const Shape& whole, const Shape& piece, std::size_t axis, std::int64_t start) {
  StridedView view{piece, row_major_strides(whole), 0};
  view.offset = start * view.strides[axis];
  return view;
}

}  // namespace rehearsal::graph
