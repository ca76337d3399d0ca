#pragma once
// Functions that recurrent layers apply to their gates, by the names that ONNX has for them (operators RNN, GRU, LSTM: "activations").

#include <string>
#include <vector>

#include "formats/onnx/node_import.hpp"

namespace rehearsal::formats {

struct RecurrentActivation {
  graph::TensorId (*apply)(NodeImport&, graph::TensorId x, double alpha, double beta);
  double alpha, beta;
};

/// The functions of every direction, `otherwise` repeated where the node names none. Throws BadInput when their number does not fit,
/// UnsupportedOperator for names that ONNX does not have.
[[nodiscard]] std::vector<RecurrentActivation> recurrent_activations(NodeImport& n, std::int64_t directions,
                                                                     const std::vector<std::string>& otherwise);

}  // namespace rehearsal::formats
