#include "graph/ops/axes.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace rehearsal::graph {

std::size_t axis_of(const NodeView& node, std::int64_t otherwise) {
  return static_cast<std::size_t>(normalize_axis(node.attributes.integer("axis", otherwise), node.input(0).shape.size()));
}

std::vector<bool> reduced_dimensions(const NodeView& node) {
  const std::size_t rank = node.input(0).shape.size();
  if (!node.attributes.has("axes")) return std::vector<bool>(rank, true);
  std::vector<bool> reduced(rank, false);
  for (const std::int64_t axis : node.attributes.integers("axes")) {
    const auto d = static_cast<std::size_t>(normalize_axis(axis, rank));
    if (reduced[d]) throw BadInput("attribute axes", "names axis " + std::to_string(d) + " twice");
    reduced[d] = true;
  }
  return reduced;
}

Shape kept_shape(const Shape& shape, const std::vector<bool>& reduced) {
  Shape kept = shape;
  for (std::size_t d = 0; d < kept.size(); ++d) {
    if (reduced[d]) kept[d] = 1;
  }
  return kept;
}

namespace {

Range1 clamped(std::int64_t start, std::int64_t end, std::int64_t step, std::int64_t size) {
  if (step == 0) throw BadInput("attribute steps", "holds a step of 0; a step must be positive or negative");
  step = std::clamp<std::int64_t>(step, -size - 1, size + 1);  // a larger one takes the same single element, and strides cannot overflow
  if (start < 0) start += size;
  if (end < 0) end = std::max<std::int64_t>(end, -size - 1) + size;
  if (step > 0) {
    start = std::clamp<std::int64_t>(start, 0, size);
    end = std::clamp<std::int64_t>(end, 0, size);
    return {start, step, end > start ? (end - start - 1) / step + 1 : 0};
  }
  start = std::clamp<std::int64_t>(start, -1, size - 1);
  end = std::clamp<std::int64_t>(end, -1, size - 1);
  return {std::max<std::int64_t>(start, 0), step, start > end ? (start - end - 1) / -step + 1 : 0};
}

}  // namespace

std::vector<Range1> slice_ranges(const Attributes& attributes, const Shape& shape) {
  const auto starts = attributes.integers("starts"), ends = attributes.integers("ends");
  auto axes = attributes.integers("axes");
  if (axes.empty()) {
    for (std::size_t d = 0; d < starts.size(); ++d) axes.push_back(static_cast<std::int64_t>(d));
  }
  const auto steps = attributes.integers("steps", std::vector<std::int64_t>(starts.size(), 1));
  if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size()) {
    throw BadInput("attributes starts, ends, axes and steps must have one length; they have " + std::to_string(starts.size()) + ", " +
                   std::to_string(ends.size()) + ", " + std::to_string(axes.size()) + " and " + std::to_string(steps.size()));
  }
  std::vector<Range1> ranges;
  for (const std::int64_t size : shape) ranges.push_back({0, 1, size});
  std::vector<bool> seen(shape.size(), false);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const auto d = static_cast<std::size_t>(normalize_axis(axes[i], shape.size()));
    if (seen[d]) throw BadInput("attribute axes", "names axis " + std::to_string(d) + " twice");
    seen[d] = true;
    ranges[d] = clamped(starts[i], ends[i], steps[i], shape[d]);
  }
  return ranges;
}

StridedView sliced_view(const Shape& shape, const std::vector<Range1>& ranges) {
  StridedView view = whole_view(shape);
  for (std::size_t d = 0; d < ranges.size(); ++d) {
    view.offset += ranges[d].start * view.strides[d];
    view.strides[d] *= ranges[d].step;
    view.shape[d] = ranges[d].count;
  }
  return view;
}

StridedView tiled_view(const Shape& shape, const std::vector<std::int64_t>& repeats) {
  const auto strides = row_major_strides(shape);
  StridedView view;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    view.shape.insert(view.shape.end(), {repeats[d], shape[d]});
    view.strides.insert(view.strides.end(), {0, strides[d]});
  }
  return view;
}

std::vector<TensorType> infer_along_axis(const NodeView& node) {
  require_inputs(node, 1, 1);
  (void)axis_of(node, 0);
  return infer_same(node);
}

SplitRule labels_with_whole_axis(const NodeView& node, std::size_t axis) {
  SplitRule rule = elementwise_labels(node);
  rule.kinds[axis] = LabelKind::Opaque;
  return rule;
}

AxisSplit split_at(const Shape& shape, std::size_t axis) {
  AxisSplit split;
  for (std::size_t d = 0; d < shape.size(); ++d) (d < axis ? split.outer : d == axis ? split.size : split.inner) *= shape[d];
  return split;
}

}  // namespace rehearsal::graph
