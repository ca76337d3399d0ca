// A cyclic shift: two slices of one tensor, joined the other way round (shifted windows of Liu et al., "Swin Transformer", 2021).

#include "graph/ops/axes.hpp"
#include "graph/patterns/matcher.hpp"

namespace rehearsal::graph {
namespace {

/// What a slice takes along one axis, when it takes everything along the others.
struct RolledPiece {
  TensorId of = TensorId::None;
  std::int64_t start = 0, count = 0;
};

std::optional<RolledPiece> piece_of(const PatternMatcher& m, TensorId t, std::size_t axis) {
  const Node* slice = m.made_by(t, "Slice");
  if (!slice) return std::nullopt;
  const Shape& shape = m.shape(slice->inputs[0]);
  const auto ranges = slice_ranges(slice->attributes, shape);
  for (std::size_t d = 0; d < ranges.size(); ++d) {
    const bool everything = ranges[d].start == 0 && ranges[d].count == shape[d];
    if (ranges[d].step != 1 || (d != axis && !everything)) return std::nullopt;
  }
  return RolledPiece{slice->inputs[0], ranges[axis].start, ranges[axis].count};
}

}  // namespace

std::optional<Recognized> match_roll(const PatternMatcher& m, const Node& node) {
  if (!PatternMatcher::is(node, "Concat") || node.inputs.size() != 2) return std::nullopt;
  const Shape& whole = m.shape(node.outputs[0]);
  const auto axis = static_cast<std::size_t>(normalize_axis(node.attributes.integer("axis", 0), whole.size()));
  const auto tail = piece_of(m, node.inputs[0], axis), head = piece_of(m, node.inputs[1], axis);
  if (!tail || !head || tail->of != head->of || m.shape(tail->of) != whole) return std::nullopt;
  // the tail begins where the head ends: together they are as long as the tensor
  if (head->start != 0 || tail->start != head->count || tail->count == 0 || head->count == 0) return std::nullopt;
  return Recognized{"Roll", {tail->of}, {{"axis", static_cast<std::int64_t>(axis)}, {"shift", tail->count}}, {}};
}

}  // namespace rehearsal::graph
