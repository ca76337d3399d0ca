#pragma once
// Data files of this room that travel inside the library (costmodel/embed.cmake).

#include <span>
#include <string_view>

namespace rehearsal::costmodel {

struct EmbeddedProfile {
  std::string_view name;  ///< file name without folder and ".json"
  std::string_view text;
};

[[nodiscard]] std::span<const EmbeddedProfile> embedded_profiles();
[[nodiscard]] std::string_view embedded_constants();
[[nodiscard]] std::string_view embedded_products();
[[nodiscard]] std::string_view embedded_attention();
[[nodiscard]] std::string_view embedded_collectives();

}  // namespace rehearsal::costmodel
