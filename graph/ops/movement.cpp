// Rows that move elements without computing.

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

#include "base/error.hpp"
#include "graph/gradient.hpp"
#include "graph/ops/axes.hpp"
#include "graph/ops/op_families.hpp"

namespace rehearsal::graph {
namespace {

using MovementOperands = std::span<const Value* const>;

Shape shape_attribute(const NodeView& node) {
  if (!node.attributes.has("shape")) throw BadInput("attribute shape", "is missing; it lists the sizes of the result");
  const Shape shape = node.attributes.integers("shape");
  for (const std::int64_t d : shape) {
    if (d < 0) throw BadInput("attribute shape", "is " + to_text(shape) + "; sizes must be resolved, none negative");
  }
  return shape;
}

/// The values of one operand seen through `view`.
Value viewed(const Value& value, const StridedView& view, TensorType type) {
  Value result;
  result.type = std::move(type);
  const auto count = static_cast<std::size_t>(element_count(view.shape));
  if (value.integral()) {
    result.integers.resize(count);
    copy_strided(value.integers.data(), view, result.integers.data());
  } else {
    result.reals.resize(count);
    copy_strided(value.reals.data(), view, result.reals.data());
  }
  return result;
}

// Reshape

std::vector<TensorType> infer_reshape(const NodeView& node) {
  require_inputs(node, 1, 1);
  const Shape shape = shape_attribute(node);
  if (element_count(shape) != element_count(node.input(0).shape)) {
    throw BadInput("operand 0 has shape " + to_text(node.input(0).shape) + ", it cannot become " + to_text(shape) +
                   " with another number of elements");
  }
  return {{node.input(0).dtype, shape}};
}

void reshape_gradient(GradientContext& g) { g.set(0, g.emit1("Reshape", {g.gradient_of_output()}, {{"shape", g.type(g.input(0)).shape}})); }

std::vector<Value> evaluate_reshape(const NodeView& node, MovementOperands inputs) {
  Value result = *inputs[0];
  result.type = node.output();
  return {std::move(result)};
}

// Transpose

std::vector<std::int64_t> permutation(const NodeView& node) {
  const std::size_t rank = node.input(0).shape.size();
  std::vector<std::int64_t> perm(rank);
  std::iota(perm.rbegin(), perm.rend(), 0);
  perm = node.attributes.integers("perm", perm);
  auto sorted = perm;
  std::sort(sorted.begin(), sorted.end());
  std::vector<std::int64_t> axes(rank);
  std::iota(axes.begin(), axes.end(), 0);
  if (sorted != axes)
    throw BadInput("attribute perm", "is " + to_text(perm) + "; it must hold each of the " + std::to_string(rank) + " axes once");
  return perm;
}

std::vector<TensorType> infer_transpose(const NodeView& node) {
  require_inputs(node, 1, 1);
  return {{node.input(0).dtype, transposed_view(node.input(0).shape, permutation(node)).shape}};
}

void transpose_gradient(GradientContext& g) {
  const std::optional<TensorType> operand = g.type(g.input(0));
  const auto perm = permutation({{&operand, 1}, {}, g.attributes()});
  std::vector<std::int64_t> inverse(perm.size());
  for (std::size_t d = 0; d < perm.size(); ++d) inverse[static_cast<std::size_t>(perm[d])] = static_cast<std::int64_t>(d);
  g.set(0, g.emit1("Transpose", {g.gradient_of_output()}, {{"perm", inverse}}));
}

std::vector<Value> evaluate_transpose(const NodeView& node, MovementOperands inputs) {
  return {viewed(*inputs[0], transposed_view(node.input(0).shape, permutation(node)), node.output())};
}

// Expand

std::vector<TensorType> infer_expand(const NodeView& node) {
  require_inputs(node, 1, 1);
  return {{node.input(0).dtype, broadcast(node.input(0).shape, shape_attribute(node))}};
}

void expand_gradient(GradientContext& g) { g.set_broadcast(0, g.gradient_of_output()); }

std::vector<Value> evaluate_expand(const NodeView& node, MovementOperands inputs) {
  return {viewed(*inputs[0], broadcast_view(node.input(0).shape, node.output().shape), node.output())};
}

// Slice and its gradient

std::vector<TensorType> infer_slice(const NodeView& node) {
  require_inputs(node, 1, 1);
  return {{node.input(0).dtype, sliced_view(node.input(0).shape, slice_ranges(node.attributes, node.input(0).shape)).shape}};
}

void slice_gradient(GradientContext& g) {
  Attributes attributes = g.attributes();
  attributes.set("shape", g.type(g.input(0)).shape);
  g.set(0, g.emit1("SliceGrad", {g.gradient_of_output()}, std::move(attributes)));
}

std::vector<Value> evaluate_slice(const NodeView& node, MovementOperands inputs) {
  const Shape& shape = node.input(0).shape;
  return {viewed(*inputs[0], sliced_view(shape, slice_ranges(node.attributes, shape)), node.output())};
}

std::vector<TensorType> infer_slice_gradient(const NodeView& node) {
  require_inputs(node, 1, 1);
  const Shape shape = shape_attribute(node), piece = sliced_view(shape, slice_ranges(node.attributes, shape)).shape;
  if (piece != node.input(0).shape)
    throw BadInput("operand 0 has shape " + to_text(node.input(0).shape) + ", the slice has " + to_text(piece));
  return {{node.input(0).dtype, shape}};
}

/// Dimensions that are not cut keep their labels; the others must be whole.
SplitRule slice_gradient_labels(const NodeView& node) {
  SplitRule rule = elementwise_labels(node);
  const auto ranges = slice_ranges(node.attributes, node.output().shape);
  for (std::size_t d = 0; d < ranges.size(); ++d) {
    if (ranges[d].count != node.output().shape[d] || ranges[d].step != 1) rule.kinds[d] = LabelKind::Opaque;
  }
  return rule;
}

// Split

std::vector<TensorType> infer_split(const NodeView& node) {
  require_inputs(node, 1, 1);
  const std::size_t axis = axis_of(node, 0);
  const auto sizes = node.attributes.integers("split");
  const std::int64_t whole_size = node.input(0).shape[axis];
  if (sizes.empty() || std::any_of(sizes.begin(), sizes.end(), [](std::int64_t s) { return s < 0; }) ||
      std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0}) != whole_size) {
    throw BadInput("attribute split", "is " + to_text(sizes) + "; its sizes must add up to " + std::to_string(whole_size) +
                                          ", the size of axis " + std::to_string(axis));
  }
  std::vector<TensorType> types(sizes.size(), node.input(0));
  for (std::size_t i = 0; i < sizes.size(); ++i) types[i].shape[axis] = sizes[i];
  return types;
}

