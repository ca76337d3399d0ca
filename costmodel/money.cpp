#include "costmodel/money.hpp"

namespace rehearsal::costmodel {

JobCost job_cost(const platforms::Platform& platform, int ranks, Seconds time, Joules devices_energy) {
  JobCost cost;
  Joules energy = devices_energy;
  Dollars rent;
  int last_node = -1;
  for (int rank = 0; rank < ranks; ++rank) {
    const auto place = platforms::place(platform, rank);
    if (place.node == last_node) continue;
    last_node = place.node;
    const auto& node = platforms::node_of(platform, rank);
    energy += node.host_power.value * time;
    rent += node.price.value * time;
  }
  cost.energy = energy * platform.pue.value;
  cost.money = rent.value() > 0 ? rent : Dollars(cost.energy.value() * platform.electricity_price.value.value());
  cost.carbon_kg = cost.energy.value() * platform.carbon_intensity.value.value();
  return cost;
}

}  // namespace rehearsal::costmodel
