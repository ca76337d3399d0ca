#pragma once
#include <string_view>

namespace rehearsal::traces::published {

/// Our own copy of some published measurements (traces/published/records/), each with its source: one JSON object a line.
[[nodiscard]] std::string_view embedded_records();

}  // namespace rehearsal::traces::published
