#pragma once
// What splitting each iteration dimension of an operator does to its operands and results: the one rule from
// which every parallelism follows (docs/design.md, "split rule").

#include <cstdint>
#include <string_view>
#include <vector>

namespace rehearsal::graph {

enum class LabelKind : std::uint8_t {
  Parallel,  ///< splitting it splits every operand and result that has it
  Sum,       ///< reduced by addition: the result is a partial sum
  Max,       ///< reduced by maximum
  Min,
  LogSumExp,  ///< reduced by log(exp a + exp b)
  Window,     ///< a sliding window: operands need a halo of neighbouring rows
  Opaque,     ///< the operator needs it whole: operands are replicated on it
};

/// "max" ... of the kinds that reduce; "" of the others.
[[nodiscard]] constexpr std::string_view name(LabelKind kind) {
  switch (kind) {
    case LabelKind::Sum:
      return "sum";
    case LabelKind::Max:
      return "max";
    case LabelKind::Min:
      return "min";
    case LabelKind::LogSumExp:
      return "log-sum-exp";
    default:
      return "";
  }
}

/// One factor of a tensor dimension, outer to inner: `label` names an iteration dimension of the operator, -1 none.
/// A dimension that is one iteration dimension has one factor; a composite one such as (group, channel) has two.
struct LabelFactor {
  std::int16_t label = -1;
  std::int64_t size = 1;
};
using DimLabels = std::vector<LabelFactor>;   ///< of one dimension; empty: no label (size 1, or constant)
using TensorLabels = std::vector<DimLabels>;  ///< of all dimensions of one operand or result

/// The labels of one node. `structural` operators (views, slices, concatenation) have none: logical dimensions follow
/// from their shapes and attributes (graph/dims).
struct SplitRule {
  std::vector<TensorLabels> inputs, outputs;
  std::vector<LabelKind> kinds;           ///< by label
  std::vector<std::int16_t> ranged = {};  ///< labels whose blocks must be one range of indices: the kernel asks where its block begins
};

/// How logical dimensions pass through an operator.
enum class DimsRule : std::uint8_t {
  Labels,     ///< by its SplitRule
  View,       ///< Reshape: same elements, other factorisation
  Transpose,  ///< permutes (attribute "perm")
  Pieces,     ///< Slice, Split: segments of a dimension
  Concat,     ///< joins segments
  Opaque,     ///< everything replicated
};

}  // namespace rehearsal::graph