void split_gradient(GradientContext& g) {
  std::vector<TensorId> parts;
  const auto sizes = g.attributes().integers("split");
  const auto axis = static_cast<std::size_t>(normalize_axis(g.attributes().integer("axis", 0), g.type(g.input(0)).shape.size()));
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    TensorId part = g.gradient_of_output(i);
    if (part == TensorId::None) {
      TensorType type = g.type(g.input(0));
      type.shape[axis] = sizes[i];
      part = g.emit1("ConstantOfShape", {}, {{"shape", type.shape}, {"dtype", std::string(name(type.dtype))}});
    }
    parts.push_back(part);
  }
  g.set(0, g.emit1("Concat", std::move(parts), {{"axis", static_cast<std::int64_t>(axis)}}));
}

StridedView piece_view(const Shape& whole_shape, std::size_t axis, std::int64_t start, std::int64_t size) {
  StridedView view = whole_view(whole_shape);
  view.offset = start * view.strides[axis];
  view.shape[axis] = size;
  return view;
}

std::vector<Value> evaluate_split(const NodeView& node, MovementOperands inputs) {
  const std::size_t axis = axis_of(node, 0);
  std::vector<Value> results;
  std::int64_t start = 0;
  for (const std::int64_t size : node.attributes.integers("split")) {
    const StridedView view = piece_view(node.input(0).shape, axis, start, size);
    results.push_back(viewed(*inputs[0], view, {node.input(0).dtype, view.shape}));
    start += size;
  }
  return results;
}

