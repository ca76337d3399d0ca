// x / sqrt(mean(x^2) + epsilon), times a gain: Zhang, Sennrich, "Root Mean Square Layer Normalization", NeurIPS 2019.

#include "graph/patterns/matcher.hpp"

namespace rehearsal::graph {
namespace {

std::optional<Normalized> normalized_of_rms_normalization(const PatternMatcher& m, const Node& node) {
  const auto quotient = m.divided_by_root(node);
  const auto root = quotient ? m.root(quotient->second) : std::nullopt;
  const auto mean = root ? m.mean(root->variance) : std::nullopt;
  const auto x = mean ? m.squared(mean->of) : std::nullopt;
  if (!x || *x != quotient->first || !m.is_inner(quotient->second) || !m.is_inner(root->variance)) return std::nullopt;
  return Normalized{*x, mean->axis, root->epsilon};
}

}  // namespace

std::optional<Recognized> match_rms_normalization(const PatternMatcher& m, const Node& node) {
  const Shape& shape = m.shape(node.outputs[0]);
  for (std::size_t axis = 0; PatternMatcher::is(node, "Mul") && axis < shape.size(); ++axis) {
    const auto scaled = m.with_operand_of(node, {shape.begin() + static_cast<std::ptrdiff_t>(axis), shape.end()});
    const NodeId quotient = scaled ? m.producer(scaled->first) : NodeId::None;
    const auto found =
        quotient != NodeId::None && m.is_inner(scaled->first) ? normalized_of_rms_normalization(m, m.graph()[quotient]) : std::nullopt;
    if (found && found->axis == static_cast<std::int64_t>(axis))
      return Recognized{"RMSNormalization", {found->x, scaled->second}, {{"axis", found->axis}, {"epsilon", found->epsilon}}, {quotient}};
  }
  const auto found = normalized_of_rms_normalization(m, node);
  if (!found) return std::nullopt;
  return Recognized{"RMSNormalization", {found->x}, {{"axis", found->axis}, {"epsilon", found->epsilon}}, {}};
}

}  // namespace rehearsal::graph
