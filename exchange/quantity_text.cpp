#include "exchange/quantity_text.hpp"

#include <array>
#include <charconv>

namespace rehearsal::exchange {

std::string short_number(double value) {
  constexpr int kDigits = 6;
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::general, kDigits).ptr;
  return {text.data(), end};
}

}  // namespace rehearsal::exchange
