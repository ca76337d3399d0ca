#pragma once
#include <cstdint>
#include <string_view>

namespace rehearsal::plan {

/// How the elements of a local tensor lie in memory. Shapes are always written in logical order (N, C, spatial...).
enum class Format : std::uint8_t {
  Plain,         ///< row-major in logical order (N C H W)
  ChannelsLast,  ///< row-major in the order N, spatial..., C; ranks 3 to 5
  Packed,        ///< opaque to everyone but the backend that asked for it
};
[[nodiscard]] constexpr std::string_view name(Format f) {
  return f == Format::Plain ? "plain" : f == Format::ChannelsLast ? "channels-last" : "packed";
}

}  // namespace rehearsal::plan
