#pragma once
// Lists of words, written as one text with blanks between them.

#include <algorithm>
#include <string_view>
#include <vector>

namespace rehearsal {

/// Takes the first word off `text`; empty where none is left.
[[nodiscard]] constexpr std::string_view take_word(std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  const auto word = text.substr(0, text.find(' '));
  text.remove_prefix(word.size());
  return word;
}

[[nodiscard]] constexpr std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  for (auto word = take_word(text); !word.empty(); word = take_word(text)) words.push_back(word);
  return words;
}

[[nodiscard]] constexpr bool has_word(std::string_view words, std::string_view word) {
  for (auto next = take_word(words); !next.empty(); next = take_word(words))
    if (next == word) return true;
  return false;
}

}  // namespace rehearsal
