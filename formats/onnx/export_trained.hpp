#pragma once
// A model file with other values of its stored tensors: what was trained goes back into the file that it came from.

#include <map>
#include <span>
#include <string>

#include "graph/value.hpp"

namespace rehearsal::formats {

/// Row-major little-endian elements of a trained tensor, converted to the file's type.
struct TrainedValue {
  graph::TensorType type;
  std::span<const std::byte> bytes;
};
using TrainedValues = std::map<std::string, TrainedValue>;

/// Writes the model of `source` to `path`: nodes, names, inputs, outputs and opsets stay, but that BatchNormalization takes
/// its running statistics and Dropout keeps everything; tensors named in `values` get these values, also
/// where the file left them out, computed them (ConstantOfShape, RandomNormal), copied them from another (Identity) or kept them beside
/// it. Weights beyond kLargestInlineWeights go to "<path>.data". The files are complete or not there.
/// Throws BadInput naming the tensor when a shape differs or values that were not trained are missing, Refusal when a trained tensor has no
/// place in the main graph, EnvironmentFailure when the disk is full.
void export_trained(const std::string& source, const std::string& path, const TrainedValues& values);

}  // namespace rehearsal::formats
