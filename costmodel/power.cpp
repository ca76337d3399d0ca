#include "costmodel/power.hpp"

#include <algorithm>
#include <cmath>

namespace rehearsal::costmodel {
namespace {

using C = Coefficient;
constexpr double kClipSharpness = 6;
constexpr int kNodeOfReference = 8;               // devices of the node that host_power_8 speaks of
constexpr double kGraphicsMemoryJoules = 60e-12;  // per byte of bandwidth: 7.5 pJ a bit of GDDR6, 7.25 of GDDR6X (Micron)
constexpr double kMostForMemory = 0.35;           // of what a board may draw above its rest; the T4 has most of the catalogue's, 0.32

bool older_than_volta(std::string_view generation) {
  return generation.starts_with("kepler") || generation.starts_with("maxwell") || generation.starts_with("pascal");
}

}  // namespace

double resting_power(const platforms::Device& d) {
  const bool graphics = d.memory_type.starts_with("GDDR");
  const double idle = d.idle_power.value.value(), above = std::max(0.0, d.busy_power.value.value() - idle);
  return idle + (graphics ? std::min(kGraphicsMemoryJoules * d.memory_bandwidth.value.value(), kMostForMemory * above) : 0);
}

double clock_under(double share, const Constants& c) {
  const double floor = c[C::ClockFloor];
  return share > floor ? std::cbrt(std::min(1.0, share)) : std::cbrt(floor) * share / floor;
}

double dynamic_power_at(double clock, const Constants& c) {
  const double floor = c[C::ClockFloor], knee = std::cbrt(floor);
  return clock > knee ? clock * clock * clock : floor * clock / knee;
}

double power_at(const platforms::Device& d, Activity a, double clock, const Constants& c) {
  const double rest = resting_power(d), most = std::max(rest, d.busy_power.value.value()), drawn = dynamic_power_at(clock, c);
  double share = std::min(1.0, drawn * (c[C::PowerBase] + c[C::PowerMatrix] * a.matrix / clock) + c[C::PowerMemory] * a.memory);
  if (older_than_volta(d.generation)) share *= c[C::PowerPascal];
  return rest + (most - rest) * share;
}

DevicePower device_power(const platforms::Device& d, Activity a, double limit_watts, const Constants& c) {
  const double rest = resting_power(d);
  DevicePower power{power_at(d, a, 1, c), 1};
  if (limit_watts <= 0) return power;
  // Kernels differ in what they draw: a limit clips those above it, and the others do not fill up what it leaves. Without a limit the
  // board's own has clipped already: a lower one takes its place.
  const auto clip = [](double watts) { return std::pow(watts, -kClipSharpness); };
  const double most = d.busy_power.value.value();
  const double held = std::pow(std::max(0.0, clip(power.watts) - clip(most)) + clip(std::min(limit_watts, most)), -1 / kClipSharpness);
  // Where the clock is in proportion to the power that is left.
  const double least = kLeastClock * c[C::ClockFloor] / std::cbrt(c[C::ClockFloor]);
  const double wanted = (held - rest) / (power.watts - rest), share_left = std::max(least, wanted);
  return {rest + (power.watts - rest) * share_left, 1 / clock_under(share_left, c), wanted < least};
}

double node_power(double device_watts, int devices, const Constants& c) {
  return devices * device_watts + c[C::HostPower8] * devices / kNodeOfReference;
}

}  // namespace rehearsal::costmodel
