#pragma once
// A file with a batch written into it, used with another one.

#include <cstdint>
#include <string>

#include "formats/onnx/model_import.hpp"
#include "formats/onnx/rebatch/batch_trace.hpp"

namespace rehearsal::formats {

struct ModelFile;

/// How the file's sizes follow from the batch, found by importing it as written and with a prime in the batch's place. An import with
/// BatchTrace::Pass::Wanted uses it. Throws BadInput as import_onnx() does, and when the file cannot be used with options.batch, saying by
/// node why.
[[nodiscard]] BatchTrace sizes_that_follow(const ModelFile& file, const ImportOptions& options, std::int64_t written);

/// Throws BadInput: the file cannot be used with options.batch, and why.
[[noreturn]] void refuse_batch(const ModelFile& file, const ImportOptions& options, const BatchTrace& trace, const std::string& reason);

}  // namespace rehearsal::formats
