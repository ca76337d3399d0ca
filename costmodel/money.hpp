#pragma once
// What a duration on a platform costs in energy, money and carbon.

#include <optional>
#include <span>
#include <string>
#include <string_view>

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

/// Devices of the nodes that hold one of the first `ranks`.
[[nodiscard]] int paid_devices(const platforms::Platform&, int ranks);

/// What money is reckoned by, in words: "98.32 $/h for a node of 8, on demand, AWS, 2023 to 2025 (p5.48xlarge); nodes in use are paid
/// whole". `paid`: which nodes are, and how long; job_cost() pays those in use.
[[nodiscard]] std::string price_basis(const platforms::Platform&, std::string_view paid = "nodes in use are paid whole");

/// Why money does not compare these platforms alone: their prices are on different terms, of different sellers or years. Empty where they
/// are not.
[[nodiscard]] std::string mixed_price_bases(std::span<const platforms::Platform* const> compared);

/// Figures that stand over those of a platform, whatever their source.
struct CostOverrides {
  std::optional<double> dollars_per_device_hour, pue, grams_per_kilowatt_hour;
};
/// Throws BadInput naming the option when a figure is out of bounds.
[[nodiscard]] platforms::Platform with_costs(platforms::Platform, const CostOverrides&);

}  // namespace rehearsal::costmodel
