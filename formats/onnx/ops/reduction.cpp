// Reductions along axes. Means and norms are composed of sums.

#include <algorithm>
#include <numeric>

#include "formats/onnx/ops/import_families.hpp"

namespace rehearsal::formats {
namespace {

using graph::Attributes;
using graph::TensorId;

/// Axes counted from the front; no axes reduce everything, or nothing when the node says so.
struct Reduction {
  std::vector<std::int64_t> axes;
  std::int64_t keepdims = 1, elements = 1;
};

Reduction reduction_of(const NodeImport& n) {
  Reduction r;
  r.keepdims = n.integer("keepdims", 1);
  for (const std::int64_t axis : n.integers_from("axes", 1)) r.axes.push_back(graph::normalize_axis(axis, n.rank(0)));
  if (r.axes.empty() && n.integer("noop_with_empty_axes", 0) == 0) {
    r.axes.resize(n.rank(0));
    std::iota(r.axes.begin(), r.axes.end(), 0);
  }
  auto sorted = r.axes;
  std::sort(sorted.begin(), sorted.end());
  if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end()) n.fail("its axes name one dimension twice");
  for (const std::int64_t axis : r.axes) r.elements *= n.shape(0)[static_cast<std::size_t>(axis)];
  return r;
}

TensorId reduced(NodeImport& n, std::string_view row, TensorId x, const Reduction& r, double scale = 1) {
  Attributes attributes{{"axes", r.axes}, {"keepdims", r.keepdims}};
  if (scale != 1) attributes.set("scale", scale);
  return n.emit(row, {x}, std::move(attributes));
}

void plain(NodeImport& n) {
  const Reduction r = reduction_of(n);
  n.set(0, r.axes.empty() && n.rank(0) > 0 ? n.input(0) : reduced(n, n.op(), n.input(0), r));
}

void mean(NodeImport& n) {
  const Reduction r = reduction_of(n);
  if (r.elements == 0) n.fail("the mean of no elements is not defined; operand 0 has shape " + graph::to_text(n.shape(0)));
  if (!is_float(n.type(0).dtype)) {
    const TensorId sum = reduced(n, "ReduceSum", n.input(0), r);
    return n.set(0, n.emit("Div", {sum, n.scalar(static_cast<double>(r.elements), n.type(0).dtype)}));
  }
  n.set(0, r.axes.empty() ? n.input(0) : reduced(n, "ReduceSum", n.input(0), r, 1.0 / static_cast<double>(r.elements)));
}

void sum_of_squares(NodeImport& n) { n.set(0, reduced(n, "ReduceSum", n.emit("Mul", {n.input(0), n.input(0)}), reduction_of(n))); }
void norm1(NodeImport& n) { n.set(0, reduced(n, "ReduceSum", n.emit("Abs", {n.input(0)}), reduction_of(n))); }
/// At 0, where the norm has no derivative, nothing flows, as in PyTorch: the root there is of 1.
void norm2(NodeImport& n) {
  const TensorId squares = reduced(n, "ReduceSum", n.emit("Mul", {n.input(0), n.input(0)}), reduction_of(n));
  if (!is_float(n.type(0).dtype)) return n.set(0, n.emit("Sqrt", {squares}));
  const DType type = n.type(0).dtype;
  const TensorId none = n.emit("Equal", {squares, n.scalar(0, type)});
  const TensorId root = n.emit("Sqrt", {n.emit("Where", {none, n.scalar(1, type), squares})});
  n.set(0, n.emit("Where", {none, n.scalar(0, type), root}));
}
void log_sum(NodeImport& n) { n.set(0, n.emit("Log", {reduced(n, "ReduceSum", n.input(0), reduction_of(n))})); }

/// max + log sum exp(x - max), which cannot overflow.
void log_sum_exp(NodeImport& n) {
  Reduction r = reduction_of(n);
  Reduction kept = r;
  kept.keepdims = 1;
  const TensorId top = reduced(n, "ReduceMax", n.input(0), kept);
  const TensorId sum = reduced(n, "ReduceSum", n.emit("Exp", {n.emit("Sub", {n.input(0), top})}), kept);
  const TensorId result = n.emit("Add", {n.emit("Log", {sum}), top});
  if (r.keepdims != 0) return n.set(0, result);
  graph::Shape shape;
  for (std::size_t d = 0; d < n.rank(0); ++d) {
    if (std::find(r.axes.begin(), r.axes.end(), static_cast<std::int64_t>(d)) == r.axes.end()) shape.push_back(n.shape(0)[d]);
  }
  n.set(0, n.reshape(result, shape));
}

void position(NodeImport& n) {
  n.set(0, n.emit(n.op(), {n.input(0)},
                  {{"axis", n.integer("axis", 0)},
                   {"keepdims", n.integer("keepdims", 1)},
                   {"select_last_index", n.integer("select_last_index", 0)}}));
}

void cumulative_sum(NodeImport& n) {
  const std::int64_t axis = n.known_integer(1, "the axis");
  n.set(0,
        n.emit("CumSum", {n.input(0)}, {{"axis", axis}, {"exclusive", n.integer("exclusive", 0)}, {"reverse", n.integer("reverse", 0)}}));
}

/// Slice by slice, so that the gradient is right where factors are 0, too.
void cumulative_product(NodeImport& n) {
  constexpr std::int64_t kLongest = 1 << 12;
  const graph::Shape shape = n.shape(0);
  const auto axis = static_cast<std::int64_t>(graph::normalize_axis(n.known_integer(1, "the axis"), shape.size()));
  const std::int64_t size = shape[static_cast<std::size_t>(axis)];
  if (size > kLongest) n.unsupported("products of more than " + std::to_string(kLongest) + " factors are not supported");
  if (size == 0) return n.set(0, n.input(0));
  auto parts = n.emit_all("Split", {n.input(0)}, {{"axis", axis}, {"split", graph::Shape(static_cast<std::size_t>(size), 1)}});
  const bool reverse = n.integer("reverse", 0) != 0, exclusive = n.integer("exclusive", 0) != 0;
  if (reverse) std::reverse(parts.begin(), parts.end());
  graph::Shape one = shape;
  one[static_cast<std::size_t>(axis)] = 1;
  TensorId product = n.emit("ConstantOfShape", {}, {{"shape", one}, {"dtype", std::string(name(n.type(0).dtype))}, {"value", 1.0}});
  for (TensorId& part : parts) {
    const TensorId before = product;
    product = n.emit("Mul", {product, part});
    part = exclusive ? before : product;
  }
  if (reverse) std::reverse(parts.begin(), parts.end());
  n.set(0, parts.size() == 1 ? parts[0] : n.emit("Concat", parts, {{"axis", axis}}));
}

/// x over its norm along one axis; 0 where that is 0.
void lp_normalization(NodeImport& n) {
  const std::int64_t p = n.integer("p", 2);
  if (p != 1 && p != 2) n.unsupported("norms of order " + std::to_string(p) + " are not supported");
  const DType type = n.type(0).dtype;
  const TensorId x = n.input(0);
  const graph::Attributes along{{"axes", graph::Shape{n.integer("axis", -1)}}, {"keepdims", std::int64_t{1}}};
  const TensorId sum = n.emit("ReduceSum", {p == 1 ? n.emit("Abs", {x}) : n.emit("Mul", {x, x})}, along);
  const TensorId none = n.emit("Equal", {sum, n.scalar(0, type)});
  const TensorId safe = n.emit("Where", {none, n.scalar(1, type), sum});
  n.set(0, n.emit("Div", {x, p == 1 ? safe : n.emit("Sqrt", {safe})}));
}

/// From version 13 on along one axis; before, over all dimensions from "axis" on, flattened.
void softmax(NodeImport& n) {
  if (n.version() >= 13) return n.set(0, n.emit(n.op(), {n.input(0)}, {{"axis", n.integer("axis", -1)}}));
  const graph::Shape shape = n.shape(0);
  const auto axis = static_cast<std::size_t>(graph::normalize_axis(n.integer("axis", 1), shape.size()));
  if (axis + 1 == shape.size()) return n.set(0, n.emit(n.op(), {n.input(0)}, {{"axis", std::int64_t{-1}}}));
  const auto middle = shape.begin() + static_cast<std::ptrdiff_t>(axis);
  const TensorId flat = n.reshape(n.input(0), {graph::element_count({shape.begin(), middle}), graph::element_count({middle, shape.end()})});
  n.set(0, n.reshape(n.emit(n.op(), {flat}, {{"axis", std::int64_t{-1}}}), shape));
}

constexpr ImportRow kReductionRows[] = {
    {kDefaultDomain, "ReduceSum", 1, kNewest, plain},
    {kDefaultDomain, "ReduceMax", 1, kNewest, plain},
    {kDefaultDomain, "ReduceMin", 1, kNewest, plain},
    {kDefaultDomain, "ReduceProd", 1, kNewest, plain},
    {kDefaultDomain, "ReduceMean", 1, kNewest, mean},
    {kDefaultDomain, "ReduceSumSquare", 1, kNewest, sum_of_squares},
    {kDefaultDomain, "ReduceL1", 1, kNewest, norm1},
    {kDefaultDomain, "ReduceL2", 1, kNewest, norm2},
    {kDefaultDomain, "ReduceLogSum", 1, kNewest, log_sum},
    {kDefaultDomain, "ReduceLogSumExp", 1, kNewest, log_sum_exp},
    {kDefaultDomain, "ArgMax", 1, kNewest, position},
    {kDefaultDomain, "ArgMin", 1, kNewest, position},
    {kDefaultDomain, "CumSum", 11, kNewest, cumulative_sum},
    {kDefaultDomain, "Softmax", 1, kNewest, softmax},
    {kDefaultDomain, "LogSoftmax", 1, kNewest, softmax},
    {kDefaultDomain, "CumProd", 26, kNewest, cumulative_product},
    {kDefaultDomain, "LpNormalization", 1, kNewest, lp_normalization},
};

}  // namespace

std::span<const ImportRow> reduction_rows() { return kReductionRows; }

}  // namespace rehearsal::formats
