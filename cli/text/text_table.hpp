#pragma once
// A table of texts that fits the window.

#include <cstddef>
#include <string>
#include <vector>

namespace rehearsal::cli {

struct TextCell {
  std::string text;
  bool breaks = false;  ///< may stand on several lines: a sentence or a plan, not a number with its unit
};
struct TextTable {
  std::vector<std::string> titles;          ///< of the columns; they may stand on several lines
  std::vector<std::vector<TextCell>> rows;  ///< each as long as titles
};

/// Lines that begin at `indent` and end before `columns` (0: as long as they are). What is too wide is broken behind blanks and commas, the
/// widest column first; where that is not enough, the columns that are left stand below, behind the first one again.
[[nodiscard]] std::string to_text(const TextTable&, std::size_t indent, std::size_t columns);

}  // namespace rehearsal::cli
