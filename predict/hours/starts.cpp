#include "predict/hours/starts.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>

namespace rehearsal::predict {
namespace {

constexpr double kSecondsOfHour = 3600, kKilogramsOfGramHour = 1e-3 / 3.6e6;  // g/kWh to kg/J
constexpr double kQuartiles[] = {0.75, 0.5, 0.25};
constexpr double kLongest = 100;  // times its length: a training that is paused longer is told no way

/// The sum of hourly figures over any span, in hours; the first follows the last.
class Figures {
 public:
  explicit Figures(const std::vector<double>& hourly) : hourly_(hourly), until_(hourly.size() + 1, 0) {
    std::partial_sum(hourly.begin(), hourly.end(), until_.begin() + 1);
  }
  [[nodiscard]] double over(std::size_t from, double hours) const {
    return before(static_cast<double>(from) + hours) - before(static_cast<double>(from));
  }

 private:
  [[nodiscard]] double before(double hour) const {
    const auto n = static_cast<double>(hourly_.size());
    const double rounds = std::floor(hour / n), rest = hour - rounds * n;
    const auto whole = std::min(static_cast<std::size_t>(rest), hourly_.size() - 1);
    return rounds * until_.back() + until_[whole] + (rest - static_cast<double>(whole)) * hourly_[whole];
  }
  const std::vector<double>& hourly_;
  std::vector<double> until_;
};

class RegionStarts {
 public:
  RegionStarts(const RegionHours& region, std::size_t hours, const MovableTraining& training)
      : region_(region), hours_(hours), training_(training), carbon_(region.carbon), price_(region.price) {}

  std::vector<TimedStart> all() const {
    std::vector<TimedStart> ways{from(0, "now")};
    const auto best = [&](const char* rule, auto figure) {
      auto least = ways.front();
      for (std::size_t hour = 1; hour < hours_; ++hour)
        if (auto way = from(hour, rule); figure(way) < figure(least) * (1 - kEqual)) least = std::move(way);
      if (least.hour > 0) ways.push_back(std::move(least));
    };
    if (!region_.carbon.empty()) best("least carbon", [](const TimedStart& s) { return s.carbon_kg; });
    if (!region_.price.empty()) best("least cost", [](const TimedStart& s) { return s.cost.value(); });
    if (training_.pause) add_paused(ways);
    return ways;
  }

 private:
  static constexpr double kEqual = 1e-9;

  [[nodiscard]] double kilograms(std::size_t from, double hours) const {
    const double length = training_.length.value() / kSecondsOfHour;
    if (region_.carbon.empty()) return training_.kilograms * hours / length;
    return carbon_.over(from, hours) * kSecondsOfHour * training_.power.value() * kKilogramsOfGramHour;
  }
  [[nodiscard]] Dollars dollars(std::size_t from, double hours) const {
    const double length = training_.length.value() / kSecondsOfHour;
    return region_.price.empty() ? training_.money * (hours / length) : Dollars(price_.over(from, hours) * training_.devices);
  }

  [[nodiscard]] static Seconds after(std::size_t hours) { return Seconds(static_cast<double>(hours) * kSecondsOfHour); }

  [[nodiscard]] TimedStart from(std::size_t hour, const char* rule) const {
    const double length = training_.length.value() / kSecondsOfHour;
    return {region_.name, rule,
            hour,         after(hour),
            after(hour) + training_.length,
            0,            kilograms(hour, length),
            dollars(hour, length)};
  }

  void add_paused(std::vector<TimedStart>& ways) const {
    const auto& figures = region_.price.empty() ? region_.carbon : region_.price;
    auto sorted = figures;
    std::ranges::sort(sorted);
    for (const double quartile : kQuartiles) {
      const double limit = sorted[static_cast<std::size_t>(quartile * static_cast<double>(sorted.size() - 1))];
      auto way = paused_above(figures, limit);
      const bool told = way && std::ranges::any_of(ways, [&](const TimedStart& other) {
                          return other.finished == way->finished && other.pauses == way->pauses;
                        });
      if (way && way->pauses > 0 && !told) ways.push_back(std::move(*way));
    }
  }

  /// Nothing where it would not end in time.
  [[nodiscard]] std::optional<TimedStart> paused_above(const std::vector<double>& figures, double limit) const {
    TimedStart way{region_.name, rule_of(limit), 0, Seconds(0), Seconds(0), 0, 0, Dollars(0)};
    double left = training_.length.value() / kSecondsOfHour;
    const double again = training_.pause->value() / kSecondsOfHour, most = kLongest * left + static_cast<double>(hours_);
    bool runs = false, begun = false;
    for (std::size_t hour = 0; left > 0; ++hour) {
      if (static_cast<double>(hour) > most) return std::nullopt;
      if (figures[hour % hours_] > limit) {
        if (runs) ++way.pauses, left += again;
        runs = false;
        continue;
      }
      if (!begun) way.hour = hour, way.begins = after(hour);
      runs = begun = true;
      const double now = std::min(left, 1.0);
      left -= now;
      way.carbon_kg += kilograms(hour, now);
      way.cost += dollars(hour, now);
      way.finished = after(hour) + Seconds(now * kSecondsOfHour);
    }
    return way;
  }

  [[nodiscard]] std::string rule_of(double limit) const {
    char text[64];
    std::snprintf(text, sizeof text, region_.price.empty() ? "paused above %.4g g/kWh" : "paused above $%.4g/h", limit);
    return text;
  }

  const RegionHours& region_;
  std::size_t hours_;
  const MovableTraining& training_;
  Figures carbon_, price_;
};

}  // namespace

std::vector<TimedStart> timed_starts(const Hours& hours, const MovableTraining& training) {
  std::vector<TimedStart> all;
  for (const auto& region : hours.regions) {
    auto ways = RegionStarts(region, hours.names.size(), training).all();
    std::ranges::move(ways, std::back_inserter(all));
  }
  return all;
}

}  // namespace rehearsal::predict
