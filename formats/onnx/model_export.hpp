#pragma once
// A forward Graph as an ONNX file that other tools read: our composed rows become standard operators again.
//
// Without weights, stored tensors whose contents have a rule (Fill, RandomNormal, RandomUniform) become ConstantOfShape, RandomNormal and
// RandomUniform nodes; those of unknown contents become graph inputs, listed in the model's metadata under "weights", and marked with
// InputSpec.kind PARAMETER or BUFFER as torch.export does. model_import.hpp reads both back with the same roles.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "graph/graph.hpp"

namespace rehearsal::formats {

struct ExportOptions {
  bool inference = false;  ///< BatchNormalization takes its running statistics, Dropout keeps everything
  bool weights = false;    ///< store the values of all stored tensors
  /// Row-major little-endian elements of a stored tensor in its type, or nullptr for its contents; called once per tensor when `weights`.
  std::function<const std::byte*(graph::TensorId)> values;
  /// The same model built for another batch: what differs is written as the symbol "batch", so that the file takes any batch.
  const graph::Graph* other_batch = nullptr;
  std::uint64_t seed = 0;  ///< of random contents when `weights`
  std::string producer_version;
};

/// Weights beyond this go to "<path>.data" beside the model: a message of Protobuf ends at 2 GB.
inline constexpr std::int64_t kLargestInlineWeights = std::int64_t{1} << 30;

/// Writes nodes of the forward phase, and running statistics as results of BatchNormalization. The files are complete or not there.
/// Throws Refusal naming the node when an operator has no ONNX form, EnvironmentFailure when the disk is full.
void export_onnx(const graph::Graph& model, const std::string& path, const ExportOptions& options = {});

}  // namespace rehearsal::formats
