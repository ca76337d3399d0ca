#pragma once
// Point-to-point wires between the devices of one node, such as the NVLink hybrid cube of a DGX-1.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "platforms/platform.hpp"

namespace rehearsal::platforms {

/// Next hops over wires: fewest wires first, then the widest narrowest wire, then the lowest device.
/// Wire w is links 2w (a → b) and 2w + 1 (b → a) of its node.
class Mesh {
 public:
  /// Wires must name devices below `devices`. Throws BadInput when they do not connect all devices.
  Mesh(const std::vector<Wire>& wires, int devices);
  /// Appends the local links from device a to device b.
  void route(int a, int b, std::uint32_t first_link, std::vector<std::uint32_t>& links) const;

 private:
  struct Hop {
    int wires = -1;  ///< still to cross; -1: unreachable
    int width = 0;
    int device = 0;  ///< next
    std::uint32_t link = 0;
  };
  struct Edge {
    int to, width;
    std::uint32_t link;
  };

  void find_ways(int target, const std::vector<std::vector<Edge>>& edges);
  [[nodiscard]] Hop& hop(int from, int to) { return hops_[static_cast<std::size_t>(from * devices_ + to)]; }
  [[nodiscard]] const Hop& hop(int from, int to) const { return hops_[static_cast<std::size_t>(from * devices_ + to)]; }

  int devices_;
  std::vector<Hop> hops_;
};

}  // namespace rehearsal::platforms
