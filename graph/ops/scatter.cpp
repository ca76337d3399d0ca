// Rows that write at indices: the data with some elements replaced by, or combined with, updates. The attribute `reduction` is
// none, add, mul, max or min.

#include <algorithm>
#include <array>
#include <string>

#include "base/error.hpp"
#include "graph/gradient.hpp"
#include "graph/ops/indexing.hpp"
#include "graph/ops/op_families.hpp"

namespace rehearsal::graph {
namespace {

using ScatterOperands = std::span<const Value* const>;

std::string reduction_of(const Attributes& attributes) {
  constexpr std::array<std::string_view, 5> kKnown = {"none", "add", "mul", "max", "min"};
  std::string reduction = attributes.text("reduction", "none");
  if (std::find(kKnown.begin(), kKnown.end(), reduction) == kKnown.end())
    throw BadInput("attribute reduction", "is '" + reduction + "', it must be none, add, mul, max or min");
  return reduction;
}

void require_updates(const NodeView& node, const Shape& expected) {
  require_same_type(node, 0, 2);
  (void)reduction_of(node.attributes);
  if (node.input(2).shape != expected)
    throw BadInput("operand 2 has shape " + to_text(node.input(2).shape) + ", it must be " + to_text(expected));
}

// ScatterElements(data, indices, updates): result[indices[i][j]][j] = updates[i][j] for axis 0

std::vector<TensorType> infer_elements_of_scatter(const NodeView& node) {
  require_inputs(node, 3, 3);
  require_indices(node, 1);
  const Shape &data = node.input(0).shape, &indices = node.input(1).shape;
  require_elements(data, indices, data_axis(node, data));
  require_updates(node, indices);
  return {node.input(0)};
}

SplitRule elements_labels_of_scatter(const NodeView& node) {
  const Shape& data = node.input(0).shape;
  const SplitRule gather = elements_rule(data, node.input(1).shape, data_axis(node, data));
  return {{gather.inputs[0], gather.inputs[1], gather.inputs[1]}, {gather.inputs[0]}, gather.kinds};
}

/// The pair of rows that read and write at the same places.
struct Pair {
  std::string_view gather, scatter;
};

TensorId filled_like(GradientContext& g, TensorId t, double value) {
  const TensorType type = g.type(t);
  return g.emit1("ConstantOfShape", {}, {{"shape", type.shape}, {"dtype", std::string(name(type.dtype))}, {"value", value}});
}

/// What reads and writes at the node's indices.
class ScatterPlaces {
 public:
  ScatterPlaces(GradientContext& g, Pair rows) : g_(g), rows_(rows) {
    if (g.attributes().has("axis")) axis_.set("axis", g.attributes().integer("axis", 0));
  }
  TensorId read(TensorId t) { return g_.emit1(rows_.gather, {t, g_.input(1)}, axis_); }
  TensorId write(TensorId data, TensorId updates, const std::string& reduction) {
    Attributes attributes = axis_;
    attributes.set("reduction", reduction);
    return g_.emit1(rows_.scatter, {data, g_.input(1), updates}, attributes);
  }

