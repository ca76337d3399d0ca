#include "graph/ops/indexing.hpp"

#include <string>

#include "base/error.hpp"

namespace rehearsal::graph {

void require_indices(const NodeView& node, std::size_t operand) {
  const DType type = node.input(operand).dtype;
  if (type == DType::I32 || type == DType::I64) return;
  throw BadInput("operand " + std::to_string(operand) + " is " + std::string(name(type)) + ", indices must be i32 or i64");
}

std::size_t data_axis(const NodeView& node, const Shape& data) {
  return static_cast<std::size_t>(normalize_axis(node.attributes.integer("axis", 0), data.size()));
}

std::int64_t resolved_index(std::int64_t index, std::int64_t size) {
  if (index < -size || index >= size)
    throw BadInput("index " + std::to_string(index) + " lies outside a dimension of size " + std::to_string(size));
  return index < 0 ? index + size : index;
}

void require_elements(const Shape& data, const Shape& indices, std::size_t axis) {
  bool fits = data.size() == indices.size();
  for (std::size_t d = 0; fits && d < data.size(); ++d) fits = d == axis || indices[d] <= data[d];
  if (!fits)
    throw BadInput("operand 1 has shape " + to_text(indices) + ", it must fit into " + to_text(data) + " except along axis " +
                   std::to_string(axis));
}

SplitRule elements_rule(const Shape& data, const Shape& indices, std::size_t axis) {
  SplitRule rule{{TensorLabels(data.size()), TensorLabels(data.size())},
                 {TensorLabels(data.size())},
                 std::vector<LabelKind>(data.size(), LabelKind::Parallel)};
  for (std::size_t d = 0; d < data.size(); ++d) {
    const bool opaque = d == axis || data[d] != indices[d];
    if (opaque) rule.kinds[d] = LabelKind::Opaque;
    if (data[d] != 1) rule.inputs[0][d] = whole(static_cast<int>(d), data[d]);
    if (!opaque && indices[d] != 1) rule.inputs[1][d] = rule.outputs[0][d] = whole(static_cast<int>(d), indices[d]);
  }
  return rule;
}

Shape slices_shape(const Shape& data, const Shape& indices) {
  if (indices.empty() || indices.back() < 1 || indices.back() > static_cast<std::int64_t>(data.size())) {
    throw BadInput("operand 1 has shape " + to_text(indices) + ", its last dimension must be 1 to " + std::to_string(data.size()));
  }
  Shape shape(indices.begin(), indices.end() - 1);
  shape.insert(shape.end(), data.begin() + indices.back(), data.end());
  return shape;
}

SliceLabels slice_labels(const Shape& data, const Shape& indices, LabelKind rows) {
  SliceLabels labels{TensorLabels(data.size()), TensorLabels(indices.size()), {}, {}};
  const auto add = [&](LabelKind kind, std::int64_t size) {
    labels.kinds.push_back(kind);
    return size == 1 ? DimLabels{} : whole(static_cast<int>(labels.kinds.size()) - 1, size);
  };
  const std::size_t last = indices.size() - 1, depth = static_cast<std::size_t>(indices[last]);
  for (std::size_t d = 0; d < last; ++d) labels.slices.push_back(labels.indices[d] = add(rows, indices[d]));
  for (std::size_t d = depth; d < data.size(); ++d) labels.slices.push_back(labels.data[d] = add(LabelKind::Parallel, data[d]));
  labels.indices[last] = add(LabelKind::Opaque, indices[last]);
  for (std::size_t d = 0; d < depth; ++d) labels.data[d] = add(LabelKind::Opaque, data[d]);
  return labels;
}

std::pair<std::vector<std::int64_t>, std::int64_t> addressed(const Shape& data, const Value& indices) {
  const std::int64_t depth = indices.type.shape.back();
  const auto strides = row_major_strides(data);
  std::vector<std::int64_t> first;
  for (std::int64_t i = 0; i < indices.count(); i += depth) {
    std::int64_t at = 0;
    for (std::int64_t d = 0; d < depth; ++d)
      at += resolved_index(indices.integer(i + d), data[static_cast<std::size_t>(d)]) * strides[static_cast<std::size_t>(d)];
    first.push_back(at);
  }
  return {first, strides[static_cast<std::size_t>(depth - 1)]};
}

}  // namespace rehearsal::graph
