#pragma once
// What a device draws by what it does, and how much slower it runs under a limit of power.

#include "costmodel/constants.hpp"
#include "platforms/platform.hpp"

namespace rehearsal::costmodel {

/// Shares of time that matrix arithmetic and element-wise traffic are busy, 0 to 1.
struct Activity {
  double matrix = 0, memory = 0;
};
struct DevicePower {
  double watts = 0;
  double slowdown = 1;    ///< of the device's clock under the limit, at least 1
  bool at_least = false;  ///< the limit asks for a lower clock than kLeastClock, at which the board stays
};

/// Least share of its clock at which a board runs.
inline constexpr double kLeastClock = 0.3;

/// Watts of a board whose clocks are up and that computes nothing. HBM boards idle at full clocks; GDDR at full clock draws its energy per
/// bit whether it is read or not (an A40 goes from 30 to 110 W when a process holds it: NVIDIA/open-gpu-kernel-modules issue 874).
[[nodiscard]] double resting_power(const platforms::Device&);
/// Clock, as a share of the one without a limit, at which a share of the dynamic power is left: its cube root, since voltage falls with the
/// clock, down to the least voltage; below it in proportion.
[[nodiscard]] double clock_under(double share_of_dynamic_power, const Constants&);
/// The inverse: the share of the dynamic power that is drawn at a share of the clock.
[[nodiscard]] double dynamic_power_at(double clock, const Constants&);
/// rest + (TDP - rest) · min(1, base + a·matrix + b·memory), and under a limit (0: none) the clock that keeps it. Boards do not go below
/// kLeastClock: they draw more than a lower limit allows.
[[nodiscard]] DevicePower device_power(const platforms::Device&, Activity, double limit_watts, const Constants&);
/// Watts of a device at a share of its clock. `a`: shares of a step in which it would be busy at its own clock. Arithmetic takes longer by
/// the clock; bytes, whose memory keeps its own, draw what they drew.
[[nodiscard]] double power_at(const platforms::Device&, Activity a, double clock, const Constants&);
/// Watts of a node at the plug: devices and everything else in it.
[[nodiscard]] double node_power(double device_watts, int devices, const Constants&);

}  // namespace rehearsal::costmodel
