#pragma once
// SimGrid allows one engine per process, whose clock never goes back: it lives as long as the process, and networks take turns on it.

#include <vector>

#include "sim/network.hpp"
#include "sim/simgrid/simgrid_versions.hpp"

namespace rehearsal::sim {

/// A zone whose routes are those of the network whose turn it is.
class World {
 public:
  /// The one of this process, made with room for so many ranks and links on first use. Throws InternalError when it was made smaller.
  static World& of_process(int ranks, int links);

  [[nodiscard]] simgrid::s4u::Engine& engine() { return engine_; }
  [[nodiscard]] simgrid::s4u::Host* host(int rank) const { return hosts_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] simgrid::s4u::Link* link(std::uint32_t number) const { return links_[number]; }
  /// Which route a communication between two hosts takes from now on.
  void set_route(const KnownRoute* route);

 private:
  class Zone;
  World(int ranks, int links);

  simgrid::s4u::Engine engine_;
  Zone* zone_;
  std::vector<simgrid::s4u::Host*> hosts_;
  std::vector<simgrid::s4u::Link*> links_;
};

}  // namespace rehearsal::sim
