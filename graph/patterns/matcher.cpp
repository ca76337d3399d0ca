#include "graph/patterns/matcher.hpp"

#include <algorithm>

namespace rehearsal::graph {

PatternMatcher::PatternMatcher(const Graph& graph) : graph_(graph), readers_(graph.tensors().size(), 0) {
  for (const Node& node : graph.nodes()) {
    for (const TensorId t : node.inputs) {
      if (t != TensorId::None) ++readers_[index(t)];
    }
  }
  for (const TensorId t : graph.outputs()) readers_[index(t)] += 2;
}

const Node* PatternMatcher::made_by(TensorId t, std::string_view op) const {
  if (t == TensorId::None || graph_[t].producer == NodeId::None) return nullptr;
  const Node& node = graph_[graph_[t].producer];
  return is(node, op) && node.outputs[0] == t ? &node : nullptr;
}

std::optional<double> PatternMatcher::number(TensorId t) const { return t == TensorId::None ? std::nullopt : number_of(graph_[t]); }

std::optional<std::pair<TensorId, double>> PatternMatcher::with_number(const Node& node) const {
  for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) {
    const auto value = number(node.inputs[i]);
    if (value && shape(node.inputs[1 - i]) == shape(node.outputs[0])) return std::pair{node.inputs[1 - i], *value};
  }
  return std::nullopt;
}

std::optional<TensorId> PatternMatcher::squared(TensorId t) const {
  const Node* product = made_by(t, "Mul");
  if (!product || product->inputs[0] != product->inputs[1]) return std::nullopt;
  return product->inputs[0];
}

std::optional<PatternMatcher::Mean> PatternMatcher::mean(TensorId t) const {
  const Node* sum = made_by(t, "ReduceSum");
  if (!sum || sum->attributes.integer("keepdims", 1) == 0) return std::nullopt;
  const Shape& from = shape(sum->inputs[0]);
  std::vector<std::int64_t> axes = sum->attributes.integers("axes");
  for (std::int64_t& axis : axes) axis = normalize_axis(axis, from.size());
  std::sort(axes.begin(), axes.end());
  std::int64_t count = 1;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (axes[i] != static_cast<std::int64_t>(from.size() - axes.size() + i)) return std::nullopt;
    count *= from[static_cast<std::size_t>(axes[i])];
  }
  const bool averages = !axes.empty() && std::abs(sum->attributes.number("scale", 1.0) * static_cast<double>(count) - 1) < 1e-9;
  return averages ? std::optional(Mean{sum->inputs[0], axes[0]}) : std::nullopt;
}

std::optional<PatternMatcher::Root> PatternMatcher::root(TensorId t) const {
  const Node* root = made_by(t, "Sqrt");
  const Node* sum = root ? made_by(root->inputs[0], "Add") : nullptr;
  const auto shifted = sum ? with_number(*sum) : std::nullopt;
  if (!shifted || shifted->second < 0) return std::nullopt;
  return Root{shifted->first, shifted->second};
}

std::optional<std::pair<TensorId, TensorId>> PatternMatcher::divided_by_root(const Node& node) const {
  if (is(node, "Div") && made_by(node.inputs[1], "Sqrt")) return std::pair{node.inputs[0], node.inputs[1]};
  if (!is(node, "Mul")) return std::nullopt;
  for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) {
    if (const Node* inverse = made_by(node.inputs[i], "Reciprocal"); inverse && made_by(inverse->inputs[0], "Sqrt"))
      return std::pair{node.inputs[1 - i], inverse->inputs[0]};
    if (const Node* inverse = made_by(node.inputs[i], "Div");
        inverse && is_number(inverse->inputs[0], 1) && made_by(inverse->inputs[1], "Sqrt"))
      return std::pair{node.inputs[1 - i], inverse->inputs[1]};
  }
  return std::nullopt;
}

std::optional<std::pair<TensorId, TensorId>> PatternMatcher::with_operand_of(const Node& node, const Shape& part) const {
  for (const std::size_t i : {std::size_t{1}, std::size_t{0}}) {
    const bool fits = shape(node.inputs[i]) == part && shape(node.inputs[1 - i]) == shape(node.outputs[0]);
    if (fits && graph_[node.inputs[i]].type.dtype == graph_[node.outputs[0]].type.dtype)
      return std::pair{node.inputs[1 - i], node.inputs[i]};
  }
  return std::nullopt;
}

}  // namespace rehearsal::graph
