// A cyclic shift: two slices of one tensor, joined the other way round (shifted windows of Liu et al., "Swin Transformer", 2021).

#include "graph/patterns/matcher.hpp"

namespace rehearsal::graph {

std::optional<Recognized> match_roll(const PatternMatcher& m, const Node& node) {
  if (!PatternMatcher::is(node, "Concat") || node.inputs.size() != 2) return std::nullopt;
  const Node* tail = m.made_by(node.inputs[0], "Slice");
  const Node* head = m.made_by(node.inputs[1], "Slice");
  if (!tail || !head || tail->inputs[0] != head->inputs[0] || m.shape(tail->inputs[0]) != m.shape(node.outputs[0])) return std::nullopt;
  const auto starts = [](const Node& slice) { return slice.attributes.integers("starts"); };
  if (starts(*head).size() != 1 || starts(*tail).size() != 1 || starts(*head)[0] != 0) return std::nullopt;
  // the tail begins where the head ends: together they are as long as the tensor
  const Shape& whole = m.shape(node.outputs[0]);
  const auto axis = static_cast<std::size_t>(normalize_axis(node.attributes.integer("axis", 0), whole.size()));
  const std::int64_t start = starts(*tail)[0] < 0 ? starts(*tail)[0] + whole[axis] : starts(*tail)[0];
  const bool swapped = start == m.shape(node.inputs[1])[axis];
  return swapped ? std::optional(Recognized{}) : std::nullopt;
}

}  // namespace rehearsal::graph
