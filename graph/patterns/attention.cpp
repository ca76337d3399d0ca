// Softmax attention: softmax(a b + mask) v (Vaswani et al., "Attention is all you need", 2017). Its nodes stay: plans split them as they
// are.

#include "graph/patterns/matcher.hpp"

namespace rehearsal::graph {
namespace {

constexpr int kMostBetween = 8;  ///< scales, masks, casts, dropout

/// The part of attention above t, with only elementwise nodes and views between.
NodeId above(const PatternMatcher& m, TensorId t, AttentionPart part) {
  for (int step = 0; step < kMostBetween && t != TensorId::None && m.producer(t) != NodeId::None; ++step) {
    const NodeId n = m.producer(t);
    const Node& node = m.graph()[n];
    if (schema(node).in_attention == part) return n;
    const Trait traits = schema(node).traits;
    const bool passes = has(traits, Trait::Elementwise) || has(traits, Trait::View);
    if (!passes) return NodeId::None;
    // of a mask and scores, the scores have the full size
    TensorId next = TensorId::None;
    for (const TensorId input : node.inputs) {
      if (input != TensorId::None && element_count(m.shape(input)) == element_count(m.shape(t)) && m.producer(input) != NodeId::None)
        next = input;
    }
    t = next;
  }
  return NodeId::None;
}

}  // namespace

std::optional<Recognized> match_attention(const PatternMatcher& m, const Node& node) {
  if (schema(node).in_attention != AttentionPart::Product) return std::nullopt;
  const NodeId weights = above(m, node.inputs[0], AttentionPart::Softmax);
  if (weights == NodeId::None || above(m, m.graph()[weights].inputs[0], AttentionPart::Product) == NodeId::None) return std::nullopt;
  return Recognized{};
}

}  // namespace rehearsal::graph
