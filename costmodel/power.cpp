#include "costmodel/power.hpp"

#include <algorithm>
#include <cmath>

namespace rehearsal::costmodel {
namespace {

using C = Coefficient;
constexpr double kLeastShare = 0.05;  // of dynamic power: no board runs below
constexpr int kNodeOfReference = 8;   // devices of the node that host_power_8 speaks of

bool older_than_volta(std::string_view generation) {
  return generation.starts_with("kepler") || generation.starts_with("maxwell") || generation.starts_with("pascal");
}

}  // namespace

DevicePower device_power(const platforms::Device& d, Activity a, double limit_watts, const Constants& c) {
  const double idle = d.idle_power.value.value(), most = d.busy_power.value.value();
  double share = std::min(1.0, c[C::PowerBase] + c[C::PowerMatrix] * a.matrix + c[C::PowerMemory] * a.memory);
  if (older_than_volta(d.generation)) share *= c[C::PowerPascal];
  DevicePower power{idle + (most - idle) * share, 1};
  if (limit_watts <= 0 || limit_watts >= power.watts) return power;
  const double x = std::max(kLeastShare, (limit_watts - idle) / (power.watts - idle)), floor = c[C::ClockFloor];
  const double clock = x > floor ? std::cbrt(x) : std::cbrt(floor) * std::pow(x / floor, c[C::ClockFloorExponent]);
  return {limit_watts, 1 / clock};
}

double node_power(double device_watts, int devices, const Constants& c) {
  return devices * device_watts + c[C::HostPower8] * devices / kNodeOfReference;
}

}  // namespace rehearsal::costmodel
