#pragma once
#include <charconv>
#include <optional>
#include <string_view>

namespace rehearsal {

/// The number that `text` begins with, which is then cut off; nothing when it begins with none or with one too large for T.
/// Whatever the locale; "inf" and "nan" are numbers, blanks and '+' are not.
template <class T>
[[nodiscard]] std::optional<T> take_number(std::string_view& text) {
  T value{};
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

/// The number that `text` is from end to end, or nothing.
template <class T>
[[nodiscard]] std::optional<T> parse_number(std::string_view text) {
  const auto value = take_number<T>(text);
  return text.empty() ? value : std::nullopt;
}

}  // namespace rehearsal
