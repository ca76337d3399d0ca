#pragma once
// Whether a graph computes what it should: results against expected ones, gradients against finite differences. Both on the reference
// kernels, which define the meaning of every operator.

#include <optional>
#include <string>
#include <vector>

#include "graph/graph.hpp"

namespace rehearsal::exec {

/// A tensor by name and its values.
struct Fed {
  std::string tensor;
  graph::Value value;
};

struct Tolerance {
  double relative = 1e-3, absolute = 1e-7;  ///< |result - expected| <= absolute + relative |expected|
};

/// nullopt when every expected tensor has its type, shape and values; else a sentence about the first that has not. Of a graph that draws
/// random numbers only types, shapes, means and deviations are compared. Throws Refusal when an operator has no kernel for its operands.
[[nodiscard]] std::optional<std::string> forward_difference(const graph::Graph& graph, const std::vector<Fed>& inputs,
                                                            const std::vector<Fed>& expected, Tolerance tolerance);

/// What a gradient was found to be.
enum class GradientVerdict : std::uint8_t { Agrees, Differs, NotDifferentiable, NoGradient };
struct GradientCheck {
  GradientVerdict verdict = GradientVerdict::Agrees;
  std::string reason;        ///< what differs, why nothing can be differentiated, or which operator has no gradient
  std::int64_t entries = 0;  ///< that were compared
};

/// The gradient of a weighted sum of all floating-point outputs, with respect to all floating-point inputs, against central differences in
/// f64. Where the function has a kink at the values given, the gradient must lie between both one-sided differences; where it jumps
/// or is not finite, the entry is left out. Of large inputs some entries are tried.
[[nodiscard]] GradientCheck check_gradient(const graph::Graph& graph, const std::vector<Fed>& inputs);

}  // namespace rehearsal::exec
