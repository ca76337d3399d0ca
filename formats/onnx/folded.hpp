#pragma once
// Weights that an exporter computed with: what onnxscript's optimizer notes with every tensor that it folded tells which ones.

#include <map>
#include <string>
#include <vector>

#include "formats/onnx/model_file.hpp"
#include "formats/onnx/stored.hpp"

namespace rehearsal::formats {

/// What a stored tensor was folded from.
struct Origin {
  std::vector<std::string> parameters;  ///< the listed ones among its sources
  bool moved_only = true;               ///< values were repeated, picked, transposed or reshaped on the way, never computed with
  bool one_to_one = true;               ///< every value of the parameter stands in it once

  [[nodiscard]] bool is_view() const { return parameters.size() == 1 && moved_only && one_to_one; }
};

/// Stored tensors by name whose sources the exporter notes, if a listed parameter is one of them.
[[nodiscard]] std::map<std::string, Origin> folded_tensors(const onnx::GraphProto& graph, const Declarations& declarations);

/// Whether onnxscript's optimizer has been at it, which notes what it folds and leaves no Constant nodes: without it a listed parameter
/// that no node reads is unused, or has another name.
[[nodiscard]] bool was_optimized(const onnx::GraphProto& graph);

/// Tells the importer that a stored tensor is trained.
void declare_parameter(onnx::GraphProto& graph, const std::string& name);
/// Says of a stored tensor that nobody trains it.
void declare_constant(onnx::GraphProto& graph, const std::string& name);

/// Makes a parameter again of every tensor that one parameter was folded into by moving values only: a class token that was repeated for
/// every sample, rows that were looked up in a table, the transposed copy of a matrix that the file stores too. Equal values are one value
/// of the parameter, so that it takes the gradient of all of them. Tables are restored as far as their rows were used. Where equal values
/// may be different ones of the parameter (all zeros), nothing is changed.
/// Returns what was undone; names of tensors that were left alone are what find_damage names. The file that a trained model is
/// written into is treated likewise.
std::vector<ExporterDamage> unfold(ModelFile& file);

}  // namespace rehearsal::formats
