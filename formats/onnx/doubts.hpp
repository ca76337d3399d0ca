#pragma once
// What a file of an exporter that leaves no evidence may lack or hold: worth a warning, not a refusal.

#include <string>
#include <vector>

#include "formats/onnx/model_file.hpp"
#include "formats/onnx/stored.hpp"
#include "graph/graph.hpp"

namespace rehearsal::formats {

/// Sentences for the user, none for exporters that say what they did. `graph` is what was made of the file.
[[nodiscard]] std::vector<std::string> doubts_about(const ModelFile& file, const Declarations& declarations, const graph::Graph& graph);

}  // namespace rehearsal::formats
