#include "base/csv.hpp"

#include <optional>

#include "base/error.hpp"

namespace rehearsal {
namespace {

constexpr std::string_view kBlanks = " \t\r";

std::string trimmed(const std::string& text) {
  const auto begin = text.find_first_not_of(kBlanks);
  return begin == std::string::npos ? std::string() : text.substr(begin, text.find_last_not_of(kBlanks) + 1 - begin);
}

/// Two quotes within quotes are one. Nothing where one is not closed.
std::optional<std::vector<std::string>> cells_of(const std::string& line) {
  std::vector<std::string> cells(1);
  bool quoted = false;
  for (std::size_t n = 0; n < line.size(); ++n) {
    if (line[n] == '"') {
      const bool doubled = quoted && n + 1 < line.size() && line[n + 1] == '"';
      if (doubled) cells.back() += line[++n];
      quoted = quoted != !doubled;
    } else if (line[n] == ',' && !quoted) {
      cells.emplace_back();
    } else {
      cells.back() += line[n];
    }
  }
  if (quoted) return std::nullopt;
  for (auto& cell : cells) cell = trimmed(cell);
  return cells;
}

}  // namespace

bool CsvReader::next(std::vector<std::string>& cells) {
  for (std::string line; lines_.next(line);) {
    if (trimmed(line).empty()) continue;
    auto found = cells_of(line);
    if (!found) refuse("a quote is not closed");
    if (columns_ == 0) columns_ = found->size();
    if (found->size() != columns_)
      refuse("has " + std::to_string(found->size()) + " cells; the first line names " + std::to_string(columns_));
    cells = std::move(*found);
    return true;
  }
  return false;
}

void CsvReader::refuse(const std::string& why) const { throw BadInput(name_ + ":" + std::to_string(lines_.number()), why); }

}  // namespace rehearsal
