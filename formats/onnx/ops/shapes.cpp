// Rows that ask for shapes or change them only.

#include <algorithm>

#include "formats/onnx/ops/import_families.hpp"

namespace rehearsal::formats {
namespace {

using graph::Shape;
using graph::Value;

std::size_t axis_in(const NodeImport& n, std::int64_t axis, std::size_t rank) {
  const auto count = static_cast<std::int64_t>(rank);
  if (axis < -count || axis >= count)
    n.fail("axis " + std::to_string(axis) + " lies outside a tensor of " + std::to_string(rank) + " dimensions");
  return static_cast<std::size_t>(axis < 0 ? axis + count : axis);
}

void shape_of(NodeImport& n) {
  const Shape shape = n.shape(0);
  const auto rank = static_cast<std::int64_t>(shape.size());
  const auto clamped = [&](std::int64_t i) { return std::clamp<std::int64_t>(i < 0 ? i + rank : i, 0, rank); };
  const std::int64_t start = clamped(n.integer("start", 0)), end = clamped(n.integer("end", rank));
  n.set(0, n.constant(Value::vector(start < end ? Shape(shape.begin() + start, shape.begin() + end) : Shape{})));
}

void size_of_tensor(NodeImport& n) { n.set(0, n.constant(Value::of_integers({graph::element_count(n.shape(0))}, {}))); }

void reshape(NodeImport& n) {
  Shape target = n.has_attribute("shape") ? n.integers("shape") : n.known_integers(1, "the new shape");
  const Shape from = n.shape(0);
  std::int64_t open = -1;
  for (std::size_t d = 0; d < target.size(); ++d) {
    if (target[d] == 0 && n.integer("allowzero", 0) == 0) {
      if (d >= from.size())
        n.fail("the new shape copies dimension " + std::to_string(d) + ", which operand 0 of shape " + graph::to_text(from) +
               " does not have");
      target[d] = from[d];
    }
    if (target[d] == -1) {
      if (open >= 0) n.fail("the new shape " + graph::to_text(target) + " leaves more than one dimension open");
      open = static_cast<std::int64_t>(d);
    } else if (target[d] < 0) {
      n.fail("the new shape " + graph::to_text(target) + " has a negative dimension");
    }
  }
  if (open >= 0) {
    Shape others = target;
    others[static_cast<std::size_t>(open)] = 1;
    const std::int64_t count = graph::element_count(from), known = graph::element_count(others);
    if (known == 0 || count % known != 0) n.fail("operand 0 of shape " + graph::to_text(from) + " cannot become " + graph::to_text(target));
    target[static_cast<std::size_t>(open)] = count / known;
  }
  n.set(0, n.reshape(n.input(0), target));
}

void flatten(NodeImport& n) {
  const Shape shape = n.shape(0);
  const auto rank = static_cast<std::int64_t>(shape.size());
  const std::int64_t axis = n.integer("axis", 1);
  if (axis < -rank || axis > rank)
    n.fail("axis " + std::to_string(axis) + " lies outside a tensor of " + std::to_string(rank) + " dimensions");
  const auto middle = shape.begin() + (axis < 0 ? axis + rank : axis);
  n.set(0, n.reshape(n.input(0), {graph::element_count({shape.begin(), middle}), graph::element_count({middle, shape.end()})}));
}

void squeeze(NodeImport& n) {
  const Shape shape = n.shape(0);
  const auto axes = n.integers_from("axes", 1);
  std::vector<bool> dropped(shape.size(), false);
  for (const std::int64_t axis : axes) {
    const std::size_t d = axis_in(n, axis, shape.size());
    if (shape[d] != 1) n.fail("dimension " + std::to_string(d) + " of shape " + graph::to_text(shape) + " is not 1, it cannot be dropped");
    dropped[d] = true;
  }
  Shape result;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (!(axes.empty() ? shape[d] == 1 : dropped[d])) result.push_back(shape[d]);
  }
  n.set(0, n.reshape(n.input(0), result));
}

void unsqueeze(NodeImport& n) {
  const Shape shape = n.shape(0);
  const auto axes = n.integers_from("axes", 1);
  const std::size_t rank = shape.size() + axes.size();
  std::vector<bool> added(rank, false);
  for (const std::int64_t axis : axes) {
    const std::size_t d = axis_in(n, axis, rank);
    if (added[d]) n.fail("axis " + std::to_string(axis) + " is named twice");
    added[d] = true;
  }
  Shape result;
  auto next = shape.begin();
  for (std::size_t d = 0; d < rank; ++d) result.push_back(added[d] ? 1 : *next++);
  n.set(0, n.reshape(n.input(0), result));
}

void expand(NodeImport& n) {
  const Shape target = graph::broadcast(n.shape(0), n.known_integers(1, "the new shape"));
  n.set(0, target == n.shape(0) ? n.input(0) : n.emit("Expand", {n.input(0)}, {{"shape", target}}));
}

constexpr ImportRow kShapesRows[] = {
    {kDefaultDomain, "Shape", 1, kNewest, shape_of},  {kDefaultDomain, "Size", 1, kNewest, size_of_tensor},
    {kDefaultDomain, "Reshape", 1, kNewest, reshape}, {kDefaultDomain, "Flatten", 1, kNewest, flatten},
    {kDefaultDomain, "Squeeze", 1, kNewest, squeeze}, {kDefaultDomain, "Unsqueeze", 1, kNewest, unsqueeze},
    {kDefaultDomain, "Expand", 8, kNewest, expand},
};

}  // namespace

std::span<const ImportRow> shape_rows() { return kShapesRows; }

}  // namespace rehearsal::formats
