#include "costmodel/money.hpp"

#include <algorithm>

namespace rehearsal::costmodel {

JobCost job_cost(const platforms::Platform& platform, int ranks, Seconds time, Joules devices_energy) {
  JobCost cost;
  Joules energy = devices_energy;
  Dollars rent;
  for (const auto& nodes : platform.nodes) {
    if (ranks <= 0) break;
    const int own = std::min(nodes.count, (ranks + nodes.devices - 1) / nodes.devices);
    energy += nodes.host_power.value * time * own;
    rent += nodes.price.value * time * own;
    ranks -= own * nodes.devices;
  }
  cost.energy = energy * platform.pue.value;
  cost.money = rent.value() > 0 ? rent : Dollars(cost.energy.value() * platform.electricity_price.value.value());
  cost.carbon_kg = cost.energy.value() * platform.carbon_intensity.value.value();
  return cost;
}

}  // namespace rehearsal::costmodel
