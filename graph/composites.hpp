#pragma once
// Layers that are several nodes: the importer and the zoo add them through one call.

#include "graph/builder.hpp"

namespace rehearsal::graph {

/// Batch normalization in training: statistics of the batch, running statistics updated after the step
/// (Ioffe, Szegedy, "Batch Normalization", ICML 2015, algorithm 1).
struct BatchNorm {
  TensorId x = TensorId::None;             ///< [n, c, spatial...]
  TensorId scale = TensorId::None;         ///< [c]
  TensorId bias = TensorId::None;          ///< [c]
  TensorId running_mean = TensorId::None;  ///< [c], role State; None: no running statistics are kept
  TensorId running_var = TensorId::None;   ///< [c], role State, unbiased as PyTorch keeps it
  double epsilon = 1e-5;
  double momentum = 0.9;  ///< ONNX's: running = running momentum + batch (1 - momentum); 1 - PyTorch's
};
/// Adds BatchNormSums, BatchNormApply and (when running statistics are given) BatchNormRunning. The first node is named `name`.sums.
/// Returns the normalized tensor, named `name` unless that is empty. Throws BadInput when operands do not fit.
TensorId add_batch_norm(GraphBuilder&, const BatchNorm&, const std::string& name = "");

/// Normalization of each sample over groups of channels and all spatial axes (Wu, He, "Group Normalization", ECCV 2018);
/// num_groups = channels is InstanceNormalization.
struct GroupNorm {
  TensorId x = TensorId::None;      ///< [n, c, spatial...]
  TensorId scale = TensorId::None;  ///< [c]
  TensorId bias = TensorId::None;   ///< [c]
  std::int64_t num_groups = 1;      ///< divides c
  double epsilon = 1e-5;
};
/// Adds GroupNormSums and GroupNormApply. Returns the normalized tensor.
TensorId add_group_norm(GraphBuilder&, const GroupNorm&, const std::string& name = "");

}  // namespace rehearsal::graph
