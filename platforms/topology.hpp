#pragma once
// How nodes reach each other: one row per kind of topology, one file per row in platforms/topologies/.
// A row says which parameters its kind has, how many nodes fit, and gives links and routes in closed form.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "platforms/fabric.hpp"
#include "platforms/platform.hpp"

namespace rehearsal::platforms {

/// More nodes or devices than any platform may have; capacities saturate here.
inline constexpr std::int64_t kMostDevices = 10'000'000;

/// A network card as the topology sees it: the `port`-th of its node.
struct Endpoint {
  std::int64_t node = 0;
  std::int64_t port = 0;
};

/// What a topology has to serve.
struct NetworkSize {
  std::int64_t nodes = 1;
  std::int64_t ports = 1;  ///< cards per node, the most of any group
};

/// The links between network cards, numbered from 0; a Fabric has fewer than 2^32 of them. Every link leaves a switch and holds the
/// latency of crossing it.
class Network {
 public:
  virtual ~Network() = default;
  [[nodiscard]] virtual std::uint64_t link_count() const = 0;
  [[nodiscard]] virtual Link link(std::uint64_t link) const = 0;
  [[nodiscard]] virtual std::string link_name(std::uint64_t link) const = 0;
  /// Appends what lies between the sending card and the receiving card of two different nodes.
  virtual void route(Endpoint from, Endpoint to, std::vector<std::uint32_t>& links) const = 0;
  /// Of the last switch, which the receiving card's own link leaves.
  [[nodiscard]] virtual Seconds exit_latency() const = 0;
  /// False: cards of different places in their nodes do not reach each other.
  [[nodiscard]] virtual bool joins_places() const { return true; }
};

/// One whole-number parameter of a topology, or a list of them.
struct ParameterRow {
  std::string_view key;
  std::string_view meaning;
  std::int64_t low = 1, high = kMostDevices;
  std::optional<std::int64_t> fallback = {};  ///< none: must be given
  int most = 1;               ///< how many numbers the list may have
};

struct TopologyRow {
  std::string_view kind;
  std::string_view meaning;
  std::span<const ParameterRow> parameters;
  bool has_links = false;    ///< uses Topology::bandwidth and powers
  bool has_latency = false;  ///< uses Topology::latency
  bool has_cables = false;   ///< uses Topology::cables
  /// A node's cards are its links: collectives use all of them at a time, whichever way a single message goes.
  bool cards_are_links = false;
  /// Nodes that fit. Throws BadInput naming the key when the parameters contradict each other.
  std::int64_t (*capacity)(const Topology&);
  std::unique_ptr<Network> (*build)(const Topology&, NetworkSize);
};

[[nodiscard]] std::span<const TopologyRow* const> topology_rows();
/// nullptr where there is none.
[[nodiscard]] const TopologyRow* find_topology(std::string_view kind);
/// Throws BadInput naming the kinds there are.
[[nodiscard]] const TopologyRow& topology_row(std::string_view kind);
/// A parameter that has one number, its fallback where it is absent. Throws BadInput when it must be given.
[[nodiscard]] std::int64_t parameter(const Topology&, std::string_view key);
/// a·b, at most kMostDevices.
[[nodiscard]] std::int64_t saturated_product(std::int64_t a, std::int64_t b);
/// A switch-to-switch link of `width` cables.
[[nodiscard]] Link network_link(const Topology&, double width = 1);

}  // namespace rehearsal::platforms
