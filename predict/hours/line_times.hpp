#pragma once
// When the lines of a file begin, as their first column says it.

#include <optional>
#include <string_view>

#include "base/units.hpp"

namespace rehearsal::predict {

struct LineTime {
  Seconds since;       ///< since 1970, or since the first midnight of no particular day
  bool dated = false;  ///< the former
};
/// "7" (hours), "7:00", "07:00:00", "2025-07-01 07:00", "2025-07-01T07:00:00+02:00". Nothing for other texts.
[[nodiscard]] std::optional<LineTime> time_of_line(std::string_view text);

/// How long after one time another one is: of clocks without a date and of hours of one day, past midnight where it looks earlier. Nothing
/// where it is earlier, and where one is dated and the other is not.
[[nodiscard]] std::optional<Seconds> time_between(const LineTime& before, const LineTime& after);

}  // namespace rehearsal::predict
