// One node alone, and the crossbar: topologies without links of their own.

#include <array>

#include "base/error.hpp"
#include "platforms/topologies/topology_rows.hpp"

namespace rehearsal::platforms {
namespace {

/// Card, crossbar, card: only the cards limit.
class Crossbar final : public Network {
 public:
  explicit Crossbar(Seconds latency) : latency_(latency) {}
  [[nodiscard]] std::uint64_t link_count() const override { return 0; }
  [[nodiscard]] Link link(std::uint64_t) const override { throw InternalError("a crossbar has no links"); }
  [[nodiscard]] std::string link_name(std::uint64_t) const override { throw InternalError("a crossbar has no links"); }
  void route(Endpoint, Endpoint, std::vector<std::uint32_t>&) const override {}
  [[nodiscard]] Seconds exit_latency() const override { return latency_; }

 private:
  Seconds latency_;
};

std::int64_t one(const Topology&) { return 1; }
std::int64_t ports(const Topology& topology) { return parameter(topology, "ports"); }
std::unique_ptr<Network> build_single(const Topology& topology, NetworkSize) { return std::make_unique<Crossbar>(*topology.latency); }

constexpr std::array kSwitchParameters{ParameterRow{.key = "ports", .meaning = "nodes that fit"}, kAddingSwitches};

}  // namespace

constinit const TopologyRow kSingle{
    .kind = "single", .meaning = "one node, no network", .parameters = {}, .capacity = one, .build = build_single};
constinit const TopologyRow kSwitch{.kind = "switch",
                                    .meaning = "every node on one non-blocking switch",
                                    .parameters = kSwitchParameters,
                                    .has_latency = true,
                                    .capacity = ports,
                                    .build = build_single};

}  // namespace rehearsal::platforms
