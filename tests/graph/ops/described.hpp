#pragma once
// What a row of the operator table says of a node, as text: results, work and labels, and what it makes of operands and attributes that are
// a little different.

#include <map>
#include <set>
#include <string>
#include <vector>

#include "graph/op_schema.hpp"

namespace rehearsal::graph {

/// A node without its graph.
struct RowUse {
  const OpSchema& row;
  std::vector<std::optional<TensorType>> operands;
  Attributes attributes;
};

/// A use with something changed, and what: ("0 as", "i64"), ("1", "[2,4]"), ("axis =", "1").
struct ChangedUse {
  std::string subject, value;
  RowUse use;
  int operand = -1;  ///< which is changed
};
/// Each operand in turn left out, of another element type, with a dimension more or less, with each dimension one longer and one
/// shorter; all that have the first one's type of another one; and one operand more.
[[nodiscard]] std::vector<ChangedUse> with_other_operands(const RowUse&);
/// Each attribute in turn left out, numbers one more and one less or of another sign, lists an entry longer and shorter, texts another one.
[[nodiscard]] std::vector<ChangedUse> with_other_attributes(const RowUse&);

/// Each dimension in turn without elements, and all of one size together.
[[nodiscard]] std::vector<ChangedUse> with_empty_operands(const RowUse&);

/// What the row answers: types of results, or a message. Labels and work are asked for, too, since they must not fail on what is taken.
struct Outcome {
  std::vector<TensorType> results;
  std::string refusal;  ///< empty: taken
  Work work;
};
[[nodiscard]] Outcome outcome_of(const RowUse&);

[[nodiscard]] std::string text_of(const std::vector<TensorType>& types);
/// Work, and the labels of operands and results with their kinds: "24 FLOPs, 168 B, 0 - 2 | 1 2 -> 0 1 2 of PPP".
[[nodiscard]] std::string facts_of(const OpSchema&, const NodeView&);
/// Which changes are taken, with the results where they are others; and messages of those that are not, each only where `said`, messages
/// with their numbers left out, does not have it yet.
[[nodiscard]] std::string changes_of(const RowUse&, std::set<std::string>& said);

/// What a row says of its operator, besides what it computes of a node: "Conv: Convolution, by labels, addend 2, window large 0".
[[nodiscard]] std::string line_of(const OpSchema&);

}  // namespace rehearsal::graph
