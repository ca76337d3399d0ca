// (x - mean(x)) / sqrt(mean((x - mean(x))^2) + epsilon), times a gain, plus a bias: Ba, Kiros, Hinton, "Layer Normalization", 2016.

#include "graph/patterns/matcher.hpp"

namespace rehearsal::graph {
namespace {

/// The operand of max(t, 0); t itself when it is none.
TensorId not_negative(const PatternMatcher& m, TensorId t) {
  const Node* larger = m.made_by(t, "Max");
  const auto bounded = larger ? m.with_number(*larger) : std::nullopt;
  return bounded && bounded->second == 0 && m.is_inner(t) ? bounded->first : t;
}

/// t is mean((x - mean)^2), x - mean being `centered`, or mean(x^2) - mean^2, which Flax bounds by 0.
bool is_variance(const PatternMatcher& m, TensorId t, TensorId centered, const PatternMatcher::Mean& mean) {
  if (const auto variance = m.mean(t))
    return m.squared(variance->of) == centered && variance->axis == mean.axis && m.readers(centered) == 3;
  const TensorId bounded = not_negative(m, t);
  const Node* difference = m.made_by(bounded, "Sub");
  const auto squares = difference ? m.mean(difference->inputs[0]) : std::nullopt;
  const auto subtracted = difference ? m.squared(difference->inputs[1]) : std::nullopt;
  const auto mean_again = subtracted ? m.mean(*subtracted) : std::nullopt;
  return squares && mean_again && squares->axis == mean.axis && m.squared(squares->of) == mean.of && mean_again->of == mean.of &&
         mean_again->axis == mean.axis && m.is_inner(bounded) && m.is_inner(centered);
}

std::optional<Normalized> normalized(const PatternMatcher& m, const Node& node) {
  const auto quotient = m.divided_by_root(node);
  const auto root = quotient ? m.root(quotient->second) : std::nullopt;
  const Node* difference = root ? m.made_by(quotient->first, "Sub") : nullptr;
  const auto mean = difference ? m.mean(difference->inputs[1]) : std::nullopt;
  if (!mean || mean->of != difference->inputs[0] || !is_variance(m, root->variance, quotient->first, *mean)) return std::nullopt;
  const bool alone = m.is_inner(quotient->second) && m.is_inner(root->variance);
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
