#pragma once
// Reading the axes of reductions, slices and the like: by their rows and by their kernels.

#include <vector>

#include "graph/ops/labels.hpp"
#include "graph/ops/strided.hpp"

namespace rehearsal::graph {

/// The attribute `axis` of operand 0, counted from the front. Throws BadInput when it lies outside.
[[nodiscard]] std::size_t axis_of(const NodeView&, std::int64_t otherwise);

/// For every dimension of operand 0 whether the attribute `axes` names it; all when there is no such attribute.
/// Throws BadInput when an axis lies outside or is named twice.
[[nodiscard]] std::vector<bool> reduced_dimensions(const NodeView&);
/// Operand 0's shape with its reduced dimensions 1.
[[nodiscard]] Shape kept_shape(const Shape&, const std::vector<bool>& reduced);

/// One dimension of a slice: elements start, start + step, ...; `count` of them.
struct Range1 {
  std::int64_t start = 0, step = 1, count = 0;
};
/// Attributes starts, ends, axes (default: the first ones) and steps (default 1) on a tensor of `shape`, with ONNX's clamping of
/// values outside; one entry per dimension. Throws BadInput when lengths differ, a step is 0 or an axis is named twice.
[[nodiscard]] std::vector<Range1> slice_ranges(const Attributes&, const Shape& shape);
/// The slice as a view of a tensor of `shape`.
[[nodiscard]] StridedView sliced_view(const Shape& shape, const std::vector<Range1>& ranges);

/// A tensor of `shape` whose dimension d is read `repeats`[d] times.
[[nodiscard]] StridedView tiled_view(const Shape& shape, const std::vector<std::int64_t>& repeats);

/// Types for rows whose only result is like their only operand, of which they take attribute axis (0 where it is missing).
[[nodiscard]] std::vector<TensorType> infer_along_axis(const NodeView&);

/// Every dimension of result 0 parallel, except `axis`, which the operator needs whole. Operands are like result 0.
[[nodiscard]] SplitRule labels_with_whole_axis(const NodeView&, std::size_t axis);

/// (product of the dimensions before `axis`, its size, product of those after).
struct AxisSplit {
  std::int64_t outer = 1, size = 1, inner = 1;
};
[[nodiscard]] AxisSplit split_at(const Shape&, std::size_t axis);

}  // namespace rehearsal::graph
