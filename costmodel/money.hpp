#pragma once
// What a duration on a platform costs in energy, money and carbon.

#include "base/units.hpp"
#include "platforms/platform.hpp"

namespace rehearsal::costmodel {

struct JobCost {
  Joules energy;  ///< at the meter: devices, hosts of the nodes in use, times PUE
  Dollars money;  ///< whole nodes are paid for; electricity where the platform says its price and nodes have none
  double carbon_kg = 0;
};

/// `devices_energy`: of all devices (and links) that the job uses, during `time`. Nodes that hold one of the first `ranks` devices count
/// whole.
[[nodiscard]] JobCost job_cost(const platforms::Platform&, int ranks, Seconds time, Joules devices_energy);

}  // namespace rehearsal::costmodel
