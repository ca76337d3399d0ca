// (x - mean(x)) / sqrt(mean((x - mean(x))^2) + epsilon), times a gain, plus a bias: Ba, Kiros, Hinton, "Layer Normalization", 2016.

#include "graph/patterns/matcher.hpp"

namespace rehearsal::graph {
namespace {

std::optional<Normalized> normalized(const PatternMatcher& m, const Node& node) {
  const auto quotient = m.divided_by_root(node);
  const auto root = quotient ? m.root(quotient->second) : std::nullopt;
  const auto variance = root ? m.mean(root->variance) : std::nullopt;
  const auto centered = variance ? m.squared(variance->of) : std::nullopt;
  if (!centered || *centered != quotient->first) return std::nullopt;
  const Node* difference = m.made_by(*centered, "Sub");
  const auto mean = difference ? m.mean(difference->inputs[1]) : std::nullopt;
  if (!mean || mean->of != difference->inputs[0] || mean->axis != variance->axis) return std::nullopt;
  const bool alone = m.readers(*centered) == 3 && m.is_inner(quotient->second) && m.is_inner(root->variance);
  return alone ? std::optional(Normalized{mean->of, mean->axis, root->epsilon}) : std::nullopt;
}

Shape part_of(const PatternMatcher& m, TensorId t, std::int64_t axis) {
  const Shape& shape = m.shape(t);
  return {shape.begin() + axis, shape.end()};
}

}  // namespace

std::optional<Recognized> match_layer_normalization(const PatternMatcher& m, const Node& node) {
  // from the last node back: the bias, the gain, the quotient
  for (std::size_t axis = 0; PatternMatcher::is(node, "Add") && axis < m.shape(node.outputs[0]).size(); ++axis) {
    const Shape part = part_of(m, node.outputs[0], static_cast<std::int64_t>(axis));
    const auto biased = m.with_operand_of(node, part);
    const Node* product = biased ? m.made_by(biased->first, "Mul") : nullptr;
    const auto scaled = product && m.is_inner(biased->first) ? m.with_operand_of(*product, part) : std::nullopt;
    const NodeId quotient = scaled ? m.producer(scaled->first) : NodeId::None;
    const auto found = quotient != NodeId::None && m.is_inner(scaled->first) ? normalized(m, m.graph()[quotient]) : std::nullopt;
    if (found && found->axis == static_cast<std::int64_t>(axis))
      return Recognized{"LayerNormalization",
                        {found->x, scaled->second, biased->second},
                        {{"axis", found->axis}, {"epsilon", found->epsilon}},
                        {quotient, m.producer(biased->first)}};
  }
  const auto found = normalized(m, node);
  if (!found) return std::nullopt;
  return Recognized{"LayerNormalization", {found->x}, {{"axis", found->axis}, {"epsilon", found->epsilon}}, {}};
}

}  // namespace rehearsal::graph