// Concat

std::vector<TensorType> infer_concat(const NodeView& node) {
  require_inputs(node, 1, node.inputs.size());
  require_all(node);
  const std::size_t axis = axis_of(node, 0);
  TensorType result = node.input(0);
  for (std::size_t i = 1; i < node.inputs.size(); ++i) {
    require_same_type(node, 0, i);
    Shape other = node.input(i).shape;
    const std::int64_t size = axis < other.size() ? other[axis] : 0;
    if (axis < other.size()) other[axis] = node.input(0).shape[axis];
    if (other != node.input(0).shape) {
      throw BadInput("operand " + std::to_string(i) + " has shape " + to_text(node.input(i).shape) + ", it must be like " +
                     to_text(node.input(0).shape) + " except along axis " + std::to_string(axis));
    }
    result.shape[axis] += size;
  }
  return {result};
}

void concat_gradient(GradientContext& g) {
  const auto axis = static_cast<std::size_t>(normalize_axis(g.attributes().integer("axis", 0), g.type(g.input(0)).shape.size()));
  std::vector<std::int64_t> sizes;
  for (const TensorId t : g.node().inputs) sizes.push_back(g.type(t).shape[axis]);
  const std::size_t count = sizes.size();
  const auto parts = g.emit("Split", {g.gradient_of_output()}, {{"axis", static_cast<std::int64_t>(axis)}, {"split", std::move(sizes)}});
  for (std::size_t i = 0; i < count; ++i) {
    if (g.wants(i)) g.set(i, parts[i]);
  }
}

template <class T>
std::vector<T> joined_values(const NodeView& node, MovementOperands inputs, std::vector<T> Value::*values) {
  std::vector<T> result(static_cast<std::size_t>(element_count(node.output().shape)));
  const std::size_t axis = axis_of(node, 0);
  std::int64_t start = 0;
  for (const Value* input : inputs) {
    const std::int64_t size = input->type.shape[axis];
    copy_strided((input->*values).data(), whole_view(input->type.shape), result.data(), piece_view(node.output().shape, axis, start, size));
    start += size;
  }
  return result;
}

std::vector<Value> evaluate_concat(const NodeView& node, MovementOperands inputs) {
  Value result;
  result.type = node.output();
  if (result.integral()) {
    result.integers = joined_values(node, inputs, &Value::integers);
  } else {
    result.reals = joined_values(node, inputs, &Value::reals);
  }
  return {std::move(result)};
}

// Tile

std::vector<std::int64_t> repeats_of(const Attributes& attributes, const Shape& shape) {
  const auto repeats = attributes.integers("repeats");
  if (repeats.size() != shape.size() || std::any_of(repeats.begin(), repeats.end(), [](std::int64_t r) { return r < 0; })) {
    throw BadInput("attribute repeats", "is " + to_text(repeats) + "; it must hold a count for each dimension of " + to_text(shape));
  }
  return repeats;
}

std::vector<TensorType> infer_tile(const NodeView& node) {
  require_inputs(node, 1, 1);
  Shape shape = node.input(0).shape;
  const auto repeats = repeats_of(node.attributes, shape);
  for (std::size_t d = 0; d < shape.size(); ++d) shape[d] *= repeats[d];
  return {{node.input(0).dtype, shape}};
}

/// The operand's dimensions that are not repeated are parallel, the others whole.
SplitRule tile_labels(const NodeView& node) {
  const Shape& shape = node.input(0).shape;
  const Shape& full = node.output().shape;
  SplitRule rule{{aligned_labels(shape, full)}, {TensorLabels(full.size())}, std::vector<LabelKind>(full.size(), LabelKind::Parallel)};
  for (std::size_t d = 0; d < full.size(); ++d) {
    if (shape[d] == full[d])
      rule.outputs[0][d] = rule.inputs[0][d];
    else if (shape[d] != 1) {
      rule.inputs[0][d] = whole(static_cast<int>(d), shape[d]);
      rule.kinds[d] = LabelKind::Opaque;
    }
  }
  return rule;
}

