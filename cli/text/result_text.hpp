#pragma once
// Results as people read them.

#include <cstddef>
#include <string>

#include <nlohmann/json_fwd.hpp>

namespace rehearsal::cli {

/// Lines of text: "step  12.3 ms", nested objects indented, arrays of objects as tables, in a window of so many columns (0: as wide as it
/// takes). Units follow from the ends of keys: step_seconds, memory_bytes.
[[nodiscard]] std::string result_text(const nlohmann::ordered_json& result, std::size_t columns);

}  // namespace rehearsal::cli
