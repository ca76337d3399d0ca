#pragma once
// Normalizations without weights: operators need some, so an exporter makes ones and zeros up, and may merge them with the weights of
// others.

#include "formats/onnx/damage.hpp"

namespace rehearsal::formats {

/// What the notes of the calls say has no weight gets constants of its own. Returns those that were stored as weights of others.
std::vector<ExporterDamage> separate_plain_norms(onnx::GraphProto& graph, const Declarations& declarations);

}  // namespace rehearsal::formats
