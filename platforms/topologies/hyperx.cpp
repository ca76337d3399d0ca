// HyperX (Ahn, Binkert, Davis, McLaren, Schreiber, "HyperX: Topology, Routing, and Packaging of Efficient Large-Scale Networks", SC 2009):
// switches on a grid, every two that differ in one coordinate only joined by a bundle of cables; of one dimension a full mesh, of several
// with as many nodes a switch as switches along them a flattened butterfly (Kim, Dally, Abts, ISCA 2007). Routes are the shortest ones,
// dimension by dimension; where routing is adaptive, messages go round by a third switch of a dimension whose links are busy, which the
// authors call DAL (section 4).

#include <array>

#include "base/error.hpp"
#include "platforms/topologies/topology_rows.hpp"

namespace rehearsal::platforms {
namespace {

constexpr std::array kHyperXParameters{
    ParameterRow{.key = "grid", .meaning = "switches along each dimension, innermost first", .high = 4096, .most = 6},
    ParameterRow{.key = "nodes_per_switch", .meaning = "nodes of a switch", .high = 4096},
    ParameterRow{.key = "width", .meaning = "parallel links between two switches", .high = 4096, .fallback = 1}, kAdaptiveRouting,
    kOtherTraffic};

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

/// Links 2(s·D + d) and 2(s·D + d) + 1: out of switch s to all others along dimension d of D, and into it from them.
class AdaptiveHyperX final : public Network {
 public:
  explicit AdaptiveHyperX(const Topology& topology) : nodes_per_switch_(parameter(topology, "nodes_per_switch")), grid_(grid_of(topology)) {
    for (const auto size : grid_) {
      switches_ *= size;
      of_dimension_.push_back(network_link(topology, links_with_detours(size, parameter(topology, "width"))));
    }
  }

  [[nodiscard]] std::uint64_t link_count() const override { return 2 * static_cast<std::uint64_t>(switches_) * grid_.size(); }
  /// The shortest way crosses a switch a hop, which is counted on the way out.
  [[nodiscard]] Link link(std::uint64_t link) const override {
    Link which = of_dimension_[link / 2 % grid_.size()];
    if (link % 2 == 1) which.latency = Seconds(0);
    return which;
  }
  [[nodiscard]] std::string link_name(std::uint64_t link) const override {
    const auto place = link / 2;
    return "switch" + std::to_string(place / grid_.size()) + ".dim" + std::to_string(place % grid_.size()) +
           (link % 2 == 0 ? ".out" : ".in");
  }
  void route(Endpoint from, Endpoint to, std::vector<std::uint32_t>& links) const override {
    auto at = from.node / nodes_per_switch_;
    const auto target = to.node / nodes_per_switch_;
    std::int64_t stride = 1;
    for (std::size_t d = 0; d < grid_.size(); stride *= grid_[d], ++d) {
      const auto here = at / stride % grid_[d], there = target / stride % grid_[d];
      if (here == there) continue;
      links.push_back(out_of(at, d));
      at += (there - here) * stride;
      links.push_back(out_of(at, d) + 1);
    }
  }
  [[nodiscard]] Seconds exit_latency() const override { return of_dimension_[0].latency; }

 private:
  [[nodiscard]] std::uint32_t out_of(std::int64_t at, std::size_t dimension) const {
    return static_cast<std::uint32_t>(2 * (static_cast<std::size_t>(at) * grid_.size() + dimension));
  }

  std::vector<Link> of_dimension_;
  std::int64_t nodes_per_switch_;
  std::vector<std::int64_t> grid_;
  std::int64_t switches_ = 1;
};

std::int64_t capacity_of_hyperx(const Topology& topology) {
  std::int64_t nodes = parameter(topology, "nodes_per_switch");
  for (const auto size : grid_of(topology)) {
    nodes = saturated_product(nodes, size);
    if (nodes == kMostDevices) throw BadInput("topology.grid: more than " + std::to_string(kMostDevices) + " nodes");
  }
  return nodes;
}

std::unique_ptr<Network> build_hyperx(const Topology& topology, NetworkSize) {
  if (parameter(topology, "adaptive") == 1) return std::make_unique<AdaptiveHyperX>(topology);
  return std::make_unique<HyperX>(topology);
}

}  // namespace

constinit const TopologyRow kHyperX{.kind = "hyperx",
                                    .meaning = "a grid of switches, all along a line joined to each other",
                                    .parameters = kHyperXParameters,
                                    .has_links = true,
                                    .has_latency = true,
                                    .capacity = capacity_of_hyperx,
                                    .build = build_hyperx};

}  // namespace rehearsal::platforms
