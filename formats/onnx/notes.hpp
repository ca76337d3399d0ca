#pragma once
// What torch.export noted about a node: the function it stands for, with its arguments, and where in the model's source it stands.
// Gradients may hang on them, though the operator's values do not.

#include <string>
#include <string_view>
#include <vector>

#include "formats/onnx/rehearsal_onnx.pb.h"

namespace rehearsal::formats {

/// "aten.clone.default": the framework's function that a node stands for; empty when there is no word of it.
[[nodiscard]] std::string source_function(const onnx::NodeProto& node);
void set_source_function(onnx::NodeProto& node, std::string_view function);
/// "%p_weight", "%x", "2": what that function was called with, in its order; empty when there is no word of it.
[[nodiscard]] std::vector<std::string> source_arguments(const onnx::NodeProto& node);
/// Writes such a call of `function` down.
void set_source_call(onnx::NodeProto& node, std::string_view function, const std::vector<std::string>& arguments);
/// Whether it stood in a block of its own: torch.no_grad(), or torch.autocast. The exporter notes its generated source and not which.
[[nodiscard]] bool stands_in_block(const onnx::NodeProto& node);
/// Whether it is part of the forward function of a torch.autograd.Function, whose backward is the model's own.
[[nodiscard]] bool stands_in_own_function(const onnx::NodeProto& node);

}  // namespace rehearsal::formats