void tile_gradient(GradientContext& g) {
  const Shape& shape = g.type(g.input(0)).shape;
  std::vector<std::int64_t> axes;
  for (std::size_t d = 0; d < shape.size(); ++d) axes.push_back(static_cast<std::int64_t>(2 * d));
  const TensorId apart =
      g.emit1("Reshape", {g.gradient_of_output()}, {{"shape", tiled_view(shape, repeats_of(g.attributes(), shape)).shape}});
  g.set(0, g.emit1("ReduceSum", {apart}, {{"axes", axes}, {"keepdims", std::int64_t{0}}}));
}

std::vector<Value> evaluate_tile(const NodeView& node, MovementOperands inputs) {
  const Shape& shape = node.input(0).shape;
  return {viewed(*inputs[0], tiled_view(shape, repeats_of(node.attributes, shape)), node.output())};
}

// Trilu: attributes upper (default 1) and k

std::vector<TensorType> infer_trilu(const NodeView& node) {
  require_inputs(node, 1, 1);
  if (node.input(0).shape.size() < 2)
    throw BadInput("operand 0 has shape " + to_text(node.input(0).shape) + ", a triangle needs two dimensions");
  return infer_same(node);
}

SplitRule trilu_labels(const NodeView& node) {
  const std::size_t rank = node.input(0).shape.size();
  SplitRule rule = labels_with_whole_axis(node, rank - 1);
  rule.kinds[rank - 2] = LabelKind::Opaque;
  return rule;
}

void trilu_gradient(GradientContext& g) { g.set(0, g.emit1("Trilu", {g.gradient_of_output()}, g.attributes())); }

std::vector<Value> evaluate_trilu(const NodeView& node, MovementOperands inputs) {
  Value result = *inputs[0];
  const std::int64_t columns = node.output().shape.back(), rows = node.output().shape[node.output().shape.size() - 2];
  const bool upper = node.attributes.integer("upper", 1) != 0;
  const std::int64_t k = node.attributes.integer("k", 0);
  for (std::int64_t i = 0; i < result.count(); ++i) {
    const std::int64_t above = i % columns - i / columns % rows - k;
    if (upper ? above >= 0 : above <= 0) continue;
    (result.integral() ? void(result.integers[static_cast<std::size_t>(i)] = 0) : void(result.reals[static_cast<std::size_t>(i)] = 0));
  }
  return {std::move(result)};
}

// ConstantOfShape and Range: no operands, everything is an attribute

DType dtype_attribute(const NodeView& node, std::string_view otherwise) {
  const std::string text = node.attributes.text("dtype", otherwise);
  const auto type = dtype_from_name(text);
  if (!type || size_of(*type) == 0)
    throw BadInput("attribute dtype", "'" + text + "' is no numeric element type; it must be a name such as f32 or i64");
  return *type;
}

std::vector<TensorType> infer_constant(const NodeView& node) {
  require_inputs(node, 0, 0);
  return {{dtype_attribute(node, "f32"), shape_attribute(node)}};
}

/// The result is whole on every rank that splits it: each label is the result's alone.
SplitRule constant_labels(const NodeView& node) { return elementwise_labels(node); }

Value sequence(const TensorType& type, double start, double step) {
  Value result;
  result.type = type;
  for (std::int64_t i = 0; i < element_count(type.shape); ++i) {
    const double x = start + static_cast<double>(i) * step;
    (result.integral() ? void(result.integers.push_back(static_cast<std::int64_t>(x))) : void(result.reals.push_back(x)));
  }
  return result;
}

std::vector<Value> evaluate_constant(const NodeView& node, MovementOperands) {
  return {sequence(node.output(), node.attributes.number("value", 0.0), 0.0)};
}

