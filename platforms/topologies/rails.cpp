// Rails (NVIDIA's DGX SuperPOD reference architecture): cards of one place in their nodes meet at leaf switches of their own, so that
// devices of one number reach each other over one switch. Leaves are joined by spine switches, over which all others go, climbing by the
// receiving node (d-mod-k, as in a fat tree) or over whatever link is free.
//
// Without a spine (Wang, Ghobadi, Shakeri, Zhang, Hasani: Rail-only, arXiv:2307.12169) cards of different places do not reach each other:
// what is for a device of another number first goes inside the sending node to the one of that number (NCCL's PXN does so by itself).

#include <algorithm>
#include <array>

#include "base/error.hpp"
#include "platforms/topologies/topology_rows.hpp"

namespace rehearsal::platforms {
namespace {

constexpr std::array kRailsParameters{
    ParameterRow{.key = "nodes_per_leaf", .meaning = "nodes whose cards of one place meet at a leaf switch", .high = 65536},
    ParameterRow{.key = "groups", .meaning = "groups of nodes that have leaf switches of their own", .high = 65536, .fallback = 1},
    ParameterRow{.key = "spine",
                 .meaning = "1: leaf switches are joined; 0: rails do not meet, and devices forward inside their node",
                 .low = 0,
                 .high = 1,
                 .fallback = 1},
    ParameterRow{.key = "oversubscription", .meaning = "cards of a leaf over its links up", .high = 1024, .fallback = 1},
    kAdaptiveRouting,
    kAddingSwitches,
    kOtherTraffic,
};

/// Leaf of rail r in group g: g·P + r, of P places. Its links: all up, then all down.
class Rails final : public Network {
 public:
  Rails(const Topology& topology, NetworkSize size)
      : nodes_(parameter(topology, "nodes_per_leaf")),
        rails_(size.ports),
        leaves_((size.nodes + nodes_ - 1) / nodes_ * size.ports),
        has_spine_(parameter(topology, "spine") == 1) {
    const auto up = std::max<std::int64_t>(1, nodes_ / parameter(topology, "oversubscription"));
    lanes_ = parameter(topology, "adaptive") == 1 ? 1 : up;
    link_ = network_link(topology, static_cast<double>(up) / static_cast<double>(lanes_));
  }

  [[nodiscard]] std::uint64_t link_count() const override { return has_spine_ ? static_cast<std::uint64_t>(leaves_ * 2 * lanes_) : 0; }
  [[nodiscard]] Link link(std::uint64_t) const override { return link_; }

  [[nodiscard]] std::string link_name(std::uint64_t link) const override {
    const auto ups = static_cast<std::uint64_t>(lanes_), rails = static_cast<std::uint64_t>(rails_);
    const auto leaf = link / (2 * ups), lane = link % (2 * ups);
    return "group" + std::to_string(leaf / rails) + ".rail" + std::to_string(leaf % rails) + (lane < ups ? ".up" : ".down") +
           std::to_string(lane % ups);
  }

  void route(Endpoint from, Endpoint to, std::vector<std::uint32_t>& links) const override {
    const auto sending = leaf_of(from), receiving = leaf_of(to);
    if (sending == receiving) return;
    const auto lane = to.node % lanes_;
    links.push_back(static_cast<std::uint32_t>(sending * 2 * lanes_ + lane));
    links.push_back(static_cast<std::uint32_t>(receiving * 2 * lanes_ + lanes_ + lane));
  }

  [[nodiscard]] Seconds exit_latency() const override { return link_.latency; }
  [[nodiscard]] bool joins_places() const override { return has_spine_; }

 private:
  [[nodiscard]] std::int64_t leaf_of(Endpoint at) const { return at.node / nodes_ * rails_ + at.port; }

  Link link_;
  std::int64_t nodes_, rails_, leaves_, lanes_ = 1;
  bool has_spine_;
};

std::int64_t capacity_of_rails(const Topology& topology) {
  const auto groups = parameter(topology, "groups");
  if (groups > 1 && parameter(topology, "spine") == 0)
    throw BadInput("topology.groups: " + std::to_string(groups) + " groups of nodes cannot reach each other without a spine; use 1, or " +
                   "\"spine\": 1");
  return saturated_product(parameter(topology, "nodes_per_leaf"), groups);
}

std::unique_ptr<Network> build_rails(const Topology& topology, NetworkSize size) { return std::make_unique<Rails>(topology, size); }

}  // namespace

constinit const TopologyRow kRails{.kind = "rails",
                                   .meaning = "cards of one place in their nodes meet at switches of their own",
                                   .parameters = kRailsParameters,
                                   .has_links = true,
                                   .has_latency = true,
                                   .capacity = capacity_of_rails,
                                   .build = build_rails};

}  // namespace rehearsal::platforms
