#pragma once
// Platforms as JSON: one object per part, every quantity a text of a number and a unit, beside them an object
// "sources" that says key by key where the figures come from. platforms/schema/platform.schema.json is the published schema.

#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "platforms/platform.hpp"

namespace rehearsal::platforms {

/// Version of the file format, its key "schema".
inline constexpr int kPlatformSchema = 1;

/// A platform, or a file that holds one under "platform" beside other parts (a calibrated machine.json).
/// Throws BadInput naming `where` (the file), the path of the key, and what would be right.
[[nodiscard]] Platform read_platform(const nlohmann::json& value, const std::string& where);
[[nodiscard]] Platform read_platform_text(const std::string& text, const std::string& where);
[[nodiscard]] Platform read_platform_file(const std::string& path);

/// Reads back as the same platform, device_limit included.
[[nodiscard]] nlohmann::json to_json(const Platform&);
/// The same, indented, with keys in the order of the documentation.
[[nodiscard]] std::string to_json_text(const Platform&);

/// The text of the published JSON Schema (draft 7).
[[nodiscard]] std::string_view platform_schema();

}  // namespace rehearsal::platforms
