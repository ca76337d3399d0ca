#pragma once
#include <vector>

#include "formats/onnx/node_import.hpp"

namespace rehearsal::formats {

/// A convolution of `operands` (image, weight and perhaps bias) with the attributes of the node, whose operand `weight` has the
/// weight's shape and operand 0 the image's.
[[nodiscard]] graph::TensorId emit_convolution(NodeImport& node, std::vector<graph::TensorId> operands, std::size_t weight = 1);

}  // namespace rehearsal::formats
