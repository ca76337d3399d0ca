#pragma once
// Texts in a row, as sentences list them.

#include <functional>
#include <string>
#include <string_view>

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

}  // namespace rehearsal
