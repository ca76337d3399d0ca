#pragma once
// When and where a training emits and costs least, where a kWh and a device do not emit and cost the same all day.

#include <optional>
#include <string>
#include <vector>

#include "base/units.hpp"
#include "predict/hours/hours_file.hpp"

namespace rehearsal::predict {

/// A training, while it runs.
struct MovableTraining {
  Seconds length;
  Watts power;                   ///< at the meter, cooling included
  int devices = 1;               ///< that are paid for
  double kilograms = 0;          ///< of CO2 for the whole, where a region says no carbon
  Dollars money;                 ///< for the whole, where a region says no price
  std::optional<Seconds> pause;  ///< of training that a pause costs: what is done again, and starting anew; nothing: it cannot be paused
};

/// One way to have it.
struct TimedStart {
  std::string region, rule;  ///< rule: "now", "least carbon", "least cost", or "paused above 300 g/kWh"
  std::size_t line = 0;      ///< at which it begins, from the first of the file
  Seconds begins;            ///< the same as a time
  Seconds finished;          ///< from the beginning of the file's first line
  int pauses = 0;
  double carbon_kg = 0;
  Dollars cost;
};

/// For every region: at once; at the lines of the file at which it emits and costs least; and where it can be paused, at once but
/// standing still in lines whose price (carbon, where there is no price) is above their quartiles. Ways that are the same are told once.
[[nodiscard]] std::vector<TimedStart> timed_starts(const Hours&, const MovableTraining&);

}  // namespace rehearsal::predict
