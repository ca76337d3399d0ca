// Rows that pick elements by index. Negative indices count from the end of the unsplit dimension.

#include <algorithm>
#include <string>

#include "base/error.hpp"
#include "graph/gradient.hpp"
#include "graph/ops/indexing.hpp"
#include "graph/ops/op_families.hpp"

namespace rehearsal::graph {
namespace {

using GatherOperands = std::span<const Value* const>;

Shape data_shape(const NodeView& node) {
  if (!node.attributes.has("shape")) throw BadInput("attribute shape", "is missing; it is the shape of the tensor that was gathered from");
  return node.attributes.integers("shape");
}

/// `data` with dimension `axis` replaced by the dimensions of `indices`.
Shape gathered_shape(const Shape& data, const Shape& indices, std::size_t axis) {
  const auto at = data.begin() + static_cast<std::ptrdiff_t>(axis);
  Shape shape(data.begin(), at);
  shape.insert(shape.end(), indices.begin(), indices.end());
  shape.insert(shape.end(), at + 1, data.end());
  return shape;
}

// Gather(data, indices) along the attribute axis; with axis 0, the row of the attribute padding takes no gradient

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

/// What flows into row `padding` of an embedding is dropped, as torch.nn.Embedding(padding_idx=...) does.
TensorId without_padding(GradientContext& g, std::int64_t padding) {
  const TensorType indices = g.type(g.input(1));
  Shape column = indices.shape;
  column.resize(column.size() + g.type(g.input(0)).shape.size() - 1, 1);
  const TensorId padded = g.emit1("Equal", {g.input(1), g.constant(static_cast<double>(padding), indices.dtype)});
  const TensorId dy = g.gradient_of_output();
  return g.emit1("Where", {g.emit1("Reshape", {padded}, {{"shape", column}}), g.constant(0, g.type(dy).dtype), dy});
}

void gather_gradient(GradientContext& g) {
  const std::int64_t padding = g.attributes().integer("padding", -1);
  const TensorId dy = padding < 0 ? g.gradient_of_output() : without_padding(g, padding);
  const Shape shape = g.type(g.input(0)).shape;
  g.set(0, g.emit1("GatherGrad", {dy, g.input(1)}, {{"axis", g.attributes().integer("axis", 0)}, {"shape", shape}}));
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

std::vector<Value> evaluate_gather(const NodeView& node, GatherOperands inputs) {
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

std::vector<TensorType> infer_elements_of_gather(const NodeView& node) {
  require_inputs(node, 2, 2);
  require_indices(node, 1);
  const Shape &data = node.input(0).shape, &indices = node.input(1).shape;
  require_elements(data, indices, data_axis(node, data));
  return {{node.input(0).dtype, indices}};
}

SplitRule elements_labels_of_gather(const NodeView& node) {
  const Shape& data = node.input(0).shape;
  return elements_rule(data, node.input(1).shape, data_axis(node, data));
}

SplitRule elements_gradient_labels(const NodeView& node) {
  const Shape& data = node.output().shape;
  SplitRule rule = elements_rule(data, node.input(1).shape, data_axis(node, data));
  std::swap(rule.inputs[0], rule.outputs[0]);
  return rule;
}

void elements_gradient_of_gather(GradientContext& g) {
  Attributes attributes = g.attributes();
  attributes.set("shape", g.type(g.input(0)).shape);
  g.set(0, g.emit1("GatherElementsGrad", {g.gradient_of_output(), g.input(1)}, std::move(attributes)));
}

std::vector<TensorType> infer_elements_gradient(const NodeView& node) {
  require_inputs(node, 2, 2);
  require_float(node, 0);
  require_indices(node, 1);
  const Shape data = data_shape(node);
  require_elements(data, node.input(1).shape, data_axis(node, data));
  if (node.input(0).shape != node.input(1).shape) {
    throw BadInput("operand 0 has shape " + to_text(node.input(0).shape) + ", it must be like the indices " + to_text(node.input(1).shape));
  }
  return {{node.input(0).dtype, data}};
}

// GatherND(data, indices): the last dimension of the indices addresses the first dimensions of the data (batch dimensions: the importer)

std::vector<TensorType> infer_nd_of_gather(const NodeView& node) {
  require_inputs(node, 2, 2);
  require_indices(node, 1);
  return {{node.input(0).dtype, slices_shape(node.input(0).shape, node.input(1).shape)}};
}

SplitRule nd_labels_of_gather(const NodeView& node) {
  SliceLabels labels = slice_labels(node.input(0).shape, node.input(1).shape, LabelKind::Parallel);
  return {{std::move(labels.data), std::move(labels.indices)}, {std::move(labels.slices)}, std::move(labels.kinds)};
}

void nd_gradient_of_gather(GradientContext& g) {
  const TensorType data = g.type(g.input(0));
  const TensorId zeros = g.emit1("ConstantOfShape", {}, {{"shape", data.shape}, {"dtype", std::string(name(data.dtype))}});
  g.set(0, g.emit1("ScatterND", {zeros, g.input(1), g.gradient_of_output()}, {{"reduction", std::string("add")}}));
}

template <class T>
std::vector<T> picked_slices(const std::vector<T>& data, const std::vector<std::int64_t>& first, std::int64_t length) {
  std::vector<T> result;
  for (const std::int64_t at : first) {
    if (!data.empty()) result.insert(result.end(), data.begin() + at, data.begin() + at + length);
  }
  return result;
}

std::vector<Value> evaluate_nd_of_gather(const NodeView& node, GatherOperands inputs) {
  const auto [first, length] = addressed(node.input(0).shape, *inputs[1]);
  return {{node.output(), picked_slices(inputs[0]->integers, first, length), picked_slices(inputs[0]->reals, first, length)}};
}

constexpr CostFamily kGather = CostFamily::Gather;

constexpr OpSchema kGatherRows[] = {
    {.name = "Gather",
     .description = "slices of the data along the attribute axis, picked by index",
     .family = kGather,
     .traits = Trait::Positional,
     .infer = infer_gather,
     .labels = gather_labels,
     .work = gather_work,
     .gradient = gather_gradient,
     .evaluate = evaluate_gather},
    {.name = "GatherGrad",
     .description = "gradient of Gather: (gradient, indices), added up into the attribute shape",
     .family = kGather,
     .traits = Trait::Positional,
     .infer = infer_gather_gradient,
     .labels = gather_gradient_labels,
     .work = gather_gradient_work,
     .no_gradient = kSecondDerivative,
     .linear = LinearIn::First},
    {.name = "GatherElements",
     .description = "elements of the data along the attribute axis, one per index",
     .family = kGather,
     .traits = Trait::Positional,
     .infer = infer_elements_of_gather,
     .labels = elements_labels_of_gather,
     .work = gather_work,
     .gradient = elements_gradient_of_gather},
    {.name = "GatherElementsGrad",
     .description = "gradient of GatherElements: (gradient, indices), added up into the attribute shape",
     .family = kGather,
     .traits = Trait::Positional,
     .infer = infer_elements_gradient,
     .labels = elements_gradient_labels,
     .work = gather_gradient_work,
     .no_gradient = kSecondDerivative},
    {.name = "GatherND",
     .description = "slices of the data, addressed by the last dimension of the indices",
     .family = kGather,
     .traits = Trait::Positional,
     .infer = infer_nd_of_gather,
     .labels = nd_labels_of_gather,
     .work = gather_work,
     .gradient = nd_gradient_of_gather,
     .evaluate = evaluate_nd_of_gather},
};

}  // namespace

std::span<const OpSchema> gather_ops() { return kGatherRows; }

}  // namespace rehearsal::graph
