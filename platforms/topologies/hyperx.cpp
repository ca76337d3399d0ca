// HyperX (Ahn, Binkert, Davis, McLaren, Schreiber, "HyperX: Topology, Routing, and Packaging of Efficient Large-Scale Networks", SC 2009):
// switches on a grid, every two that differ in one coordinate only joined by a bundle of cables; of one dimension a full mesh, of several
// with as many nodes a switch as switches along them a flattened butterfly (Kim, Dally, Abts, ISCA 2007). Routes are the shortest ones,
// dimension by dimension; where links are busy nothing goes round.

#include <array>

#include "base/error.hpp"
#include "platforms/topologies/topology_rows.hpp"

namespace rehearsal::platforms {
namespace {

constexpr std::array kHyperXParameters{
    ParameterRow{.key = "grid", .meaning = "switches along each dimension, innermost first", .high = 4096, .most = 6},
    ParameterRow{.key = "nodes_per_switch", .meaning = "nodes of a switch", .high = 4096},
    ParameterRow{.key = "width", .meaning = "parallel links between two switches", .high = 4096, .fallback = 1}, kOtherTraffic};

const std::vector<std::int64_t>& grid_of(const Topology& topology) {
  const auto found = topology.parameters.find("grid");
  if (found == topology.parameters.end() || found->second.empty()) throw BadInput("topology.grid: a hyperx needs it, for example [8, 8]");
  return found->second;
}

/// Switch s has a link to each coordinate of each dimension: s·(sum of all sizes) + (sizes of the dimensions before) + coordinate; those to
/// itself stay unused.
class HyperX final : public Network {
 public:
  explicit HyperX(const Topology& topology)
      : link_(network_link(topology, static_cast<double>(parameter(topology, "width")))),
        nodes_per_switch_(parameter(topology, "nodes_per_switch")),
        grid_(grid_of(topology)) {
    for (const auto size : grid_) switches_ *= size, ways_ += size;
  }

  [[nodiscard]] std::uint64_t link_count() const override { return static_cast<std::uint64_t>(switches_ * ways_); }
  [[nodiscard]] Link link(std::uint64_t) const override { return link_; }

  [[nodiscard]] std::string link_name(std::uint64_t link) const override {
    auto way = static_cast<std::int64_t>(link) % ways_;
    std::size_t dimension = 0;
    while (way >= grid_[dimension]) way -= grid_[dimension++];
    return "switch" + std::to_string(static_cast<std::int64_t>(link) / ways_) + ".dim" + std::to_string(dimension) + ".to" +
           std::to_string(way);
  }

  void route(Endpoint from, Endpoint to, std::vector<std::uint32_t>& links) const override {
    auto at = from.node / nodes_per_switch_;
    const auto target = to.node / nodes_per_switch_;
    std::int64_t stride = 1, first_way = 0;
    for (const auto size : grid_) {
      const auto here = at / stride % size, there = target / stride % size;
      if (here != there) links.push_back(static_cast<std::uint32_t>(at * ways_ + first_way + there));
      at += (there - here) * stride;
      stride *= size, first_way += size;
    }
  }

  [[nodiscard]] Seconds exit_latency() const override { return link_.latency; }

 private:
  Link link_;
  std::int64_t nodes_per_switch_;
  std::vector<std::int64_t> grid_;
  std::int64_t switches_ = 1, ways_ = 0;
};

std::int64_t capacity_of_hyperx(const Topology& topology) {
  std::int64_t nodes = parameter(topology, "nodes_per_switch");
  for (const auto size : grid_of(topology)) {
    nodes = saturated_product(nodes, size);
    if (nodes == kMostDevices) throw BadInput("topology.grid: more than " + std::to_string(kMostDevices) + " nodes");
  }
  return nodes;
}

std::unique_ptr<Network> build_hyperx(const Topology& topology, NetworkSize) { return std::make_unique<HyperX>(topology); }

}  // namespace

constinit const TopologyRow kHyperX{.kind = "hyperx",
                                    .meaning = "a grid of switches, all along a line joined to each other",
                                    .parameters = kHyperXParameters,
                                    .has_links = true,
                                    .has_latency = true,
                                    .capacity = capacity_of_hyperx,
                                    .build = build_hyperx};

}  // namespace rehearsal::platforms