 private:
  GradientContext& g_;
  Pair rows_;
  Attributes axis_;
};

void product_gradient(GradientContext& g, ScatterPlaces& places) {
  const TensorId dy = g.gradient_of_output();
  if (g.wants(0)) g.set(0, g.emit1("Mul", {dy, places.write(filled_like(g, g.input(0), 1), g.input(2), "mul")}));
  if (g.wants(2)) g.set(2, g.emit1("Div", {places.read(g.emit1("Mul", {dy, g.output()})), g.input(2)}));
}

/// 1 where `t` is the extremum, as a number.
TensorId is_extremum(GradientContext& g, TensorId t, TensorId extremum) {
  return g.emit1("Cast", {g.emit1("Equal", {t, extremum})}, {{"to", std::string(name(g.type(t).dtype))}});
}

/// Whatever equals the extremum shares its gradient evenly, as PyTorch's scatter_reduce has it.
void extremum_gradient_of_scatter(GradientContext& g, ScatterPlaces& places) {
  const TensorId own = is_extremum(g, g.input(0), g.output()), others = is_extremum(g, g.input(2), places.read(g.output()));
  const TensorId share = g.emit1("Div", {g.gradient_of_output(), places.write(own, others, "add")});
  if (g.wants(0)) g.set(0, g.emit1("Mul", {share, own}));
  if (g.wants(2)) g.set(2, g.emit1("Mul", {places.read(share), others}));
}

/// Where several updates without a reduction meet, which one stays is not defined; each gets the gradient, as in PyTorch.
void scatter_gradient(GradientContext& g, Pair rows) {
  ScatterPlaces places(g, rows);
  const std::string reduction = reduction_of(g.attributes());
  const TensorId dy = g.gradient_of_output();
  if (reduction == "mul") return product_gradient(g, places);
  if (reduction == "max" || reduction == "min") return extremum_gradient_of_scatter(g, places);
  if (g.wants(0)) g.set(0, reduction == "add" ? dy : places.write(dy, filled_like(g, g.input(2), 0), "none"));
  if (g.wants(2)) g.set(2, places.read(dy));
}

void elements_gradient_of_scatter(GradientContext& g) { scatter_gradient(g, {"GatherElements", "ScatterElements"}); }
void nd_gradient_of_scatter(GradientContext& g) { scatter_gradient(g, {"GatherND", "ScatterND"}); }

// ScatterND(data, indices, updates): the last dimension of the indices addresses the first dimensions of the data

std::vector<TensorType> infer_nd_of_scatter(const NodeView& node) {
  require_inputs(node, 3, 3);
  require_indices(node, 1);
  require_updates(node, slices_shape(node.input(0).shape, node.input(1).shape));
  return {node.input(0)};
}

/// Updates of all rows meet in the data, so that their dimensions are whole.
SplitRule nd_labels_of_scatter(const NodeView& node) {
  SliceLabels labels = slice_labels(node.input(0).shape, node.input(1).shape, LabelKind::Opaque);
  return {{labels.data, std::move(labels.indices), std::move(labels.slices)}, {labels.data}, std::move(labels.kinds)};
}

template <class T, class Combine>
void combine(std::vector<T>& data, const std::vector<T>& updates, const std::pair<std::vector<std::int64_t>, std::int64_t>& places,
             const Combine& with) {
  const auto& [first, length] = places;
  for (std::size_t i = 0; !data.empty() && i < first.size(); ++i) {
    for (std::int64_t k = 0; k < length; ++k) {
      T& x = data[static_cast<std::size_t>(first[i] + k)];
      x = with(x, updates[i * static_cast<std::size_t>(length) + static_cast<std::size_t>(k)]);
    }
  }
}

template <class Combine>
Value combined(const NodeView& node, ScatterOperands inputs, const Combine& with) {
  Value result = *inputs[0];
  const auto places = addressed(node.input(0).shape, *inputs[1]);
  combine(result.integers, inputs[2]->integers, places, with);
  combine(result.reals, inputs[2]->reals, places, with);
  return result;
}

std::vector<Value> evaluate_nd_of_scatter(const NodeView& node, ScatterOperands inputs) {
  const std::string reduction = reduction_of(node.attributes);
  if (reduction == "add") return {combined(node, inputs, [](auto a, auto b) { return a + b; })};
  if (reduction == "mul") return {combined(node, inputs, [](auto a, auto b) { return a * b; })};
  if (reduction == "max") return {combined(node, inputs, [](auto a, auto b) { return std::max(a, b); })};
  if (reduction == "min") return {combined(node, inputs, [](auto a, auto b) { return std::min(a, b); })};
  return {combined(node, inputs, [](auto, auto b) { return b; })};
}

Work scatter_work(const NodeView& node) {
  return {Flops(0), size_of(node.input(0)) + size_of(node.output()) + size_of(node.input(1)) + size_of(node.input(2))};
}

constexpr OpSchema kScatterRows[] = {
    {.name = "ScatterElements",
     .description = "the data with an element for every index along the attribute axis replaced by or combined with the updates",
     .family = CostFamily::Gather,
     .traits = Trait::Positional,
     .infer = infer_elements_of_scatter,
     .labels = elements_labels_of_scatter,
     .work = scatter_work,
     .gradient = elements_gradient_of_scatter},
    {.name = "ScatterND",
     .description = "the data with slices replaced by or combined with the updates where the indices say",
     .family = CostFamily::Gather,
     .traits = Trait::Positional,
     .infer = infer_nd_of_scatter,
     .labels = nd_labels_of_scatter,
     .work = scatter_work,
     .gradient = nd_gradient_of_scatter,
     .evaluate = evaluate_nd_of_scatter},
};

}  // namespace

std::span<const OpSchema> scatter_ops() { return kScatterRows; }

}  // namespace rehearsal::graph
