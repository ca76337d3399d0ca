#pragma once
// What the links between nodes leave to cards that send at a time: laid over the routes of the fabric, one message for every device.

#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "platforms/fabric.hpp"
#include "platforms/platform.hpp"

namespace rehearsal::costmodel {

/// Nodes that a group of ranks lies on, each so many after the last: all nodes between them have groups of the same kind, which send at the
/// same time.
struct SpacedNodes {
  int count = 1, apart = 1;
  friend auto operator<=>(const SpacedNodes&, const SpacedNodes&) = default;
};

/// Nodes whose devices all send at a time, each to one of as many others, and all nodes in use.
struct NodesSending {
  int together = 1, all = 1;
};

/// Of the rate of a device's share of its node's cards, from 0 to 1: what the fullest link between nodes leaves to each of the messages
/// that cross it. Nodes in use are the first ones of those that are looked at; each pattern is looked up once.
class NetworkShares {
 public:
  /// `kinds`: indices of the groups of nodes that are looked at. `card_rate`: bytes per second of a device's share of the cards.
  NetworkShares(const platforms::Platform&, std::span<const std::size_t> kinds, double card_rate);

  /// Every node sends to the next one of its group, all around. Where a node's cards are its links, libraries go round on all of them at a
  /// time.
  [[nodiscard]] double neighbours(SpacedNodes) const;
  /// The same in single messages, each of which goes one way.
  [[nodiscard]] double shifts(SpacedNodes) const;
  /// Every node sends as much to each other one: of more than 64 nodes, to some of them, at distances spread evenly.
  [[nodiscard]] double pairs(SpacedNodes) const;
  /// Nodes of a stage send to those of the next one; the slowest stage counts.
  [[nodiscard]] double sends(NodesSending) const;
  /// How long a first byte is on its way from the first of so many nodes to the last, cards included; 0 where they share nothing but cards.
  [[nodiscard]] Seconds crossing(int nodes) const;

 private:
  struct Pattern {
    int first, end;  ///< nodes that send
    int nodes;       ///< round which they do
  };
  struct Devices {
    int first, count;  ///< ranks
  };
  /// Bytes per second of each message, without the limit of its card.
  [[nodiscard]] double rate(const Pattern&, std::span<const int> distances) const;
  [[nodiscard]] double left(const Pattern&, std::span<const int> distances) const;
  /// Nodes that there are of so many.
  [[nodiscard]] int known(int nodes) const;
  [[nodiscard]] SpacedNodes known(SpacedNodes) const;
  /// Bytes per second from every node to the next one of its group.
  [[nodiscard]] double rate_round(SpacedNodes) const;

  std::optional<platforms::Fabric> fabric_;  ///< none where messages share nothing but cards
  std::vector<Devices> nodes_;               ///< that are looked at
  double card_rate_ = 0;
  double links_at_a_time_ = 1;  ///< of a node, that a ring goes round on
  bool crosses_switches_ = true;
  mutable std::map<SpacedNodes, double> rounds_, pairs_;
  mutable std::map<int, double> crossings_;
  mutable std::map<std::pair<int, int>, double> sends_;
};

}  // namespace rehearsal::costmodel
