#include <algorithm>

#include "base/error.hpp"
#include "base/join.hpp"
#include "base/names.hpp"
#include "platforms/topologies/topology_rows.hpp"
#include "platforms/topology.hpp"

namespace rehearsal::platforms {

std::span<const TopologyRow* const> topology_rows() { return kTopologies; }

const TopologyRow* find_topology(std::string_view kind) {
  const auto name = find_name(kind, names_of_rows(kTopologies, &TopologyRow::kind));
  return name ? *std::ranges::find(kTopologies, *name, &TopologyRow::kind) : nullptr;
}

const TopologyRow& topology_row(std::string_view kind) {
  if (const auto* row = find_topology(kind)) return *row;
  throw BadInput("topology.kind: there is no topology \"" + std::string(kind) + "\"" +
                 suggestion(kind, names_of_rows(kTopologies, &TopologyRow::kind)) + " There are " +
                 joined(kTopologies, ", ", &TopologyRow::kind));
}

std::int64_t parameter(const Topology& topology, std::string_view key) {
  if (const auto found = topology.parameters.find(key); found != topology.parameters.end() && !found->second.empty())
    return found->second.front();
  for (const auto& row : topology_row(topology.kind).parameters)
    if (row.key == key && row.fallback) return *row.fallback;
  throw BadInput("topology." + std::string(key) + ": a " + topology.kind + " needs it");
}

std::int64_t saturated_product(std::int64_t a, std::int64_t b) {
  if (a == 0 || b == 0) return 0;
  return a > kMostDevices / b ? kMostDevices : a * b;
}

Link network_link(const Topology& topology, double width) {
  const double left = 1 - static_cast<double>(parameter(topology, kOtherTraffic.key)) / 100;
  return {*topology.bandwidth * (width * left), *topology.latency, *topology.idle_power * width, *topology.busy_power * width,
          LinkRole::Network};
}

}  // namespace rehearsal::platforms
