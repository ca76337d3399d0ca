#pragma once
#include "formats/onnx/node_import.hpp"

namespace rehearsal::formats {

/// Operand i, [batch, length, heads * size], as [batch, heads, length, size]; four dimensions stay.
[[nodiscard]] graph::TensorId by_heads(NodeImport& node, std::size_t i, std::int64_t heads);
/// [batch, groups, ...] that several heads share, once for each of `heads`. Four dimensions.
[[nodiscard]] graph::TensorId repeated(NodeImport& node, graph::TensorId t, std::int64_t heads);

}  // namespace rehearsal::formats
