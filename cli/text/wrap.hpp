#pragma once
// Lines that fit the window.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace rehearsal::cli {

/// Columns of the window that stdout is shown in; of COLUMNS where that is set; 0 where there is no window: lines may be as long as they
/// are.
[[nodiscard]] std::size_t window_columns();

/// The text in lines of at most so many columns (0: one line). Breaks behind blanks, commas and bars; a word that is longer stays whole.
[[nodiscard]] std::vector<std::string> wrapped(std::string_view text, std::size_t columns);
/// Columns that wrapped() needs at least: those of the longest word.
[[nodiscard]] std::size_t longest_word(std::string_view text);
/// wrapped() as one text: the first line stands at `indent` already, the others begin there.
[[nodiscard]] std::string hanging(std::string_view text, std::size_t indent, std::size_t columns);

}  // namespace rehearsal::cli
