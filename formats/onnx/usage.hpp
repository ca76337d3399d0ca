#pragma once
// Who reads each tensor of a file, as far as it tells weights from other tensors.

#include <string>
#include <unordered_map>
#include <vector>

#include "formats/onnx/rehearsal_onnx.pb.h"

namespace rehearsal::formats {

/// Bits: how operands that read a tensor (directly, or through views and casts) see it.
enum Usage : unsigned {
  kWeightUse = 1,     ///< an operand that holds weights: Conv's W, Gemm's B, a table of Gather
  kMatrixUse = 2,     ///< the second factor of MatMul: weights or data
  kStateUse = 4,      ///< running statistics
  kUntrainedUse = 8,  ///< a scale, a bound, a mask, a shape: nobody trains it
  kNeutralUse = 16,   ///< any other
  kInstanceUse = 32,  ///< scale and bias of InstanceNormalization: weights, or the ones and zeros that group normalization is written with
  kNormUse = 64,      ///< besides kWeightUse: scale and bias of a normalization, which may be left out by writing ones and zeros
};
/// The same bits of what is read through Identity stand this much higher.
inline constexpr unsigned kThroughIdentity = 8;

using UsageByName = std::unordered_map<std::string, unsigned>;
using NodeList = std::vector<const onnx::NodeProto*>;
/// By "domain:name".
using FunctionsByName = std::unordered_map<std::string, const onnx::FunctionProto*>;

[[nodiscard]] std::string function_key(const std::string& domain, const std::string& name);

/// `nodes` in topological order.
[[nodiscard]] UsageByName usage_of(const NodeList& nodes, const FunctionsByName& functions);

/// The nodes so that each stands behind those that it reads, otherwise in the file's order. `where` starts messages.
/// Throws BadInput naming a node on a cycle, or two nodes that produce one tensor.
[[nodiscard]] NodeList in_topological_order(const google::protobuf::RepeatedPtrField<onnx::NodeProto>& nodes, const std::string& where);

/// Names that a node reads: its operands, and those its bodies capture.
[[nodiscard]] std::vector<std::string> names_read(const onnx::NodeProto& node);

/// "node 'x' (Op)", or by its first result when it has no name.
[[nodiscard]] std::string described(const onnx::NodeProto& node);

}  // namespace rehearsal::formats
