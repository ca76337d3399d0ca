#pragma once
// Figures that change from hour to hour: what a kWh emits, and what a device costs.
//
// A file is CSV. Its first line names the columns: "hour", then for every region "carbon:REGION" (grams of CO2 for a kWh) or "price:REGION"
// (dollars for a device and hour) or both; a line follows for every hour, in order. The first column is any text that names the hour. After
// the last hour the first one follows again: 24 lines are a day like all others, 168 a week.

#include <iosfwd>
#include <string>
#include <vector>

namespace rehearsal::predict {

struct RegionHours {
  std::string name;
  std::vector<double> carbon;  ///< g/kWh by hour; empty: nobody says
  std::vector<double> price;   ///< dollars for a device and hour, by hour; empty: nobody says
};

struct Hours {
  std::vector<std::string> names;  ///< of the hours
  std::vector<RegionHours> regions;
};

/// Throws BadInput naming the file (or what it is called), and the line and column where there is one.
[[nodiscard]] Hours read_hours(std::istream&, const std::string& name);
[[nodiscard]] Hours read_hours_file(const std::string& path);

}  // namespace rehearsal::predict
