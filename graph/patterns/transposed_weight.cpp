// A product with a stored matrix that is transposed first, as exporters write linear layers (x Wᵀ): the product reads the matrix as it is
// stored, and its gradient is made that way, so that neither is moved in every step.

#include "graph/patterns/matcher.hpp"

namespace rehearsal::graph {
namespace {

bool swaps_last_two(const Node& transpose, std::size_t rank) {
  const auto order = transpose.attributes.integers("perm");
  if (rank < 2 || order.size() != rank) return rank == 2 && order.empty();
  for (std::size_t d = 0; d + 2 < rank; ++d)
    if (order[d] != static_cast<std::int64_t>(d)) return false;
  return order[rank - 2] == static_cast<std::int64_t>(rank) - 1;
}

/// What is stored, and read transposed as this operand; None where it is something else.
TensorId stored_behind(const PatternMatcher& m, TensorId operand) {
  const Node* transpose = m.made_by(operand, "Transpose");
  if (!transpose) return TensorId::None;
  const TensorId matrix = transpose->inputs[0];
  const bool stored = m.producer(matrix) == NodeId::None && m.graph()[matrix].role != TensorRole::Input;
  return stored && swaps_last_two(*transpose, m.shape(matrix).size()) ? matrix : TensorId::None;
}

}  // namespace

std::optional<Recognized> match_transposed_weight(const PatternMatcher& m, const Node& node) {
  if (!PatternMatcher::is(node, "MatMul") && !PatternMatcher::is(node, "Gemm")) return std::nullopt;
  Recognized product{schema(node).name, node.inputs, node.attributes};
  bool found = false;
  for (const auto& [operand, key] : {std::pair<std::size_t, std::string_view>{0, "trans_a"}, {1, "trans_b"}}) {
    const TensorId matrix = stored_behind(m, node.inputs[operand]);
    if (matrix == TensorId::None) continue;
    if (m.is_inner(node.inputs[operand])) product.covered.push_back(m.producer(node.inputs[operand]));
    product.inputs[operand] = matrix;
    product.attributes.set(key, 1 - node.attributes.integer(key, 0));
    found = true;
  }
  return found ? std::optional(product) : std::nullopt;
}

}  // namespace rehearsal::graph
