#pragma once
// What an exporter did to a model's weights, found by its own evidence: the signature of torch.export lists every parameter and buffer, and
// nodes say which module they come from. Merged weights are taken apart again; the rest is named.

#include <string>
#include <vector>

#include "formats/onnx/model_import.hpp"
#include "formats/onnx/stored.hpp"

namespace rehearsal::formats {

/// Optimizing exporters store tensors of equal values once, which ties unrelated parameters of a fresh model: every module gets its own
/// again, under the name that the signature lists. Weights that are shared on purpose (random values under unlike names) stay shared.
/// Returns what was taken apart. The file that a trained model is written into is treated likewise.
std::vector<ExporterDamage> separate_merged(onnx::ModelProto& model);

/// What cannot be undone, weight by weight.
[[nodiscard]] std::vector<ExporterDamage> find_damage(const ModelFile& file, const Declarations& declarations);

/// One sentence for each kind of damage, with how many weights have it and the first of them.
[[nodiscard]] std::vector<std::string> sentences_about(const std::vector<ExporterDamage>& damage);

}  // namespace rehearsal::formats
