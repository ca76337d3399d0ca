#pragma once
#include <string>

#include "formats/onnx/node_import.hpp"

namespace rehearsal::formats {

/// Einstein summation of the node's operands ("bij,bjk->bik"; "..." stands for leading dimensions), contracted two at a time from the left.
/// Each contraction is a batched MatMul between transposed and reshaped operands, so that it has the MatMul's split rule and gradient.
/// Throws BadInput naming the node when the equation does not fit the operands; UnsupportedOperator for a repeated letter in one operand.
[[nodiscard]] graph::TensorId import_einsum(NodeImport& node, const std::string& equation);

}  // namespace rehearsal::formats
