#pragma once
// Holds the messages of a file to what every pass over them must leave true.

#include <set>
#include <string>
#include <string_view>

#include "formats/onnx/rehearsal_onnx.pb.h"

namespace rehearsal::formats {

/// What is wrong with a file's main graph as it came: it is the importer that refuses it, with the place.
struct FileFaults {
  std::set<std::string> produced_twice;  ///< by nodes or initializers
  std::set<std::string> read_unknown;    ///< names that nothing in the file stores or produces
  std::set<std::string> outputs;         ///< names of the model's outputs
};
[[nodiscard]] FileFaults faults_of(const onnx::GraphProto& graph);

/// A pass adds no fault to those that were there before it, and takes no output away. Throws InternalError naming pass and tensor.
void check_file(const onnx::GraphProto& graph, const FileFaults& before, std::string_view after_pass);

}  // namespace rehearsal::formats
