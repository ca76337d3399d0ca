#pragma once
// Bodies of GPU kernels held against the reference kernels, in every floating-point type.

#include "tests/exec/kernels/one_node.hpp"

namespace rehearsal::exec {

/// Numbers without a pattern in [-1, 1], no two neighbours alike.
[[nodiscard]] Array numbers(graph::Shape shape, double seed = 1);
/// Numbers in [0.01, 1.01].
[[nodiscard]] Array positive(graph::Shape shape, double seed);
[[nodiscard]] Array scalar(double value, DType type);

/// OfWeights: in 16 bits to what the type resolves of 1, where weights that add up to 1 are rounded before operands up to 1 are added up by
/// them, as libraries do in attention.
enum class Accuracy : std::uint8_t { Exact, OfType, OfWeights };

/// Runs the node twice in each of f64, f32, f16 and bf16: the results must have the same bits, and be those of the reference kernel in f64
/// on the same rounded operands, to what the type resolves of the largest element. With images among the operands, once more channels-last.
void compare(const OneNode& node, Accuracy accuracy = Accuracy::OfType);
/// The same of a node whose operands have several types, in f32 where they have none of their own. No operand is an image.
void compare_mixed(const OneNode& node);

}  // namespace rehearsal::exec
