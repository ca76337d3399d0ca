#pragma once
// A file with a batch written into it, used with another one.

#include <cstdint>
#include <optional>

#include "formats/onnx/import.hpp"

namespace rehearsal::formats {

struct ModelFile;

/// Throws BadInput as import_onnx() does, and when the file cannot be used with options.batch, saying by node why.
[[nodiscard]] ImportedModel import_rebatched(const ModelFile& file, const ImportOptions& options, std::int64_t written);

}  // namespace rehearsal::formats
