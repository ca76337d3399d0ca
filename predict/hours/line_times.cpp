#include "predict/hours/line_times.hpp"

#include <chrono>
#include <cmath>

#include "base/parse_number.hpp"

namespace rehearsal::predict {
namespace {

constexpr double kMinute = 60, kHour = 3600, kDay = 24 * kHour;
constexpr double kLatestHour = 100000;  // eleven years: what is later is no hour

/// The digits that `text` begins with, which it loses with the sign behind them; `most` is the largest number that they may be.
std::optional<int> take(std::string_view& text, std::string_view sign, int most) {
  const auto digits = text.substr(0, text.find_first_not_of("0123456789"));
  const auto number = parse_number<int>(digits);
  if (!number || *number > most || !text.substr(digits.size()).starts_with(sign)) return std::nullopt;
  text.remove_prefix(digits.size() + sign.size());
  return number;
}

/// "07:00", "07:00:30"; what follows is left.
std::optional<double> take_clock(std::string_view& text) {
  const auto hours = take(text, ":", 24), minutes = hours ? take(text, "", 59) : std::nullopt;
  if (!minutes) return std::nullopt;
  double seconds = *hours * kHour + *minutes * kMinute;
  if (!text.starts_with(':')) return seconds;
  text.remove_prefix(1);
  const auto rest = take(text, "", 60);
  if (!rest) return std::nullopt;
  seconds += *rest;
  return seconds;
}

/// "2025-07-01" and a sign between date and time.
std::optional<double> take_date(std::string_view& text) {
  constexpr int kLastYear = 9999, kMonths = 12, kDays = 31;
  const auto year = take(text, "-", kLastYear), month = year ? take(text, "-", kMonths) : std::nullopt,
             day = month ? take(text, "", kDays) : std::nullopt;
  if (!day || !(text.starts_with(' ') || text.starts_with('T'))) return std::nullopt;
  text.remove_prefix(1);
  const std::chrono::year_month_day date(std::chrono::year(*year), std::chrono::month(static_cast<unsigned>(*month)),
                                         std::chrono::day(static_cast<unsigned>(*day)));
  if (!date.ok()) return std::nullopt;
  return static_cast<double>(std::chrono::sys_days(date).time_since_epoch().count()) * kDay;
}

/// "", "Z", "+02:00": what the clock is ahead.
std::optional<double> offset_of(std::string_view text) {
  if (text.empty() || text == "Z") return 0;
  const bool behind = text.front() == '-';
  if (!behind && text.front() != '+') return std::nullopt;
  text.remove_prefix(1);
  const auto clock = take_clock(text);
  if (!clock || !text.empty()) return std::nullopt;
  return behind ? -*clock : *clock;
}

}  // namespace

std::optional<LineTime> time_of_line(std::string_view text) {
  if (const auto hours = parse_number<double>(text); hours && std::fabs(*hours) <= kLatestHour) return LineTime{Seconds(*hours * kHour), false};
  const bool dated = text.find('-') == 4;
  const auto date = dated ? take_date(text) : std::optional(0.0);
  const auto clock = date ? take_clock(text) : std::nullopt;
  const auto offset = clock ? offset_of(text) : std::nullopt;
  if (!offset) return std::nullopt;
  return LineTime{Seconds(*date + *clock - *offset), dated};
}

std::optional<Seconds> time_between(const LineTime& before, const LineTime& after) {
  if (before.dated != after.dated) return std::nullopt;
  const double between = (after.since - before.since).value();
  if (between > 0) return Seconds(between);
  const bool of_one_day = !before.dated && before.since.value() < kDay && after.since.value() >= 0;
  return of_one_day && between < 0 ? std::optional(Seconds(between + kDay)) : std::nullopt;
}

}  // namespace rehearsal::predict
