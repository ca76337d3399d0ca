#pragma once
// How pattern rows look at a graph.

#include <cmath>
#include <optional>
#include <string_view>
#include <utility>

#include "graph/op_schema.hpp"
#include "graph/patterns/patterns.hpp"

namespace rehearsal::graph {

class PatternMatcher {
 public:
  explicit PatternMatcher(const Graph& graph);

  [[nodiscard]] const Graph& graph() const { return graph_; }
  [[nodiscard]] static bool is(const Node& node, std::string_view op) { return schema(node).name == op; }
  /// The node of this row that makes the tensor; nullptr when another does.
  [[nodiscard]] const Node* made_by(TensorId t, std::string_view op) const;
  [[nodiscard]] NodeId producer(TensorId t) const { return graph_[t].producer; }
  [[nodiscard]] const Shape& shape(TensorId t) const { return graph_[t].type.shape; }
  /// Read by one node, and no output of the graph.
  [[nodiscard]] bool is_inner(TensorId t) const { return readers_[index(t)] == 1; }
  [[nodiscard]] int readers(TensorId t) const { return readers_[index(t)]; }
  /// The value of a constant of one element.
  [[nodiscard]] std::optional<double> number(TensorId t) const;
  [[nodiscard]] bool is_number(TensorId t, double value) const {
    const auto known = number(t);
    return known && std::abs(*known - value) <= 1e-5 * std::abs(value);
  }
  /// The operand beside a constant of one element, and that element: of Add or Mul, in either order.
  [[nodiscard]] std::optional<std::pair<TensorId, double>> with_number(const Node& node) const;
  /// x of x * x.
  [[nodiscard]] std::optional<TensorId> squared(TensorId t) const;
  /// What is averaged, over trailing axes from `axis` on, keeping them.
  struct Mean {
    TensorId of = TensorId::None;
    std::int64_t axis = 0;
  };
  [[nodiscard]] std::optional<Mean> mean(TensorId t) const;
  /// (root of (mean + epsilon)): the mean, and epsilon.
  struct Root {
    TensorId variance = TensorId::None;
    double epsilon = 0;
  };
  [[nodiscard]] std::optional<Root> root(TensorId t) const;
  /// a / root, a * (1 / root): a and the root.
  [[nodiscard]] std::optional<std::pair<TensorId, TensorId>> divided_by_root(const Node& node) const;
  /// Operand of shape `part` beside another: (the other, this).
  [[nodiscard]] std::optional<std::pair<TensorId, TensorId>> with_operand_of(const Node& node, const Shape& part) const;

 private:
  const Graph& graph_;
  std::vector<int> readers_;
};

/// What a normalization is of: x over its trailing axes from `axis` on.
struct Normalized {
  TensorId x = TensorId::None;
  std::int64_t axis = 0;
  double epsilon = 0;
};

using PatternRule = std::optional<Recognized>(const PatternMatcher&, const Node&);
PatternRule match_layer_normalization, match_rms_normalization, match_gelu, match_attention, match_rotary_embedding, match_roll,
    match_transposed_weight;

}  // namespace rehearsal::graph
