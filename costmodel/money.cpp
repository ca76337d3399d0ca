#include "costmodel/money.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <vector>

#include "base/error.hpp"
#include "base/join.hpp"

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

int paid_devices(const platforms::Platform& platform, int ranks) {
  int paid = 0;
  for (const auto& nodes : platform.nodes) {
    const int own = std::min(nodes.count, (std::max(0, ranks - paid) + nodes.devices - 1) / nodes.devices);
    paid += own * nodes.devices;
  }
  return paid;
}

namespace {

bool is_rented(const platforms::NodeGroup& node) { return node.price.value.value() > 0; }

/// Of every kind of nodes once; electricity where none has a price.
std::vector<std::string> bases_of(const platforms::Platform& platform) {
  std::vector<std::string> bases;
  for (const auto& node : platform.nodes)
    if (const auto basis = to_text(node.price_basis); is_rented(node) && std::ranges::find(bases, basis) == bases.end())
      bases.push_back(basis);
  if (bases.empty()) bases.emplace_back("electricity alone");
  return bases;
}

}  // namespace

std::string mixed_price_bases(std::span<const platforms::Platform* const> compared) {
  std::vector<std::string> bases;
  for (const auto* platform : compared) bases.push_back(joined(bases_of(*platform), " and "));
  const bool alike = std::ranges::adjacent_find(bases, std::ranges::not_equal_to{}) == bases.end();
  if (alike) return {};
  std::string said;
  for (std::size_t n = 0; n < bases.size(); ++n) said += (n == 0 ? "" : "; ") + compared[n]->name + ": " + bases[n];
  return "prices are not on one basis (" + said +
         "), so money compares sellers and years as much as machines; --price X is one price for all";
}

std::string price_basis(const platforms::Platform& platform, std::string_view paid) {
  std::vector<std::string> rents;
  for (const auto& node : platform.nodes)
    if (is_rented(node))
      rents.push_back(
          with_source(to_exact_text(node.price.value) + " for a node of " + std::to_string(node.devices) + ", " + to_text(node.price_basis),
                      node.price));
  if (!rents.empty()) return joined(rents, "; ") + "; " + std::string(paid);
  if (platform.electricity_price.value.value() > 0)
    return "electricity alone: " + with_source(to_exact_text(platform.electricity_price.value), platform.electricity_price) +
           "; the platform says no price of its nodes (--price X)";
  return "nothing: the platform says no price of its nodes or of electricity (--price X)";
}

namespace {

void check(const char* option, const std::optional<double>& value, double least, double most) {
  if (!value || (*value >= least && *value <= most)) return;
  throw BadInput(option, "must be from " + joined(std::array{least, most}, " to ", [](double x) {
                           auto text = std::to_string(x);
                           return text.erase(text.find_last_not_of('0') + 1).ends_with('.') ? text.substr(0, text.size() - 1) : text;
                         }));
}

}  // namespace

platforms::Platform with_costs(platforms::Platform platform, const CostOverrides& o) {
  constexpr double kHighestPrice = 1e6, kHighestPue = 10, kMostCarbon = 1e4, kGramsPerKilowattHour = 1e-3 / 3.6e6;
  if (const auto price = o.dollars_per_device_hour; price && !(*price > 0 && *price <= kHighestPrice))
    throw BadInput("--price", "must be above 0 and at most 1000000; leave it out for the price that the platform says");
  check("--pue", o.pue, 1, kHighestPue);
  check("--carbon", o.grams_per_kilowatt_hour, 0, kMostCarbon);
  if (o.dollars_per_device_hour)
    for (auto& node : platform.nodes) {
      node.price = {DollarsPerHour(*o.dollars_per_device_hour * node.devices), "--price"};
      node.price_basis = {};
    }
  if (o.pue) platform.pue = {*o.pue, "--pue"};
  if (o.grams_per_kilowatt_hour)
    platform.carbon_intensity = {KilogramsPerJoule(*o.grams_per_kilowatt_hour * kGramsPerKilowattHour), "--carbon"};
  return platform;
}

}  // namespace rehearsal::costmodel
