#pragma once
// Texts in a row, as sentences and options list them.

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace rehearsal {

/// `text` of every element (a function of it, or a member), with `separator` between: "dp, pp, tp".
template <class Range, class Text = std::identity>
[[nodiscard]] std::string joined(const Range& range, std::string_view separator = ", ", Text text = {}) {
  std::string all;
  bool first = true;
  for (const auto& element : range) {
    if (!first) all += separator;
    first = false;
    all += std::invoke(text, element);
  }
  return all;
}

/// What stands before, between and behind the separators: "a,,b" has three parts, the second one empty.
[[nodiscard]] inline std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts{""};
  for (const char c : text)
    if (c == separator)
      parts.emplace_back();
    else
      parts.back() += c;
  return parts;
}

}  // namespace rehearsal
