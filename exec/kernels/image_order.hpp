#pragma once
// Images in plain and in channels-last order: which of them kernels ask for that can do with either (KernelRow::formats).

#include <vector>

#include "graph/shape.hpp"
#include "plan/backend.hpp"

namespace rehearsal::exec {

[[nodiscard]] inline bool is_image(const graph::Shape& shape) { return shape.size() >= 3 && shape.size() <= 5; }

/// The shape in the order in which elements lie in memory.
[[nodiscard]] graph::Shape in_memory_order(graph::Shape shape, plan::Format format);
/// The same dimension in that order, of `rank` of them.
[[nodiscard]] std::size_t in_memory_order(std::size_t dimension, std::size_t rank, plan::Format format);

/// With leading dimensions of 1, `rank` in all.
[[nodiscard]] graph::Shape padded_to(std::size_t rank, const graph::Shape& shape);
/// True when a tensor of this shape lies in memory alike in both orders, once padded to `rank` dimensions.
[[nodiscard]] bool is_order_free(const graph::Shape& shape, std::size_t rank);

// Of a node: what it asks for, given what its operands are. True always.

/// Channels-last images when one already is: every operand and result shaped as operand 0 then is.
bool follow_operand(const plan::LocalNode& node, std::vector<plan::Format>& inputs, std::vector<plan::Format>& outputs);
/// Channels-last when an operand shaped as the result is, and the others do not depend on the order.
bool follow_result(const plan::LocalNode& node, std::vector<plan::Format>& inputs, std::vector<plan::Format>& outputs);
/// All operands and results channels-last when one operand is.
bool follow_any(const plan::LocalNode& node, std::vector<plan::Format>& inputs, std::vector<plan::Format>& outputs);

/// Of Conv, ConvTranspose and their gradients: everything that is an image in channels-last order; false where operand 0 is none.
bool images_of_convolution(const plan::LocalNode& node, std::vector<plan::Format>& inputs, std::vector<plan::Format>& outputs);

}  // namespace rehearsal::exec
