#pragma once
#include <array>
#include <charconv>
#include <string>

namespace rehearsal {

/// In as few digits as are read as the same number: "0.1", "1e-05".
[[nodiscard]] inline std::string shortest_number(double value) {
  std::array<char, 32> text{};
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), value).ptr};
}

/// A number in at most so many significant digits, at most 17: "0.25", "1.5e+09".
[[nodiscard]] inline std::string short_number(double value, int digits) {
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::general, digits).ptr;
  return {text.data(), end};
}

}  // namespace rehearsal
