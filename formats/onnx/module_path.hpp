#pragma once
// Which module of the original model a node comes from, and what its operands were called there.

#include <string>

#include "formats/onnx/rehearsal_onnx.pb.h"

namespace rehearsal::formats {

/// "model.layers.0.mlp" for a node of torch.onnx's newer exporter, from its metadata; empty when there is none.
[[nodiscard]] std::string module_path(const onnx::NodeProto& node);
/// Whether operand i is added rather than multiplied: where a layer has its bias.
[[nodiscard]] bool is_bias_operand(const onnx::NodeProto& node, int i);
[[nodiscard]] bool is_bias_name(const std::string& leaf);
/// Whether TorchScript's exporter made both the weight and the bias of a layer up, as it does with a BatchNormalization behind it.
[[nodiscard]] bool has_made_up_weights(const onnx::NodeProto& node);

}  // namespace rehearsal::formats
