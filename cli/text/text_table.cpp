#include "cli/text/text_table.hpp"

#include <algorithm>
#include <numeric>

#include "cli/text/wrap.hpp"

namespace rehearsal::cli {
namespace {

constexpr std::size_t kGap = 2;

struct Width {
  std::size_t now = 0, least = 0;
};

Width width_of(const TextTable& table, std::size_t column) {
  constexpr std::size_t kReadable = 16;  // narrower sentences are hard to read
  Width width{table.titles[column].size(), longest_word(table.titles[column])};
  for (const auto& row : table.rows) {
    const auto& cell = row[column];
    width.now = std::max(width.now, cell.text.size());
    width.least =
        std::max(width.least, cell.breaks ? std::max(longest_word(cell.text), std::min(kReadable, cell.text.size())) : cell.text.size());
  }
  return width;
}

std::size_t total(const std::vector<Width>& widths) {
  return std::accumulate(widths.begin(), widths.end(), (widths.size() - 1) * kGap,
                         [](std::size_t sum, const Width& w) { return sum + w.now; });
}

/// Takes columns from the widest that has some to give, until all of them fit or none has.
void narrow(std::vector<Width>& widths, std::size_t room) {
  while (total(widths) > room) {
    const auto widest = std::ranges::max_element(widths, {}, [](const Width& w) { return w.now > w.least ? w.now : 0; });
    if (widest->now <= widest->least) return;
    --widest->now;
  }
}

void append_row(std::string& text, const std::vector<std::vector<std::string>>& cells, const std::vector<Width>& widths,
                std::size_t indent) {
  std::size_t height = 0;
  for (const auto& cell : cells) height = std::max(height, cell.size());
  for (std::size_t n = 0; n < height; ++n) {
    std::string line(indent, ' ');
    for (std::size_t c = 0; c < cells.size(); ++c) {
      const auto& part = n < cells[c].size() ? cells[c][n] : std::string();
      line += part + std::string(widths[c].now + kGap - std::min(part.size(), widths[c].now), ' ');
    }
    text += line.substr(0, line.find_last_not_of(' ') + 1) + '\n';
  }
}

/// The columns `shown` of the table, which fit.
void append_part(std::string& text, const TextTable& table, const std::vector<std::size_t>& shown, std::vector<Width> widths,
                 std::size_t indent) {
  std::vector<std::vector<std::string>> cells;
  for (std::size_t n = 0; n < shown.size(); ++n) cells.push_back(wrapped(table.titles[shown[n]], widths[n].now));
  append_row(text, cells, widths, indent);
  for (const auto& row : table.rows) {
    cells.clear();
    for (std::size_t n = 0; n < shown.size(); ++n) {
      const auto& cell = row[shown[n]];
      cells.push_back(cell.breaks ? wrapped(cell.text, widths[n].now) : std::vector<std::string>{cell.text});
    }
    append_row(text, cells, widths, indent);
  }
}

std::vector<Width> widths_of(const TextTable& table, const std::vector<std::size_t>& shown, std::size_t room) {
  std::vector<Width> widths;
  for (const auto column : shown) widths.push_back(width_of(table, column));
  if (room > 0) narrow(widths, room);
  return widths;
}

}  // namespace

std::string to_text(const TextTable& table, std::size_t indent, std::size_t columns) {
  std::string text;
  if (table.titles.empty()) return text;
  const auto room = columns == 0 ? 0 : std::max<std::size_t>(columns - std::min(columns, indent), 1);
  std::size_t next = 1;
  do {
    std::vector<std::size_t> shown{0};
    for (; next < table.titles.size(); ++next) {
      shown.push_back(next);
      if (room == 0 || shown.size() <= 2 || total(widths_of(table, shown, room)) <= room) continue;
      shown.pop_back();
      break;
    }
    if (!text.empty()) text += '\n';
    append_part(text, table, shown, widths_of(table, shown, room), indent);
  } while (next < table.titles.size());
  return text;
}

}  // namespace rehearsal::cli
