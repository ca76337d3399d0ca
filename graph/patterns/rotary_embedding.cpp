// x cos + (-x2, x1) sin, x1 and x2 being the halves of x (Su et al., "RoFormer", 2021). Its nodes stay.

#include "graph/patterns/matcher.hpp"

namespace rehearsal::graph {
namespace {

/// The x whose halves are exchanged, the first one negated, to give t.
std::optional<TensorId> rotated(const PatternMatcher& m, TensorId t) {
  const Node* joined = m.made_by(t, "Concat");
  if (!joined || joined->inputs.size() != 2) return std::nullopt;
  const Node* negated = m.made_by(joined->inputs[0], "Neg");
  if (!negated || m.producer(negated->inputs[0]) == NodeId::None || m.producer(joined->inputs[1]) == NodeId::None) return std::nullopt;
  const Node& second = m.graph()[m.producer(negated->inputs[0])];
  const Node& first = m.graph()[m.producer(joined->inputs[1])];
  const bool parts =
      (PatternMatcher::is(first, "Slice") || PatternMatcher::is(first, "Split")) && schema(first).name == schema(second).name;
  return parts && first.inputs[0] == second.inputs[0] ? std::optional(first.inputs[0]) : std::nullopt;
}

}  // namespace

std::optional<Recognized> match_rotary_embedding(const PatternMatcher& m, const Node& node) {
  if (!PatternMatcher::is(node, "Add")) return std::nullopt;
  const Node* terms[] = {m.made_by(node.inputs[0], "Mul"), m.made_by(node.inputs[1], "Mul")};
  if (!terms[0] || !terms[1]) return std::nullopt;
  for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) {
    for (const TensorId turned : terms[i]->inputs) {
      const auto x = rotated(m, turned);
      if (x && (terms[1 - i]->inputs[0] == *x || terms[1 - i]->inputs[1] == *x)) return Recognized{};
    }
  }
  return std::nullopt;
}

}  // namespace rehearsal::graph
