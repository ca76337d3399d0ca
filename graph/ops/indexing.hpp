#pragma once
// What rows that read or write at indices share. Negative indices count from the end.

#include <cstdint>
#include <utility>
#include <vector>

#include "graph/ops/axes.hpp"

namespace rehearsal::graph {

/// Throws BadInput unless the operand is i32 or i64.
void require_indices(const NodeView&, std::size_t operand);
/// The attribute `axis` (default 0) of a tensor of shape `data`.
[[nodiscard]] std::size_t data_axis(const NodeView&, const Shape& data);
/// Throws BadInput when the index lies outside.
[[nodiscard]] std::int64_t resolved_index(std::int64_t index, std::int64_t size);

/// Throws BadInput unless `indices` fits into `data` except along `axis`.
void require_elements(const Shape& data, const Shape& indices, std::size_t axis);
/// Of (data, indices) -> gathered. Dimensions of one size in both are parallel; the axis, and a dimension of which only a part is
/// addressed, are whole.
[[nodiscard]] SplitRule elements_rule(const Shape& data, const Shape& indices, std::size_t axis);

/// Shape of the slices of `data` that the last dimension of `indices` addresses. Throws BadInput when it does not fit.
[[nodiscard]] Shape slices_shape(const Shape& data, const Shape& indices);
/// Labels of data, indices and slices. Dimensions of a slice are parallel, addressed ones whole, those of the indices of kind `rows`.
struct SliceLabels {
  TensorLabels data, indices, slices;
  std::vector<LabelKind> kinds;
};
[[nodiscard]] SliceLabels slice_labels(const Shape& data, const Shape& indices, LabelKind rows);
/// First elements of the slices of `data` that `indices` address, and how long a slice is.
[[nodiscard]] std::pair<std::vector<std::int64_t>, std::int64_t> addressed(const Shape& data, const Value& indices);

}  // namespace rehearsal::graph
