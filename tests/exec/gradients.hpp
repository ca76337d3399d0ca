#pragma once
// Every gradient of the operator table is held against central differences in double precision. A family of operators adds
// its cases in a file of its own and a line in gradient_problem.cpp; a row with a gradient and without a case fails the test.

#include <cstdint>
#include <string>
#include <vector>

#include "graph/builder.hpp"

namespace rehearsal::exec {

/// One operand: f64 values drawn from [low, high) and differentiated, or given integers (i64), or given truth values, or absent.
struct GradientOperand {
  enum class Kind : std::uint8_t { Drawn, Fixed, Integers, Truths, Absent };
  graph::Shape shape;
  double low = -1, high = 1;
  Kind kind = Kind::Drawn;             ///< Fixed: drawn, but not differentiated
  std::vector<std::int64_t> integers;  ///< for Integers and Truths
  std::vector<double> kinks;           ///< drawn values keep a distance of 0.05 from these
};
[[nodiscard]] inline GradientOperand drawn(graph::Shape shape, double low = -1, double high = 1) {
  return {std::move(shape), low, high, GradientOperand::Kind::Drawn, {}, {}};
}
[[nodiscard]] inline GradientOperand fixed(graph::Shape shape, double low = -1, double high = 1) {
  return {std::move(shape), low, high, GradientOperand::Kind::Fixed, {}, {}};
}
[[nodiscard]] inline GradientOperand away_from(std::vector<double> kinks, graph::Shape shape, double low = -1, double high = 1) {
  return {std::move(shape), low, high, GradientOperand::Kind::Drawn, {}, std::move(kinks)};
}
[[nodiscard]] inline GradientOperand indices(std::vector<std::int64_t> values, graph::Shape shape) {
  return {std::move(shape), 0, 0, GradientOperand::Kind::Integers, std::move(values), {}};
}
[[nodiscard]] inline GradientOperand truths(std::vector<std::int64_t> values, graph::Shape shape) {
  return {std::move(shape), 0, 0, GradientOperand::Kind::Truths, std::move(values), {}};
}
[[nodiscard]] inline GradientOperand absent() { return {{}, 0, 0, GradientOperand::Kind::Absent, {}, {}}; }

/// The loss is the sum of all floating-point results, each weighted with fixed random numbers.
struct GradientCase {
  std::string op;
  std::vector<GradientOperand> operands;
  graph::Attributes attributes;
  double tolerance = 1e-6;  ///< of the largest entry of the operand's gradient, at least 1
  /// When not empty, built instead of the single node `op`: for rows that only make sense together. Returns the results.
  std::vector<graph::TensorId> (*build)(graph::GraphBuilder&, const std::vector<graph::TensorId>& operands,
                                        const graph::Attributes&) = nullptr;
};

using GradientCases = std::vector<GradientCase>;
[[nodiscard]] GradientCases elementwise_cases();
[[nodiscard]] GradientCases matrix_cases();
[[nodiscard]] GradientCases delta_rule_cases();
[[nodiscard]] GradientCases reduction_cases();
[[nodiscard]] GradientCases movement_cases();
[[nodiscard]] GradientCases gather_cases();
[[nodiscard]] GradientCases selection_cases();
[[nodiscard]] GradientCases softmax_cases();
[[nodiscard]] GradientCases convolution_cases();
[[nodiscard]] GradientCases pooling_cases();
[[nodiscard]] GradientCases normalization_cases();
[[nodiscard]] GradientCases resize_cases();
[[nodiscard]] GradientCases dropout_cases();
[[nodiscard]] GradientCases loss_cases();

}  // namespace rehearsal::exec
