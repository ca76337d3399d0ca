#pragma once
// When the lines of a file begin, as their first column says it.

#include <optional>
#include <string_view>

#include "base/units.hpp"

namespace rehearsal::predict {

/// Since the first of an unnamed day, or since 1970 where there is a date: "7" (hours), "7:00", "07:00:00", "2025-07-01 07:00",
/// "2025-07-01T07:00:00+02:00". Nothing for other texts.
[[nodiscard]] std::optional<Seconds> time_of_line(std::string_view text);

}  // namespace rehearsal::predict
