#pragma once
// How operators of a file become nodes of a graph. A row per operator and range of versions; each file of formats/onnx/ops/ contributes a
// family. To add an operator or a version: one row, or its name in kSameSince of elementwise.cpp.

#include <cstdint>
#include <limits>
#include <string_view>

namespace rehearsal::formats {

class NodeImport;

inline constexpr std::string_view kDefaultDomain;  ///< written "" or "ai.onnx"
inline constexpr std::string_view kMicrosoft = "com.microsoft";
inline constexpr std::int64_t kNewest = std::numeric_limits<std::int64_t>::max();

struct ImportRow {
  std::string_view domain, op;
  std::int64_t since, until;  ///< opset versions, both included
  void (*import)(NodeImport&);
};

/// nullptr when the operator has no row for this version.
[[nodiscard]] const ImportRow* find_import_row(std::string_view domain, std::string_view op, std::int64_t version);

}  // namespace rehearsal::formats
