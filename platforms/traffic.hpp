#pragma once
// Messages that are sent at the same time, and what they share of the network between nodes: for closed forms that play no message.

#include <unordered_map>

#include "platforms/fabric.hpp"

namespace rehearsal::platforms {

/// Refers to the fabric.
class Traffic {
 public:
  explicit Traffic(const Fabric& fabric) : fabric_(fabric) {}

  /// `weight`: messages that this one stands for. One that crosses no link between nodes is not counted.
  void send(int from, int to, double weight = 1);
  /// The longest latency of all, and what the fullest link leaves to each of its messages; unlimited where nothing was sent.
  [[nodiscard]] Path slowest() const;

 private:
  const Fabric& fabric_;
  Route route_;
  Seconds latency_{0};
  std::unordered_map<std::uint32_t, double> messages_;
};

/// Links between nodes that collectives go round on at a time: several where a node's cards are its links, but no
/// more than it has neighbours; else one.
[[nodiscard]] double links_at_a_time(const Platform&, const NodeGroup&);

}  // namespace rehearsal::platforms
