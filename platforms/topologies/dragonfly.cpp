// Dragonfly (Kim, Dally, Scott, Abts, "Technology-Driven, Highly-Scalable Dragonfly Topology", ISCA 2008). Routers of a group are fully
// connected; every pair of groups has one bundle of cables, dealt to the routers in turn ("palm tree" order).
//
// Minimal routing takes at most one hop inside the sender's group, one between groups, one inside the receiver's group: all that two
// routers, or two groups, say to each other goes over the one link that they share. Adaptive routing (Slingshot, Aries) goes round by a
// third router or group where that link is busy (section 4 of Kim et al.).

#include <array>

#include "platforms/topologies/topology_rows.hpp"

namespace rehearsal::platforms {
namespace {

constexpr std::array kDragonflyParameters{
    ParameterRow{.key = "groups", .meaning = "groups of routers", .high = 65536},
    ParameterRow{.key = "routers", .meaning = "routers of a group", .high = 4096},
    ParameterRow{.key = "nodes_per_router", .meaning = "nodes of a router", .high = 4096},
    ParameterRow{.key = "local_width", .meaning = "parallel links between two routers of a group", .high = 4096, .fallback = 1},
    ParameterRow{.key = "global_width", .meaning = "parallel links between two groups", .high = 65536, .fallback = 1},
    kAdaptiveRouting,
    kOtherTraffic,
};

/// Local link from router a to b of group g: (g·R + a)·R + b (a = b stays unused).
/// Global links follow: from group g to h: g·G + h.
class Dragonfly final : public Network {
 public:
  explicit Dragonfly(const Topology& topology)
      : groups_(parameter(topology, "groups")),
        routers_(parameter(topology, "routers")),
        nodes_(parameter(topology, "nodes_per_router")),
        local_(network_link(topology, static_cast<double>(parameter(topology, "local_width")))),
        global_(network_link(topology, static_cast<double>(parameter(topology, "global_width")))) {}

  [[nodiscard]] std::uint64_t link_count() const override { return locals() + static_cast<std::uint64_t>(groups_ * groups_); }
  [[nodiscard]] Link link(std::uint64_t link) const override { return link < locals() ? local_ : global_; }

  [[nodiscard]] std::string link_name(std::uint64_t link) const override {
    const auto routers = static_cast<std::uint64_t>(routers_);
    const auto groups = static_cast<std::uint64_t>(groups_);
    if (link >= locals())
      return "group" + std::to_string((link - locals()) / groups) + ".to-group" + std::to_string((link - locals()) % groups);
    return "group" + std::to_string(link / routers / routers) + ".router" + std::to_string(link / routers % routers) + ".to-router" +
           std::to_string(link % routers);
  }

  void route(Endpoint from, Endpoint to, std::vector<std::uint32_t>& links) const override {
    const auto source = from.node / nodes_;
    const auto target = to.node / nodes_;
    const auto source_group = source / routers_;
    const auto target_group = target / routers_;
    if (source_group == target_group) return local_hop(source_group, source % routers_, target % routers_, links);
    local_hop(source_group, source % routers_, gateway(source_group, target_group), links);
    links.push_back(static_cast<std::uint32_t>(locals() + static_cast<std::uint64_t>(source_group * groups_ + target_group)));
    local_hop(target_group, gateway(target_group, source_group), target % routers_, links);
  }

  [[nodiscard]] Seconds exit_latency() const override { return local_.latency; }

 private:
  [[nodiscard]] std::uint64_t locals() const { return static_cast<std::uint64_t>(groups_ * routers_ * routers_); }
  /// Router of group `from` that holds the cables to group `to`.
  [[nodiscard]] std::int64_t gateway(std::int64_t from, std::int64_t to) const { return (to - from - 1 + groups_) % groups_ % routers_; }
  void local_hop(std::int64_t group, std::int64_t a, std::int64_t b, std::vector<std::uint32_t>& links) const {
    if (a != b) links.push_back(static_cast<std::uint32_t>((group * routers_ + a) * routers_ + b));
  }

  std::int64_t groups_, routers_, nodes_;
  Link local_, global_;
};

/// Links 2r and 2r + 1: out of router r and into it, of all groups; behind them those of groups.
class AdaptiveDragonfly final : public Network {
 public:
  explicit AdaptiveDragonfly(const Topology& topology)
      : groups_(parameter(topology, "groups")),
        routers_(parameter(topology, "routers")),
        nodes_(parameter(topology, "nodes_per_router")),
        local_(network_link(topology, links_with_detours(routers_, parameter(topology, "local_width")))),
        global_(network_link(topology, links_with_detours(groups_, parameter(topology, "global_width")))) {}

  [[nodiscard]] std::uint64_t link_count() const override { return locals() + static_cast<std::uint64_t>(2 * groups_); }
  /// The shortest way crosses a switch a hop: hops inside a group are counted on the way out, those between groups on both.
  [[nodiscard]] Link link(std::uint64_t link) const override {
    Link which = link < locals() ? local_ : global_;
    if (link < locals() && link % 2 == 1) which.latency = Seconds(0);
    return which;
  }
  [[nodiscard]] std::string link_name(std::uint64_t link) const override {
    const std::string way = link % 2 == 0 ? ".out" : ".in";
    if (link >= locals()) return "group" + std::to_string((link - locals()) / 2) + way;
    const auto routers = static_cast<std::uint64_t>(routers_);
    return "group" + std::to_string(link / 2 / routers) + ".router" + std::to_string(link / 2 % routers) + way;
  }
  void route(Endpoint from, Endpoint to, std::vector<std::uint32_t>& links) const override {
    const auto source = from.node / nodes_, target = to.node / nodes_;
    if (source == target) return;
    const auto source_group = source / routers_, target_group = target / routers_;
    if (routers_ > 1) links.push_back(static_cast<std::uint32_t>(2 * source));
    if (source_group != target_group) {
      links.push_back(static_cast<std::uint32_t>(locals()) + static_cast<std::uint32_t>(2 * source_group));
      links.push_back(static_cast<std::uint32_t>(locals()) + static_cast<std::uint32_t>(2 * target_group + 1));
    }
    if (routers_ > 1) links.push_back(static_cast<std::uint32_t>(2 * target + 1));
  }
  [[nodiscard]] Seconds exit_latency() const override { return local_.latency; }

 private:
  [[nodiscard]] std::uint64_t locals() const { return static_cast<std::uint64_t>(2 * groups_ * routers_); }

  std::int64_t groups_, routers_, nodes_;
  Link local_, global_;
};

std::int64_t capacity_of_dragonfly(const Topology& topology) {
  return saturated_product(saturated_product(parameter(topology, "groups"), parameter(topology, "routers")),
                           parameter(topology, "nodes_per_router"));
}

std::unique_ptr<Network> build_dragonfly(const Topology& topology, NetworkSize) {
  if (parameter(topology, "adaptive") == 1) return std::make_unique<AdaptiveDragonfly>(topology);
  return std::make_unique<Dragonfly>(topology);
}

}  // namespace

constinit const TopologyRow kDragonfly{.kind = "dragonfly",
                                       .meaning = "fully connected groups of fully connected routers",
                                       .parameters = kDragonflyParameters,
                                       .has_links = true,
                                       .has_latency = true,
                                       .capacity = capacity_of_dragonfly,
                                       .build = build_dragonfly};

}  // namespace rehearsal::platforms
