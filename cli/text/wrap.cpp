#include "cli/text/wrap.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "base/parse_number.hpp"

namespace rehearsal::cli {
namespace {

/// The words of a text, each with what ends it.
std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  while (!text.empty()) {
    const auto end = std::min(text.find_first_of(" ,|"), text.size() - 1) + 1;
    words.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
  return words;
}

std::string_view without_blanks(std::string_view word) {
  const auto last = word.find_last_not_of(' ');
  return last == std::string_view::npos ? std::string_view() : word.substr(0, last + 1);
}

}  // namespace

std::size_t window_columns() {
  if (const char* columns = std::getenv("COLUMNS"))
    if (const auto number = parse_number<std::size_t>(columns)) return *number;
  winsize window{};
  return isatty(STDOUT_FILENO) != 0 && ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) == 0 ? window.ws_col : 0;
}

std::vector<std::string> wrapped(std::string_view text, std::size_t columns) {
  if (columns == 0 || text.size() <= columns) return {std::string(text)};
  std::vector<std::string> lines{""};
  for (const auto word : words_of(text)) {
    if (!lines.back().empty() && lines.back().size() + without_blanks(word).size() > columns) {
      lines.back() = without_blanks(lines.back());
      lines.emplace_back();
    }
    lines.back() += word;
  }
  lines.back() = without_blanks(lines.back());
  return lines;
}

std::size_t longest_word(std::string_view text) {
  std::size_t longest = 0;
  for (const auto word : words_of(text)) longest = std::max(longest, without_blanks(word).size());
  return longest;
}

std::string hanging(std::string_view text, std::size_t indent, std::size_t columns) {
  constexpr std::size_t kFewest = 20;  // a narrower text is not worth its lines
  std::string all;
  for (const auto& line : wrapped(text, columns == 0 ? 0 : std::max(kFewest, columns - std::min(columns, indent))))
    all += (all.empty() ? "" : "\n" + std::string(indent, ' ')) + line;
  return all;
}

}  // namespace rehearsal::cli
