#pragma once
// Attention as one operator: y = dropout(softmax(steps(q k'))) v over the keys of every row (Vaswani et al. 2017), and its gradient.
// No graph has it: lowering writes it in place of the nodes of which a model makes attention, where one rank has all that they read.
// Nothing of the size rows x keys is an operand or a result; the gradient makes scores and weights again (Dao et al. 2022, section 3.1).
//
//   Attention      (q, k, v, other...)     -> y
//   AttentionGrad  (dy, q, k, v, other...) -> dq, dk, dv, gradients of some of the others
//
//   q [batch..., rows, depth], k [batch..., keys, depth], v [batch..., keys, width], y [batch..., rows, width]; batches broadcast.
//   attribute        meaning
//   keys_last = 1    k is stored [batch..., depth, keys], and so is its gradient
//   steps            three integers each, in order: what happens to the scores (AttentionStep::Kind), the operand among the others or -1,
//                    and, of an added operand, 1 where its gradient is wanted
//   numbers          one for every step: the factor, the divisor, or what stands where scores are hidden
//   causal = 1       the only operand among the steps is a mask that hides from every row the keys behind it (Contents::is_causal_mask)
//   guarded = 1      a row of which no weight is a number has no weights: all 0
//   guarded = 2      the same of a row of which all scores are -infinity
//   ratio, stream    of Dropout on the weights, absent without one (ops/dropout.cpp)

#include <cstdint>
#include <vector>

#include "graph/op_schema.hpp"

namespace rehearsal::graph {

struct AttentionStep {
  enum class Kind : std::uint8_t {
    Scale,     ///< times a number
    Divide,    ///< by a number
    Add,       ///< an operand, broadcast: a mask or a bias
    HideElse,  ///< a number where a boolean operand is false
    HideWhere  ///< a number where a boolean operand is true
  };
  Kind kind = Kind::Scale;
  double number = 0;
  int operand = -1;             ///< among the others
  bool differentiated = false;  ///< its operand's gradient is wanted
};

/// How to read types and attributes, for work, kernels and lowering alike.
struct AttentionProblem {
  Shape batch;  ///< of the scores: q's and k's, broadcast
  std::int64_t rows = 0, keys = 0, depth = 0, width = 0;
  /// Rows that have no weights.
  enum class Guard : std::uint8_t { None, NoNumber, AllHidden };
  bool keys_last = false, causal = false;
  Guard guard = Guard::None;
  std::vector<AttentionStep> steps;
  double ratio = 0;  ///< of dropout; 0: none
  std::int64_t stream = 0;

  [[nodiscard]] std::int64_t matrices() const { return element_count(batch); }
};

/// `queries`: which operand q is, 0 or (behind the result's gradient) 1. Throws BadInput naming what does not fit.
[[nodiscard]] AttentionProblem attention_problem(const NodeView&, std::size_t queries);

/// Elements between neighbours along every batch dimension of the scores, 0 where an operand is broadcast; then along rows and keys,
/// which for other operands than q, k, v are broadcast, too.
struct AttentionStrides {
  std::vector<std::int64_t> batch;
  std::int64_t row = 0, key = 0;
  /// Of the first element that matrix `number` of the scores meets.
  [[nodiscard]] std::int64_t offset(std::int64_t number, const Shape& batch_shape) const;
};
/// Of an operand that is broadcast against [batch..., rows, keys] by its last two dimensions, or (`matrix`) holds one matrix for each
/// batch.
[[nodiscard]] AttentionStrides attention_strides(const AttentionProblem&, const Shape& operand, bool matrix);

}  // namespace rehearsal::graph
