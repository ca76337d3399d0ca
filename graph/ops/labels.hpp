#pragma once
// What many rows of the operator table share: labels, shape checks and work of the common patterns.

#include <cstdint>
#include <string_view>
#include <vector>

#include "graph/op_schema.hpp"

namespace rehearsal::graph {

/// One iteration dimension that is a whole tensor dimension.
[[nodiscard]] inline DimLabels whole(int label, std::int64_t size) { return {LabelFactor{static_cast<std::int16_t>(label), size}}; }
/// As many unlabelled dimensions as `shape` has.
[[nodiscard]] inline TensorLabels unlabelled(const Shape& shape) { return TensorLabels(shape.size()); }

/// Right-aligned broadcasting: label d is dimension d of result 0, all parallel; broadcast dimensions of size 1 carry none.
/// Every result must have the shape of result 0 or broadcast to it.
[[nodiscard]] SplitRule elementwise_labels(const NodeView&);
/// Labels of `shape` when its dimensions align from the right with `full`, whose dimension d is label d.
[[nodiscard]] TensorLabels aligned_labels(const Shape& shape, const Shape& full);

/// Types for rows whose only result is like operand 0.
[[nodiscard]] std::vector<TensorType> infer_same(const NodeView&);
/// Types for rows whose only result is the broadcast of all operands, in the element type of operand 0.
/// Throws BadInput when the operands' element types differ or their shapes do not broadcast.
[[nodiscard]] std::vector<TensorType> infer_broadcast(const NodeView&);

/// Throws BadInput saying which operand of how many is missing.
void require_inputs(const NodeView&, std::size_t least, std::size_t most);
/// Throws BadInput naming the first operand from `first` on that is left out.
void require_all(const NodeView&, std::size_t first = 0);
/// Throws BadInput naming the operand and both types.
void require_same_type(const NodeView&, std::size_t a, std::size_t b);
/// Throws BadInput naming the operand when it is not a floating-point tensor.
void require_float(const NodeView&, std::size_t operand);
/// Throws BadInput naming the operand when its rank lies outside [least, most].
void require_rank(const NodeView&, std::size_t operand, std::size_t least, std::size_t most);

/// Throws BadInput naming the operand when it is no floating-point tensor of matrices, the last two dimensions, with as many rows as
/// columns.
void require_square_matrices(const NodeView&, std::size_t operand);
/// Throws BadInput naming the operand when it is no int64 scalar.
void require_step(const NodeView&, std::size_t operand);
/// An attribute that is 1 unless it is given. Throws BadInput naming it when it is below 1.
[[nodiscard]] std::int64_t at_least_one(const Attributes&, std::string_view name);

/// Why gradients have no gradient.
inline constexpr std::string_view kSecondDerivative = "second derivatives are not taken";

/// What a row says of its operands and results.
struct RowFunctions {
  std::vector<TensorType> (*infer)(const NodeView&) = nullptr;
  SplitRule (*labels)(const NodeView&) = nullptr;
  Work (*work)(const NodeView&) = nullptr;
};
/// A row that says nothing else of itself.
[[nodiscard]] constexpr OpSchema with_gradient(std::string_view name, std::string_view description, CostFamily family, RowFunctions of,
                                               void (*gradient)(GradientContext&)) {
  OpSchema row{.name = name, .description = description, .family = family};
  row.infer = of.infer;
  row.labels = of.labels;
  row.work = of.work;
  row.gradient = gradient;
  return row;
}
/// The same where no gradient flows through: of backward passes, where `why` is left out.
[[nodiscard]] constexpr OpSchema without_gradient(std::string_view name, std::string_view description, CostFamily family, RowFunctions of,
                                                  std::string_view why = kSecondDerivative) {
  OpSchema row = with_gradient(name, description, family, of, nullptr);
  row.no_gradient = why;
  return row;
}

/// Bytes of all present operands and results: the least traffic of a row that touches everything once.
[[nodiscard]] Bytes traffic(const NodeView&);
/// `flops_per_element` for every element of result 0, and the bytes of operands and results.
[[nodiscard]] Work elementwise_work(const NodeView&, double flops_per_element);
template <int kFlops>
[[nodiscard]] Work work_per_result(const NodeView& node) {
  return elementwise_work(node, kFlops);
}
/// The same for every element of operand 0.
template <int kFlops>
[[nodiscard]] Work work_per_operand(const NodeView& node) {
  return {Flops(kFlops * static_cast<double>(element_count(node.input(0).shape))), traffic(node)};
}

}  // namespace rehearsal::graph
