// Rows that pick elements by index. Negative indices count from the end of the unsplit dimension.

#include <algorithm>
#include <string>

#include "base/error.hpp"
#include "graph/gradient.hpp"
#include "graph/ops/axes.hpp"
#include "graph/ops/families.hpp"

namespace rehearsal::graph {
namespace {

using Operands = std::span<const Value* const>;

void require_indices(const NodeView& node, std::size_t operand) {
  const DType type = node.input(operand).dtype;
  if (type == DType::I32 || type == DType::I64) return;
  throw BadInput("operand " + std::to_string(operand) + " is " + std::string(name(type)) + ", indices must be i32 or i64");
}

Shape data_shape(const NodeView& node) {
  if (!node.attributes.has("shape")) throw BadInput("attribute shape", "is missing; it is the shape of the tensor that was gathered from");
  return node.attributes.integers("shape");
}

std::size_t data_axis(const NodeView& node, const Shape& data) {
  return static_cast<std::size_t>(normalize_axis(node.attributes.integer("axis", 0), data.size()));
}

/// `data` with dimension `axis` replaced by the dimensions of `indices`.
Shape gathered_shape(const Shape& data, const Shape& indices, std::size_t axis) {
  const auto at = data.begin() + static_cast<std::ptrdiff_t>(axis);
  Shape shape(data.begin(), at);
  shape.insert(shape.end(), indices.begin(), indices.end());
  shape.insert(shape.end(), at + 1, data.end());
  return shape;
}

// Gather(data, indices) along the attribute axis

std::vector<TensorType> infer_gather(const NodeView& node) {
  require_inputs(node, 2, 2);
  require_indices(node, 1);
  const Shape& data = node.input(0).shape;
  return {{node.input(0).dtype, gathered_shape(data, node.input(1).shape, data_axis(node, data))}};
}

/// Labels: the dimensions of the gathered tensor, then one for the rows picked from. Operands in the order (data, indices, gathered).
struct GatherLabels {
  TensorLabels data, indices, gathered;
  int rows = 0;
};

GatherLabels gather_parts(const Shape& data, const Shape& indices, std::size_t axis) {
  const Shape gathered = gathered_shape(data, indices, axis);
  GatherLabels parts;
  parts.gathered = aligned_labels(gathered, gathered);
  parts.rows = static_cast<int>(gathered.size());
  const auto first = parts.gathered.begin() + static_cast<std::ptrdiff_t>(axis);
  const auto last = first + static_cast<std::ptrdiff_t>(indices.size());
  parts.indices.assign(first, last);
  parts.data.assign(parts.gathered.begin(), first);
  parts.data.push_back(data[axis] == 1 ? DimLabels{} : whole(parts.rows, data[axis]));
  parts.data.insert(parts.data.end(), last, parts.gathered.end());
  return parts;
}

/// Splitting the rows leaves each part with zeros for what the others hold: a sum.
SplitRule gather_labels(const NodeView& node) {
  const Shape& data = node.input(0).shape;
  auto parts = gather_parts(data, node.input(1).shape, data_axis(node, data));
  SplitRule rule{{std::move(parts.data), std::move(parts.indices)}, {std::move(parts.gathered)}, {}};
  rule.kinds.assign(static_cast<std::size_t>(parts.rows) + 1, LabelKind::Parallel);
  rule.kinds.back() = LabelKind::Sum;
  return rule;
}

/// Only the rows that are picked are read.
Work gather_work(const NodeView& node) { return {Flops(0), size_of(node.output()) * 2.0 + size_of(node.input(1))}; }

void gather_gradient(GradientContext& g) {
  Attributes attributes = g.attributes();
  attributes.set("shape", g.type(g.input(0)).shape);
  g.set(0, g.emit1("GatherGrad", {g.gradient_of_output(), g.input(1)}, std::move(attributes)));
}

std::int64_t resolved_index(std::int64_t index, std::int64_t size) {
  if (index < -size || index >= size)
    throw BadInput("index " + std::to_string(index) + " lies outside a dimension of size " + std::to_string(size));
  return index < 0 ? index + size : index;
}

template <class T>
std::vector<T> picked(const std::vector<T>& data, const Value& indices, AxisSplit split) {
  std::vector<T> result;
  for (std::int64_t o = 0; o < split.outer && !data.empty(); ++o) {
    for (std::int64_t i = 0; i < indices.count(); ++i) {
      const auto row = data.begin() + (o * split.size + resolved_index(indices.integer(i), split.size)) * split.inner;
      result.insert(result.end(), row, row + split.inner);
    }
  }
  return result;
}

std::vector<Value> evaluate_gather(const NodeView& node, Operands inputs) {
  const Shape& data = node.input(0).shape;
  const AxisSplit split = split_at(data, data_axis(node, data));
  return {{node.output(), picked(inputs[0]->integers, *inputs[1], split), picked(inputs[0]->reals, *inputs[1], split)}};
}

// GatherGrad(gradient, indices): scatter-add into zeros of the attribute shape

std::vector<TensorType> infer_gather_gradient(const NodeView& node) {
  require_inputs(node, 2, 2);
  require_float(node, 0);
  require_indices(node, 1);
  const Shape data = data_shape(node), expected = gathered_shape(data, node.input(1).shape, data_axis(node, data));
  if (node.input(0).shape != expected)
    throw BadInput("operand 0 has shape " + to_text(node.input(0).shape) + ", it must be " + to_text(expected));
  return {{node.input(0).dtype, data}};
}

/// The rows are parallel (each part takes the indices that fall into it), the picks are summed.
SplitRule gather_gradient_labels(const NodeView& node) {
  const Shape data = data_shape(node);
  const std::size_t axis = data_axis(node, data);
  auto parts = gather_parts(data, node.input(1).shape, axis);
  SplitRule rule{{std::move(parts.gathered), std::move(parts.indices)}, {std::move(parts.data)}, {}};
  rule.kinds.assign(static_cast<std::size_t>(parts.rows) + 1, LabelKind::Parallel);
  std::fill_n(rule.kinds.begin() + static_cast<std::ptrdiff_t>(axis), node.input(1).shape.size(), LabelKind::Sum);
  return rule;
}

Work gather_gradient_work(const NodeView& node) {
  return {Flops(static_cast<double>(element_count(node.input(0).shape))),
          size_of(node.input(0)) * 2.0 + size_of(node.input(1)) + size_of(node.output())};
}

// GatherElements(data, indices): result[i][j] = data[indices[i][j]][j] for axis 0

std::vector<TensorType> infer_elements(const NodeView& node) {
  require_inputs(node, 2, 2);
  require_indices(node, 1);
  const Shape &data = node.input(0).shape, &indices = node.input(1).shape;
  const std::size_t axis = data_axis(node, data);
  bool fits = data.size() == indices.size();
  for (std::size_t d = 0; fits && d < data.size(); ++d) fits = d == axis || indices[d] <= data[d];
  if (!fits)
    throw BadInput("operand 1 has shape " + to_text(indices) + ", it must fit into " + to_text(data) + " except along axis " +
                   std::to_string(axis));
  return {{node.input(0).dtype, indices}};
}

/// Dimensions of one size in both are parallel; the axis, and a dimension of which only a part is picked from, are whole.
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

SplitRule elements_labels(const NodeView& node) {
  const Shape& data = node.input(0).shape;
  return elements_rule(data, node.input(1).shape, data_axis(node, data));
}

SplitRule elements_gradient_labels(const NodeView& node) {
  const Shape& data = node.output().shape;
  SplitRule rule = elements_rule(data, node.input(1).shape, data_axis(node, data));
  std::swap(rule.inputs[0], rule.outputs[0]);
  return rule;
}

void elements_gradient(GradientContext& g) {
  Attributes attributes = g.attributes();
  attributes.set("shape", g.type(g.input(0)).shape);
  g.set(0, g.emit1("GatherElementsGrad", {g.gradient_of_output(), g.input(1)}, std::move(attributes)));
}

std::vector<TensorType> infer_elements_gradient(const NodeView& node) {
  require_inputs(node, 2, 2);
  require_float(node, 0);
  require_indices(node, 1);
  const Shape data = data_shape(node);
  (void)data_axis(node, data);
  if (node.input(0).shape != node.input(1).shape) {
    throw BadInput("operand 0 has shape " + to_text(node.input(0).shape) + ", it must be like the indices " + to_text(node.input(1).shape));
  }
  return {{node.input(0).dtype, data}};
}

// GatherND(data, indices): the last dimension of the indices addresses the first dimensions of the data (no batch dimensions)

std::vector<TensorType> infer_nd(const NodeView& node) {
  require_inputs(node, 2, 2);
  require_indices(node, 1);
  const Shape &data = node.input(0).shape, &indices = node.input(1).shape;
  if (node.attributes.integer("batch_dims", 0) != 0)
    throw BadInput("attribute batch_dims", "must be 0: batch dimensions are not supported");
  if (indices.empty() || indices.back() < 1 || indices.back() > static_cast<std::int64_t>(data.size())) {
    throw BadInput("operand 1 has shape " + to_text(indices) + ", its last dimension must be 1 to " + std::to_string(data.size()));
  }
  Shape shape(indices.begin(), indices.end() - 1);
  shape.insert(shape.end(), data.begin() + indices.back(), data.end());
  return {{node.input(0).dtype, shape}};
}

/// First elements of the slices of `data` that `indices` address, and how long a slice is.
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

template <class T>
std::vector<T> picked_slices(const std::vector<T>& data, const std::vector<std::int64_t>& first, std::int64_t length) {
  std::vector<T> result;
  for (const std::int64_t at : first) {
    if (!data.empty()) result.insert(result.end(), data.begin() + at, data.begin() + at + length);
  }
  return result;
}

std::vector<Value> evaluate_nd(const NodeView& node, Operands inputs) {
  const auto [first, length] = addressed(node.input(0).shape, *inputs[1]);
  return {{node.output(), picked_slices(inputs[0]->integers, first, length), picked_slices(inputs[0]->reals, first, length)}};
}

// ScatterND(data, indices, updates): folded only

std::vector<TensorType> infer_scatter(const NodeView& node) {
  require_inputs(node, 3, 3);
  require_same_type(node, 0, 2);
  const auto expected = infer_nd({node.inputs.first(2), {}, node.attributes})[0];
  if (node.input(2).shape != expected.shape)
    throw BadInput("operand 2 has shape " + to_text(node.input(2).shape) + ", it must be " + to_text(expected.shape));
  return {node.input(0)};
}

template <class T>
void overwrite(std::vector<T>& data, const std::vector<T>& updates, const std::vector<std::int64_t>& first, std::int64_t length) {
  if (data.empty()) return;
  for (std::size_t i = 0; i < first.size(); ++i) {
    std::copy_n(updates.begin() + static_cast<std::ptrdiff_t>(i) * length, length, data.begin() + first[i]);
  }
}

std::vector<Value> evaluate_scatter(const NodeView& node, Operands inputs) {
  Value result = *inputs[0];
  const auto [first, length] = addressed(node.input(0).shape, *inputs[1]);
  overwrite(result.integers, inputs[2]->integers, first, length);
  overwrite(result.reals, inputs[2]->reals, first, length);
  return {std::move(result)};
}

constexpr std::string_view kSecondOrder = "part of a gradient; second derivatives are not supported";
constexpr CostFamily kGather = CostFamily::Gather;

constexpr OpSchema kRows[] = {
    {.name = "Gather",
     .description = "slices of the data along the attribute axis, picked by index",
     .family = kGather,
     .infer = infer_gather,
     .labels = gather_labels,
     .work = gather_work,
     .gradient = gather_gradient,
     .evaluate = evaluate_gather},
    {.name = "GatherGrad",
     .description = "gradient of Gather: (gradient, indices), added up into the attribute shape",
     .family = kGather,
     .infer = infer_gather_gradient,
     .labels = gather_gradient_labels,
     .work = gather_gradient_work,
     .no_gradient = kSecondOrder},
    {.name = "GatherElements",
     .description = "elements of the data along the attribute axis, one per index",
     .family = kGather,
     .infer = infer_elements,
     .labels = elements_labels,
     .work = gather_work,
     .gradient = elements_gradient},
    {.name = "GatherElementsGrad",
     .description = "gradient of GatherElements: (gradient, indices), added up into the attribute shape",
     .family = kGather,
     .infer = infer_elements_gradient,
     .labels = elements_gradient_labels,
     .work = gather_gradient_work,
     .no_gradient = kSecondOrder},
    {.name = "GatherND",
     .description = "slices of the data, addressed by the last dimension of the indices",
     .family = kGather,
     .dims = DimsRule::Opaque,
     .infer = infer_nd,
     .work = gather_work,
     .no_gradient = "not supported yet: it is only used on constants",
     .evaluate = evaluate_nd},
    {.name = "ScatterND",
     .description = "the data with slices replaced where the indices say",
     .family = kGather,
     .dims = DimsRule::Opaque,
     .infer = infer_scatter,
     .no_gradient = "not supported yet: it is only used on constants",
     .evaluate = evaluate_scatter},
};

}  // namespace

std::span<const OpSchema> gather_ops() { return kRows; }

}  // namespace rehearsal::graph
