#pragma once
// Files of this folder that travel inside the library: the build writes their texts into a source file (platforms/embed.cmake).

#include <span>
#include <string_view>

namespace rehearsal::platforms {

struct EmbeddedFile {
  std::string_view name;  ///< file name without folder and ".json"
  std::string_view text;
};

[[nodiscard]] std::span<const EmbeddedFile> embedded_catalog();  ///< platforms
[[nodiscard]] std::span<const EmbeddedFile> embedded_devices();
[[nodiscard]] std::span<const EmbeddedFile> embedded_sites();
[[nodiscard]] std::string_view embedded_schema();

}  // namespace rehearsal::platforms
