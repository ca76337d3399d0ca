#pragma once
// Collectives and sends between accelerators in closed form: hierarchy of links, protocol latencies, the pass over device memory.
// Sources of the structure: NCCL's ring, tree and LL128 protocols; nccl-tests' definition of bus bandwidth.

#include <span>
#include <string_view>
#include <vector>

#include "costmodel/collective_kind.hpp"
#include "costmodel/collective_table.hpp"
#include "costmodel/constants.hpp"
#include "costmodel/library_offer.hpp"
#include "costmodel/network_shares.hpp"
#include "platforms/platform.hpp"

namespace rehearsal::costmodel {

/// How many ranks, how many of them share a node, and how many nodes it is to the next node with ranks of the group.
struct Group {
  int ranks = 1;
  int per_node = 0;  ///< 0: as many as a node has devices
  int apart = 1;
  friend bool operator==(const Group&, const Group&) = default;
};

/// What the vendor's library takes for a collective, and how.
struct LibraryTime {
  double seconds = 0;
  std::string_view algorithm, protocol;  ///< of the table
};

/// The links of a platform as collectives see them.
class CollectiveLibrary {
 public:
  /// Of ranks on all nodes of the platform: where these differ, all wait for those whose links are slowest.
  explicit CollectiveLibrary(const platforms::Platform& platform);
  /// Of ranks on these kinds of nodes alone: indices of `platform.nodes`, one at least.
  CollectiveLibrary(const platforms::Platform& platform, std::span<const std::size_t> kinds);

  /// Seconds of a collective inside a training step, over a buffer of `bytes` (the whole, unsharded one). Where by_table() it is
  /// library()'s time; all-to-alls and older devices have the closed form below, whose constants are fitted to steps in the releases of
  /// 2018 to 2023:
  ///   t = max(inside, between) + min/4 + memory pass + latency
  ///   inside  = f·2(g-1)/g·S / (bus·eta),  between = f·2k·S / (g·NIC·eta) · (1 + congestion·log2 N)
  /// f: 1 all-reduce, 1/2 gather or scatter; g ranks on each of N nodes; k = (n-1)/n for flat rings, (N-1)/N for trees.
  [[nodiscard]] double seconds(CollectiveKind, double bytes, Group, const Constants&) const;
  /// Hopper and Blackwell: their steps are predicted best by library(), without constants of their own.
  [[nodiscard]] bool by_table() const { return fabric_->steps == StepModel::Table; }
  /// The collective by itself, as nccl-tests measure it: the algorithm and protocol of least time (costmodel/collective_table.hpp).
  [[nodiscard]] LibraryTime library(CollectiveKind, double bytes, Group, const Constants&, LibraryRelease = kNewestRelease) const;
  /// Every row of the table for a vector of that size: library() is the least of those that are offered. An algorithm and protocol that has
  /// rows for other links as well is there once.
  [[nodiscard]] std::vector<LibraryOffer> offers(CollectiveKind, double bytes, Group, const Constants&,
                                                 LibraryRelease = kNewestRelease) const;
  /// Seconds of a send of `bytes` from one rank to another, over the network when `between_nodes`.
  [[nodiscard]] double send(double bytes, bool between_nodes, const Constants&, NodesSending = {}) const;
  /// Bytes per second that a ring of `ranks` of one node moves, without protocol losses.
  [[nodiscard]] double bus_bandwidth(int ranks) const;
  /// A device's share of its node's cards, after protocol losses; the network may leave less.
  [[nodiscard]] double card_rate(const Constants&) const;
  /// The same where each rank passes messages on to the next one of its group, with what the network leaves.
  [[nodiscard]] double shift_rate(Group, const Constants&) const;
  [[nodiscard]] double inside_rate(int ranks, const Constants&) const;
  [[nodiscard]] int devices_per_node() const { return devices_; }

 private:
  /// Which of a group's ranks share a node, and how many nodes there are.
  struct GroupShape {
    int ranks, inside, nodes;
    int apart = 1;
    [[nodiscard]] SpacedNodes spaced() const { return {nodes, apart}; }
  };
  /// The closed form of seconds(), where switches between nodes do not add, or do.
  [[nodiscard]] double form_seconds(CollectiveKind, double bytes, const GroupShape&, bool adds, const Constants&) const;
  [[nodiscard]] double latency(CollectiveKind, double bytes, const GroupShape&, bool adds, const Constants&) const;
  [[nodiscard]] GroupShape shape_of(Group) const;
  /// us that a message between nodes is longer on its way than over the cards and switches that steps are fitted with, and how much of it
  /// is due to the switches.
  struct Farther {
    double all = 0, of_switches = 0;
  };
  [[nodiscard]] Farther farther(int nodes) const;
  /// `rate` of each of so many ranks of a node, as far as a limit of all its devices together leaves it.
  [[nodiscard]] double within_node_limit(double rate, int ranks) const;
  [[nodiscard]] NotOffered why_not(const ProtocolRow&, CollectiveKind, const GroupShape&, LibraryRelease) const;
  /// What the node's links, or those between nodes, cannot do.
  [[nodiscard]] NotOffered missing_in_links(const ProtocolRow&, CollectiveKind, const GroupShape&) const;
  [[nodiscard]] double seconds_of(const ProtocolRow&, CollectiveKind, double bytes, const GroupShape&, const Constants&) const;
  [[nodiscard]] double inside_seconds(const ProtocolRow&, CollectiveKind, double bytes, const GroupShape&) const;
  [[nodiscard]] double card_seconds(const ProtocolRow&, CollectiveKind, double bytes, const GroupShape&, const Constants&) const;

  platforms::IntraLink intra_;
  const FabricRow* fabric_ = nullptr;
  double card_latency_ = 0;   ///< us
  double node_limit_ = 0;     ///< bytes per second of all devices of a node together; 0: each has its port alone
  double torus_dims_ = 0;     ///< of the network between nodes; 0: it is none
  std::vector<double> bus_;   ///< by ranks - 1: bytes per second without protocol losses
  std::vector<bool> closes_;  ///< by ranks - 1: whether a ring of wires does
  bool adds_ = false;         ///< switches between nodes do
  int devices_ = 1;
  double card_share_ = 0;   ///< bytes per second of a device's share of the cards
  NetworkShares network_;   ///< what of it the links between nodes leave
  double memory_rate_ = 0;  ///< bytes per second of device memory, datasheet
  bool nvlink_ = false, switched_ = false, ethernet_ = false, trees_ = false;
};

}  // namespace rehearsal::costmodel
