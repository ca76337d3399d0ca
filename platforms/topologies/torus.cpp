// k-ary n-cube with one router per node and dimension-ordered shortest routing (Dally and Seitz, IEEE Trans. Comput. C-36, 1987).
// Where both ways round are equally long, the increasing one is taken.

#include <array>

#include "base/error.hpp"
#include "platforms/topologies/topology_rows.hpp"

namespace rehearsal::platforms {
namespace {

constexpr std::array kTorusParameters{
    ParameterRow{.key = "dims", .meaning = "nodes along each dimension, innermost first", .high = 65536, .most = 6}, kOtherTraffic};

const std::vector<std::int64_t>& dims_of(const Topology& topology) {
  const auto found = topology.parameters.find("dims");
  if (found == topology.parameters.end() || found->second.empty()) throw BadInput("topology.dims: a torus needs it, for example [4, 4, 4]");
  return found->second;
}

/// Link (node, dimension, direction) has number (node·D + dimension)·2 + (0 increasing, 1 decreasing).
class Torus final : public Network {
 public:
  explicit Torus(const Topology& topology) : link_(network_link(topology)), dims_(dims_of(topology)) {
    for (const auto dim : dims_) nodes_ *= static_cast<std::uint64_t>(dim);
  }

  [[nodiscard]] std::uint64_t link_count() const override { return nodes_ * dims_.size() * 2; }
  [[nodiscard]] Link link(std::uint64_t) const override { return link_; }

  [[nodiscard]] std::string link_name(std::uint64_t link) const override {
    return "router" + std::to_string(link / 2 / dims_.size()) + ".dim" + std::to_string(link / 2 % dims_.size()) +
           (link % 2 == 0 ? ".up" : ".down");
  }

  void route(Endpoint from, Endpoint to, std::vector<std::uint32_t>& links) const override {
    std::int64_t at = from.node;
    std::int64_t stride = 1;
    for (std::size_t d = 0; d < dims_.size(); stride *= dims_[d], ++d) {
      const auto size = dims_[d];
      const auto here = at / stride % size;
      const auto ahead = (to.node / stride % size - here + size) % size;
      const bool up = 2 * ahead <= size;
      auto position = here;
      for (auto hops = up ? ahead : size - ahead; hops > 0; --hops) {
        links.push_back(static_cast<std::uint32_t>((static_cast<std::uint64_t>(at) * dims_.size() + d) * 2 + (up ? 0 : 1)));
        const auto next = (position + (up ? 1 : size - 1)) % size;
        at += (next - position) * stride;
        position = next;
      }
    }
  }

  [[nodiscard]] Seconds exit_latency() const override { return link_.latency; }

 private:
  Link link_;
  std::vector<std::int64_t> dims_;
  std::uint64_t nodes_ = 1;
};

std::int64_t capacity_of_torus(const Topology& topology) {
  std::int64_t nodes = 1;
  for (const auto dim : dims_of(topology)) {
    nodes = saturated_product(nodes, dim);
    if (nodes == kMostDevices) throw BadInput("topology.dims: more than " + std::to_string(kMostDevices) + " nodes");
  }
  return nodes;
}

std::unique_ptr<Network> build_torus(const Topology& topology, NetworkSize) { return std::make_unique<Torus>(topology); }

}  // namespace

constinit const TopologyRow kTorus{.kind = "torus",
                                   .meaning = "a ring of nodes along every dimension",
                                   .parameters = kTorusParameters,
                                   .has_links = true,
                                   .has_latency = true,
                                   .cards_are_links = true,
                                   .capacity = capacity_of_torus,
                                   .build = build_torus};

}  // namespace rehearsal::platforms
