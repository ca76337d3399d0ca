#pragma once
// Figures that change from hour to hour: what a kWh emits, and what a device costs.
//
// A file is CSV. Its first line names the columns: "hour", then for every region "carbon:REGION" (grams of CO2 for a kWh) or "price:REGION"
// (dollars for a device and hour) or both; then lines follow in order. The first column says when a line begins: a number of hours,
// "15:00", or "2025-07-01 15:00" with or without seconds and an offset ("Z", "+02:00"); lines are as far apart as their times, the same
// throughout. Other texts ("hour 3 of Monday") name lines of an hour each. After the last line the first one follows again: 24 hours are a
// day like all others, 168 a week.

#include <iosfwd>
#include <string>
#include <vector>

#include "base/units.hpp"

namespace rehearsal::predict {

struct RegionHours {
  std::string name;
  std::vector<double> carbon;  ///< g/kWh by line; empty: nobody says
  std::vector<double> price;   ///< dollars for a device and hour, by line; empty: nobody says
};

struct Hours {
  std::vector<std::string> names;  ///< of the lines
  std::vector<RegionHours> regions;
  Seconds line = Seconds(3600);  ///< how long a line stands
};

/// Throws BadInput naming the file (or what it is called), and the line and column where there is one.
[[nodiscard]] Hours read_hours(std::istream&, const std::string& name);
[[nodiscard]] Hours read_hours_file(const std::string& path);

}  // namespace rehearsal::predict
