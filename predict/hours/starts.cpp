#include "predict/hours/starts.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>

namespace rehearsal::predict {
namespace {

constexpr double kKilogramsOfGramHour = 1e-3 / 3.6e6;  // g/kWh to kg/J
constexpr double kQuartiles[] = {0.75, 0.5, 0.25};
constexpr double kLongest = 100;  // times its length: a training that is paused longer is told no way

/// The sum of a figure over any span, in lines of the file; the first follows the last.
class Figures {
 public:
  explicit Figures(const std::vector<double>& lines) : lines_(lines), until_(lines.size() + 1, 0) {
    std::partial_sum(lines.begin(), lines.end(), until_.begin() + 1);
  }
  [[nodiscard]] double over(std::size_t from, double lines) const {
    return before(static_cast<double>(from) + lines) - before(static_cast<double>(from));
  }

 private:
  [[nodiscard]] double before(double line) const {
    const auto n = static_cast<double>(lines_.size());
    const double rounds = std::floor(line / n), rest = line - rounds * n;
    const auto whole = std::min(static_cast<std::size_t>(rest), lines_.size() - 1);
    return rounds * until_.back() + until_[whole] + (rest - static_cast<double>(whole)) * lines_[whole];
  }
  const std::vector<double>& lines_;
  std::vector<double> until_;
};

class RegionStarts {
 public:
  RegionStarts(const RegionHours& region, const Hours& hours, const MovableTraining& training)
      : region_(region),
        lines_(hours.names.size()),
        line_(hours.line),
        length_(training.length / hours.line),
        training_(training),
        carbon_(region.carbon),
        price_(region.price) {}

  std::vector<TimedStart> all() const {
    std::vector<TimedStart> ways{from(0, "now")};
    const auto best = [&](const char* rule, auto figure) {
      auto least = ways.front();
      for (std::size_t line = 1; line < lines_; ++line)
        if (auto way = from(line, rule); figure(way) < figure(least) * (1 - kEqual)) least = std::move(way);
      if (least.line > 0) ways.push_back(std::move(least));
    };
    if (!region_.carbon.empty()) best("least carbon", [](const TimedStart& s) { return s.carbon_kg; });
    if (!region_.price.empty()) best("least cost", [](const TimedStart& s) { return s.cost.value(); });
    if (training_.pause) add_paused(ways);
    return ways;
  }

 private:
  static constexpr double kEqual = 1e-9;

  [[nodiscard]] double kilograms(std::size_t from, double lines) const {
    if (region_.carbon.empty()) return training_.kilograms * lines / length_;
    return carbon_.over(from, lines) * line_.value() * training_.power.value() * kKilogramsOfGramHour;
  }
  [[nodiscard]] Dollars dollars(std::size_t from, double lines) const {
    if (region_.price.empty()) return training_.money * (lines / length_);
    return DollarsPerHour(price_.over(from, lines) * training_.devices) * line_;
  }

  [[nodiscard]] Seconds after(std::size_t lines) const { return line_ * static_cast<double>(lines); }

  [[nodiscard]] TimedStart from(std::size_t line, const char* rule) const {
    return {region_.name, rule, line, after(line), after(line) + training_.length, 0, kilograms(line, length_), dollars(line, length_)};
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
    double left = length_;
    const double again = *training_.pause / line_, most = kLongest * left + static_cast<double>(lines_);
    bool runs = false, begun = false;
    for (std::size_t line = 0; left > 0; ++line) {
      if (static_cast<double>(line) > most) return std::nullopt;
      if (figures[line % lines_] > limit) {
        if (runs) ++way.pauses, left += again;
        runs = false;
        continue;
      }
      if (!begun) way.line = line, way.begins = after(line);
      runs = begun = true;
      const double now = std::min(left, 1.0);
      left -= now;
      way.carbon_kg += kilograms(line, now);
      way.cost += dollars(line, now);
      way.finished = after(line) + line_ * now;
    }
    return way;
  }

  [[nodiscard]] std::string rule_of(double limit) const {
    char text[64];
    std::snprintf(text, sizeof text, region_.price.empty() ? "paused above %.4g g/kWh" : "paused above $%.4g/h", limit);
    return text;
  }

  const RegionHours& region_;
  std::size_t lines_;
  Seconds line_;   ///< how long one stands
  double length_;  ///< of the training, in lines
  const MovableTraining& training_;
  Figures carbon_, price_;
};

}  // namespace

std::vector<TimedStart> timed_starts(const Hours& hours, const MovableTraining& training) {
  std::vector<TimedStart> all;
  for (const auto& region : hours.regions) {
    auto ways = RegionStarts(region, hours, training).all();
    std::ranges::move(ways, std::back_inserter(all));
  }
  return all;
}

}  // namespace rehearsal::predict
