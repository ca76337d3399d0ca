#pragma once
// Normalizations that keep their statistics as a tensor of sums, so that splitting batch or space costs one small sum over ranks.

#include "graph/op_schema.hpp"

namespace rehearsal::graph {

/// Reads attribute "count": how many elements of the unsplit operand one statistic covers. Throws BadInput below 1.
[[nodiscard]] std::int64_t statistic_count(const Attributes&);

/// Throws BadInput unless operand `i` has this shape (and this element type where it is statistics: f64).
void require_shape(const NodeView&, std::size_t i, const Shape& expected, std::string_view what);
void require_sums(const NodeView&, std::size_t i, const Shape& expected);

}  // namespace rehearsal::graph
