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

std::optional<Normalized> normalized_of_layer_normalization(const PatternMatcher& m, const Node& node) {
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

/// The operand of a product that both have, and what stands beside it in either.
struct CommonFactor {
  TensorId factor = TensorId::None, first = TensorId::None, second = TensorId::None;
};

std::optional<CommonFactor> common_factor(const Node* a, const Node* b) {
  if (!a || !b) return std::nullopt;
  for (const std::size_t i : {std::size_t{0}, std::size_t{1}})
    for (const std::size_t k : {std::size_t{0}, std::size_t{1}})
      if (a->inputs[i] == b->inputs[k]) return CommonFactor{a->inputs[i], a->inputs[1 - i], b->inputs[1 - k]};
  return std::nullopt;
}

/// Numbers for the trailing dimensions, which may have dimensions of size 1 in front.
bool is_of_part(const PatternMatcher& m, TensorId t, const Shape& part) {
  const Shape& shape = m.shape(t);
  return shape.size() >= part.size() && element_count(shape) == element_count(part) &&
         std::equal(part.rbegin(), part.rend(), shape.rbegin());
}

/// x s + (bias - mean s), s being the gain over the root: how Keras writes it. Bias and gain may be missing.
struct Factored {
  Normalized of;
  TensorId gain = TensorId::None, bias = TensorId::None;
};

/// Of a product and what is added to it.
std::optional<Factored> factored(const PatternMatcher& m, TensorId product, TensorId shift) {
  Factored found;
  std::optional<CommonFactor> s = common_factor(m.made_by(product, "Mul"), m.made_by(shift, "Mul"));
  const Node* sum = m.made_by(shift, "Add");
  for (std::size_t i = 0; sum && !s && i < 2; ++i) {
    s = common_factor(m.made_by(product, "Mul"), m.made_by(sum->inputs[i], "Mul"));
    found.bias = sum->inputs[1 - i];
  }
  const Node* negative = s ? m.made_by(s->second, "Neg") : nullptr;
  const auto mean = negative ? m.mean(negative->inputs[0]) : std::nullopt;
  if (!mean || mean->of != s->first) return std::nullopt;
  // s is gain / root, or product is x / root without one
  const Node* scale = m.made_by(s->factor, "Mul");
  const auto quotient = m.divided_by_root(scale ? *scale : m.graph()[m.producer(product)]);
  const auto root = quotient ? m.root(quotient->second) : std::nullopt;
  const auto variance = root ? m.mean(root->variance) : std::nullopt;
  const auto centered = variance ? m.squared(variance->of) : std::nullopt;
  const Node* difference = centered ? m.made_by(*centered, "Sub") : nullptr;
  if (!difference || variance->axis != mean->axis || difference->inputs[0] != mean->of) return std::nullopt;
  const auto mean_again = m.mean(difference->inputs[1]);
  if (!mean_again || mean_again->of != mean->of || mean_again->axis != mean->axis) return std::nullopt;
  if (scale) found.gain = quotient->first;
  found.of = {mean->of, mean->axis, root->epsilon};
  const Shape part = part_of(m, mean->of, mean->axis);
  const bool fits =
      (!scale || is_of_part(m, found.gain, part)) && (found.bias == TensorId::None || (scale && is_of_part(m, found.bias, part)));
  return fits ? std::optional(found) : std::nullopt;
}

std::optional<Recognized> recognized(const PatternMatcher& m, const Factored& found) {
  const Shape part = part_of(m, found.of.x, found.of.axis);
  Recognized result{"LayerNormalization", {found.of.x}, {{"axis", found.of.axis}, {"epsilon", found.of.epsilon}}, {}, {{}}};
  for (const TensorId t : {found.gain, found.bias}) {
    if (t == TensorId::None) break;
    result.inputs.push_back(t);
    result.shapes.push_back(m.shape(t) == part ? Shape{} : part);
  }
  return result;
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
    const auto found =
        quotient != NodeId::None && m.is_inner(scaled->first) ? normalized_of_layer_normalization(m, m.graph()[quotient]) : std::nullopt;
    if (found && found->axis == static_cast<std::int64_t>(axis))
      return Recognized{"LayerNormalization",
                        {found->x, scaled->second, biased->second},
                        {{"axis", found->axis}, {"epsilon", found->epsilon}},
                        {quotient, m.producer(biased->first)}};
  }
  for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) {
    const auto parts = PatternMatcher::is(node, "Add") ? factored(m, node.inputs[i], node.inputs[1 - i]) : std::nullopt;
    if (parts) return recognized(m, *parts);
  }
  const auto found = normalized_of_layer_normalization(m, node);
  if (!found) return std::nullopt;
  return Recognized{"LayerNormalization", {found->x}, {{"axis", found->axis}, {"epsilon", found->epsilon}}, {}};
}

}  // namespace rehearsal::graph
