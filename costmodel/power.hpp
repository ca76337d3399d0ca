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
  double slowdown = 1;  ///< of the device's clock under the limit, at least 1
};

/// idle + (TDP - idle) · min(1, base + a·matrix + b·memory). Under a limit (0: none) dynamic power falls with the cube of the clock until
/// the voltage reaches its floor, more steeply in time below it.
[[nodiscard]] DevicePower device_power(const platforms::Device&, Activity, double limit_watts, const Constants&);
/// Watts of a node at the plug: devices and everything else in it.
[[nodiscard]] double node_power(double device_watts, int devices, const Constants&);

}  // namespace rehearsal::costmodel
