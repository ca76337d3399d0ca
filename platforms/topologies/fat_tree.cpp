// Folded Clos network (k-ary n-tree; Petrini and Vanneschi, "k-ary n-trees", IPPS 1997) with destination-based
// up-routing, "d-mod-k" (Zahavi et al., J. Parallel Distrib. Comput. 72, 2012): a message climbs to the lowest
// level whose subtree holds both nodes, every climb choosing its link by the receiving card alone. Where switches route adaptively
// (InfiniBand's adaptive routing, packets sprayed over Ethernet) every climb takes whatever link is free: those of a subtree are one.

#include <algorithm>
#include <array>

#include "platforms/topologies/topology_rows.hpp"

namespace rehearsal::platforms {
namespace {

constexpr std::array kFatTreeParameters{
    ParameterRow{.key = "arity", .meaning = "nodes of a leaf switch; subtrees of every switch above", .low = 2, .high = 65536},
    ParameterRow{.key = "levels", .meaning = "levels of switches", .high = 8},
    ParameterRow{.key = "oversubscription", .meaning = "cards of a leaf over its links up", .high = 1024, .fallback = 1},
    kAdaptiveRouting,
    kAddingSwitches,
    kOtherTraffic,
};

/// Subtrees of level i (1 = leaf) hold arity^i nodes and have up(i) full-duplex links to level i + 1.
/// Number of a link: levels from below, in a level subtree by subtree, in a subtree first all up, then all down.
class FatTree final : public Network {
 public:
  FatTree(const Topology& topology, NetworkSize size) : link_(network_link(topology)) {
    const bool adaptive = parameter(topology, "adaptive") == 1;
    const auto arity = parameter(topology, "arity");
    const auto levels = parameter(topology, "levels");
    const auto oversubscription = parameter(topology, "oversubscription");
    std::int64_t nodes = 1;
    for (std::int64_t i = 1; i < levels; ++i) {
      nodes = saturated_product(nodes, arity);
      const auto up = std::max<std::int64_t>(1, nodes * size.ports / oversubscription);
      const auto lanes = adaptive ? 1 : up;
      levels_.push_back({nodes, lanes, count_, network_link(topology, static_cast<double>(up) / static_cast<double>(lanes))});
      count_ += static_cast<std::uint64_t>((size.nodes + nodes - 1) / nodes) * static_cast<std::uint64_t>(2 * lanes);
    }
    ports_ = size.ports;
  }

  [[nodiscard]] std::uint64_t link_count() const override { return count_; }
  [[nodiscard]] Link link(std::uint64_t link) const override { return levels_[level_of(link)].link; }

  [[nodiscard]] std::string link_name(std::uint64_t link) const override {
    const auto level = level_of(link);
    const auto ups = static_cast<std::uint64_t>(levels_[level].up);
    const auto local = link - levels_[level].first_link;
    const auto lane = local % (2 * ups);
    return "level" + std::to_string(level + 1) + ".switch" + std::to_string(local / (2 * ups)) + (lane < ups ? ".up" : ".down") +
           std::to_string(lane % ups);
  }

  void route(Endpoint from, Endpoint to, std::vector<std::uint32_t>& links) const override {
    const auto destination = to.node * ports_ + to.port;
    std::size_t climbs = 0;
    while (climbs < levels_.size() && from.node / levels_[climbs].nodes != to.node / levels_[climbs].nodes) ++climbs;
    for (std::size_t i = 0; i < climbs; ++i) links.push_back(number(i, from.node, destination % levels_[i].up));
    for (std::size_t i = climbs; i-- > 0;) links.push_back(number(i, to.node, levels_[i].up + destination % levels_[i].up));
  }

  [[nodiscard]] Seconds exit_latency() const override { return link_.latency; }

 private:
  struct Level {
    std::int64_t nodes;  ///< of one subtree
    std::int64_t up;     ///< links of one subtree to the level above; all as one where routing is adaptive
    std::uint64_t first_link;
    Link link;
  };

  [[nodiscard]] std::size_t level_of(std::uint64_t link) const {
    auto level = levels_.size() - 1;
    while (levels_[level].first_link > link) --level;
    return level;
  }

  [[nodiscard]] std::uint32_t number(std::size_t level, std::int64_t node, std::int64_t lane) const {
    const auto& at = levels_[level];
    return static_cast<std::uint32_t>(at.first_link + static_cast<std::uint64_t>(node / at.nodes * 2 * at.up + lane));
  }

  Link link_;
  std::vector<Level> levels_;
  std::uint64_t count_ = 0;
  std::int64_t ports_ = 1;
};

std::int64_t capacity_of_fat_tree(const Topology& topology) {
  std::int64_t nodes = 1;
  for (std::int64_t i = parameter(topology, "levels"); i > 0; --i) nodes = saturated_product(nodes, parameter(topology, "arity"));
  return nodes;
}

std::unique_ptr<Network> build_fat_tree(const Topology& topology, NetworkSize size) { return std::make_unique<FatTree>(topology, size); }

}  // namespace

constinit const TopologyRow kFatTree{.kind = "fat-tree",
                                     .meaning = "levels of switches, wider towards the root",
                                     .parameters = kFatTreeParameters,
                                     .has_links = true,
                                     .has_latency = true,
                                     .capacity = capacity_of_fat_tree,
                                     .build = build_fat_tree};

}  // namespace rehearsal::platforms
