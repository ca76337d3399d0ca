#include "predict/hours/hours_file.hpp"

#include <algorithm>
#include <optional>
#include <sstream>

#include "base/csv.hpp"
#include "base/error.hpp"
#include "base/parse_number.hpp"
#include "predict/hours/line_times.hpp"

namespace rehearsal::predict {
namespace {

constexpr std::size_t kMostHours = 100000;  // eleven years
constexpr double kMostCarbon = 1e4, kHighestPrice = 1e6;

struct Column {
  std::vector<double> RegionHours::*figures;
  std::size_t region;
  double most;
};

class HoursReader {
 public:
  HoursReader(std::istream& in, const std::string& name) : name_(name), table_(in, name) {}

  Hours read() {
    std::vector<std::string> cells;
    if (!table_.next(cells)) throw BadInput(name_, "is empty; its first line names columns, such as hour,carbon:DE,price:DE");
    read_columns(cells);
    while (table_.next(cells)) read_hour(cells);
    if (hours_.names.empty()) throw BadInput(name_, "has no hours below the names of its columns");
    return std::move(hours_);
  }

 private:
  void read_columns(const std::vector<std::string>& names) {
    if (names.size() < 2 || names.front() != "hour") table_.refuse("the first column is called hour, and others follow, such as carbon:DE");
    for (std::size_t n = 1; n < names.size(); ++n) columns_.push_back(column(names[n]));
  }

  Column column(const std::string& name) {
    const auto colon = name.find(':');
    const auto what = name.substr(0, colon), region = colon == std::string::npos ? std::string() : name.substr(colon + 1);
    if ((what != "carbon" && what != "price") || region.empty())
      table_.refuse("column \"" + name + "\" is neither carbon:REGION (g/kWh) nor price:REGION (dollars for a device and hour)");
    auto known = std::ranges::find(hours_.regions, region, &RegionHours::name);
    if (known == hours_.regions.end()) known = hours_.regions.insert(known, {region, {}, {}});
    const auto at = static_cast<std::size_t>(known - hours_.regions.begin());
    const Column made{what == "carbon" ? &RegionHours::carbon : &RegionHours::price, at, what == "carbon" ? kMostCarbon : kHighestPrice};
    if (std::ranges::any_of(columns_, [&](const Column& c) { return c.figures == made.figures && c.region == at; }))
      table_.refuse("column \"" + name + "\" is there twice");
    return made;
  }

  void read_hour(const std::vector<std::string>& cells) {
    if (hours_.names.size() == kMostHours)
      table_.refuse("is one hour more than the " + std::to_string(kMostHours) + " that a file may have");
    add_time(cells.front());
    hours_.names.push_back(cells.front());
    for (std::size_t n = 0; n < columns_.size(); ++n) {
      const auto& column = columns_[n];
      const auto figure = parse_number<double>(cells[n + 1]);
      if (!figure || !(*figure >= 0 && *figure <= column.most))
        table_.refuse("\"" + cells[n + 1] + "\" in column " + std::to_string(n + 2) + " must be a number from 0 to " +
                      std::to_string(static_cast<long>(column.most)));
      (hours_.regions[column.region].*column.figures).push_back(*figure);
    }
  }

  /// Lines are as far apart as the first two of them.
  void add_time(const std::string& text) {
    const auto time = time_of_line(text);
    const bool first = hours_.names.empty();
    if (!first && time.has_value() != before_.has_value())
      table_.refuse("\"" + text + "\" follows \"" + hours_.names.back() +
                    "\": either all lines say a time (15, 15:00, 2025-07-01 15:00) or none");
    if (!first && time) add_distance(time_between(*before_, *time), text);
    before_ = time;
  }

  void add_distance(std::optional<Seconds> distance, const std::string& text) {
    constexpr Seconds kLeast(60);
    const auto before = "\"" + hours_.names.back() + "\"";
    if (!distance) table_.refuse("\"" + text + "\" does not follow " + before + ": lines are in the order of time");
    if (hours_.names.size() == 1) hours_.line = *distance;
    if (*distance < kLeast) table_.refuse("\"" + text + "\" is less than a minute after " + before + "; a line is at least that");
    if (*distance != hours_.line)
      table_.refuse("\"" + text + "\" is " + minutes(*distance) + " after " + before + ", the lines before are " + minutes(hours_.line) +
                    " apart: all must be the same");
  }

  static std::string minutes(Seconds time) {
    std::ostringstream text;
    text << time.value() / 60 << " min";
    return text.str();
  }

  std::string name_;
  std::optional<LineTime> before_;
  CsvReader table_;
  std::vector<Column> columns_;
  Hours hours_;
};

}  // namespace

Hours read_hours(std::istream& in, const std::string& name) { return HoursReader(in, name).read(); }

Hours read_hours_file(const std::string& path) {
  auto in = open_text(path);
  return read_hours(in, path);
}

}  // namespace rehearsal::predict
