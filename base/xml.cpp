#include "base/xml.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

namespace rehearsal {

std::string xml_escaped(std::string_view text) {
  using Entity = std::pair<char, std::string_view>;
  constexpr std::array kEntities{Entity{'&', "&amp;"}, Entity{'<', "&lt;"}, Entity{'>', "&gt;"}, Entity{'"', "&quot;"}};
  std::string safe;
  for (const char c : text) {
    const auto* entity = std::ranges::find(kEntities, c, &Entity::first);
    if (entity != kEntities.end())
      safe += entity->second;
    else if (static_cast<unsigned char>(c) >= 0x20)
      safe += c;
  }
  return safe;
}

std::string two_decimals(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.2f", value);
  return text;
}

}  // namespace rehearsal
