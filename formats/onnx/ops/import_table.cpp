#include "formats/onnx/ops/import_families.hpp"

namespace rehearsal::formats {

const ImportRow* find_import_row(std::string_view domain, std::string_view op, std::int64_t version) {
  const std::string_view wanted = domain == "ai.onnx" ? kDefaultDomain : domain;
  for (const auto family : kImportFamilies) {
    for (const ImportRow& row : family()) {
      if (row.op == op && row.domain == wanted && row.since <= version && version <= row.until) return &row;
    }
  }
  return nullptr;
}

}  // namespace rehearsal::formats
