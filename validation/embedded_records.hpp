#pragma once
#include <string_view>

namespace rehearsal::validation {

/// Our own copy of some published measurements (validation/records/), each with its source: one JSON object a line.
[[nodiscard]] std::string_view embedded_records();

}  // namespace rehearsal::validation
