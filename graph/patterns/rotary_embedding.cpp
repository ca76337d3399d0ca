// x cos + (-x2, x1) sin, x1 and x2 being the halves of x (Su et al., "RoFormer", 2021).

#include "graph/ops/axes.hpp"
#include "graph/patterns/matcher.hpp"

namespace rehearsal::graph {
namespace {

enum class Half : std::uint8_t { First, Second };

/// The x of which t is one half along the last axis.
std::optional<TensorId> whole_of(const PatternMatcher& m, TensorId t, Half half) {
  const NodeId producer = m.producer(t);
  if (producer == NodeId::None) return std::nullopt;
  const Node& node = m.graph()[producer];
  const TensorId x = node.inputs.empty() ? TensorId::None : node.inputs[0];
  if (x == TensorId::None || m.shape(x).empty() || m.shape(x).size() != m.shape(t).size()) return std::nullopt;
  const Shape& shape = m.shape(x);
  if (shape.back() != 2 * m.shape(t).back()) return std::nullopt;
  if (PatternMatcher::is(node, "Split")) {
    const bool last = axis_of(NodeTypes(m.graph(), node).view(), 0) + 1 == shape.size();
    return last && node.outputs.size() == 2 && node.outputs[half == Half::First ? 0 : 1] == t ? std::optional(x) : std::nullopt;
  }
  if (!PatternMatcher::is(node, "Slice")) return std::nullopt;
  const auto ranges = slice_ranges(node.attributes, shape);
  for (std::size_t d = 0; d + 1 < ranges.size(); ++d)
    if (ranges[d].start != 0 || ranges[d].step != 1 || ranges[d].count != shape[d]) return std::nullopt;
  const bool there = ranges.back().step == 1 && ranges.back().start == (half == Half::First ? 0 : shape.back() / 2);
  return there ? std::optional(x) : std::nullopt;
}

/// The x whose halves are exchanged, the first one negated, to give t.
std::optional<TensorId> rotated(const PatternMatcher& m, TensorId t) {
  const Node* joined = m.made_by(t, "Concat");
  if (!joined || joined->inputs.size() != 2) return std::nullopt;
  const std::size_t rank = m.shape(t).size();
  if (static_cast<std::size_t>(normalize_axis(joined->attributes.integer("axis", 0), rank)) + 1 != rank) return std::nullopt;
  const Node* negated = m.made_by(joined->inputs[0], "Neg");
  if (!negated) return std::nullopt;
  const auto second = whole_of(m, negated->inputs[0], Half::Second), first = whole_of(m, joined->inputs[1], Half::First);
  return second && first && *first == *second ? first : std::nullopt;
}

/// The factor beside t, when it can be a table for x.
std::optional<TensorId> table_beside(const PatternMatcher& m, const Node& product, TensorId t, TensorId x) {
  for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) {
    const TensorId table = product.inputs[1 - i];
    const Shape &part = m.shape(table), &full = m.shape(x);
    if (product.inputs[i] != t || part.size() > full.size()) continue;
    bool fits = true;
    for (std::size_t d = 0; d < part.size(); ++d) {
      const std::int64_t size = full[full.size() - part.size() + d];
      fits = fits && (part[d] == 1 || part[d] == size);
    }
    if (fits) return table;
  }
  return std::nullopt;
}

}  // namespace

std::optional<Recognized> match_rotary_embedding(const PatternMatcher& m, const Node& node) {
  if (!PatternMatcher::is(node, "Add")) return std::nullopt;
  const Node* terms[] = {m.made_by(node.inputs[0], "Mul"), m.made_by(node.inputs[1], "Mul")};
  if (!terms[0] || !terms[1]) return std::nullopt;
  for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) {
    for (const TensorId turned : terms[i]->inputs) {
      const auto x = rotated(m, turned);
      if (!x) continue;
      const auto sin = table_beside(m, *terms[i], turned, *x), cos = table_beside(m, *terms[1 - i], *x, *x);
      if (sin && cos) return Recognized{"RotaryEmbedding", {*x, *cos, *sin}, {}, {}};
    }
  }
  return std::nullopt;
}

}  // namespace rehearsal::graph