std::vector<TensorType> infer_range(const NodeView& node) {
  require_inputs(node, 0, 0);
  const double start = node.attributes.number("start", 0), limit = node.attributes.number("limit", 0),
               delta = node.attributes.number("delta", 1);
  if (delta == 0) throw BadInput("attribute delta", "is 0; a range needs a step");
  const double count = std::max(0.0, std::ceil((limit - start) / delta));
  if (!(count <= 0x1p40)) throw BadInput("attribute limit", "makes a range of " + std::to_string(count) + " elements");
  return {{dtype_attribute(node, "i64"), {static_cast<std::int64_t>(count)}}};
}

std::vector<Value> evaluate_range(const NodeView& node, MovementOperands) {
  return {sequence(node.output(), node.attributes.number("start", 0), node.attributes.number("delta", 1))};
}

constexpr std::string_view kNoOperands = "it has no operands";
constexpr CostFamily kMove = CostFamily::Movement;

constexpr OpSchema kMovementRows[] = {
    {.name = "Reshape",
     .description = "the same elements under the shape of the attribute",
     .family = CostFamily::View,
     .traits = Trait::View,
     .dims = DimsRule::View,
     .infer = infer_reshape,
     .gradient = reshape_gradient,
     .evaluate = evaluate_reshape,
     .linear = LinearIn::First},
    {.name = "Transpose",
     .description = "dimensions permuted by the attribute perm (default: reversed)",
     .family = kMove,
     .dims = DimsRule::Transpose,
     .infer = infer_transpose,
     .gradient = transpose_gradient,
     .evaluate = evaluate_transpose,
     .linear = LinearIn::First},
    {.name = "Expand",
     .description = "broadcast with the attribute shape",
     .family = kMove,
     .infer = infer_expand,
     .labels = elementwise_labels,
     .gradient = expand_gradient,
     .evaluate = evaluate_expand},
    {.name = "Slice",
     .description = "a part: attributes starts, ends, axes, steps",
     .family = kMove,
     .dims = DimsRule::Pieces,
     .infer = infer_slice,
     .gradient = slice_gradient,
     .evaluate = evaluate_slice,
     .linear = LinearIn::First},
    {.name = "SliceGrad",
     .description = "zeros of the attribute shape with the operand where the slice was taken",
     .family = kMove,
     .infer = infer_slice_gradient,
     .labels = slice_gradient_labels,
     .no_gradient = kSecondDerivative,
     .linear = LinearIn::First},
    {.name = "Split",
     .description = "consecutive parts along the attribute axis, of the sizes in split",
     .family = kMove,
     .dims = DimsRule::Pieces,
     .infer = infer_split,
     .gradient = split_gradient,
     .evaluate = evaluate_split},
    {.name = "Concat",
     .description = "operands one after another along the attribute axis",
     .family = kMove,
     .dims = DimsRule::Concat,
     .infer = infer_concat,
     .gradient = concat_gradient,
     .evaluate = evaluate_concat,
     .linear = LinearIn::All},
    {.name = "Tile",
     .description = "the operand repeated along each dimension as the attribute repeats says",
     .family = kMove,
     .infer = infer_tile,
     .labels = tile_labels,
     .gradient = tile_gradient,
     .evaluate = evaluate_tile},
    {.name = "Trilu",
     .description = "the upper (attribute upper = 1) or lower triangle of the last two dimensions, from diagonal k; the rest is 0",
     .family = kMove,
     .traits = Trait::Positional,
     .infer = infer_trilu,
     .labels = trilu_labels,
     .gradient = trilu_gradient,
     .evaluate = evaluate_trilu},
    {.name = "ConstantOfShape",
     .description = "the attribute value everywhere in a tensor of attributes shape and dtype",
     .family = kMove,
     .infer = infer_constant,
     .labels = constant_labels,
     .no_gradient = kNoOperands,
     .evaluate = evaluate_constant},
    {.name = "Range",
     .description = "start, start + delta, ... before limit, of element type dtype",
     .family = kMove,
     .traits = Trait::Positional,
     .dims = DimsRule::Opaque,
     .infer = infer_range,
     .no_gradient = kNoOperands,
     .evaluate = evaluate_range},
};

}  // namespace

std::span<const OpSchema> movement_ops() { return kMovementRows; }

}  // namespace rehearsal::graph
