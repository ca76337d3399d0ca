#pragma once
// What moves bytes and lets time pass while a program is played. Two implementations stand side by side: fluid_network() in
// sim/simgrid/fluid_network.cpp, which simulations use, and reference_network(), SimGrid's own network model, which holds it to account.

#include <cstdint>
#include <memory>

#include "sim/routes.hpp"

namespace rehearsal::sim {

/// Names what will have happened; the network does not look at it.
using Token = std::uint64_t;

class Listener {
 public:
  virtual ~Listener() = default;
  virtual void happened(Token) = 0;
};

/// Bytes on their way over a route, which must outlive them. The latency of the route is no part of a flow: alarms pay for it.
/// Or a message whose time is known when it is alone: `bytes` are then seconds of it, `loads` the bytes a second that each link of the
/// route carries for it at full speed, which is 1 second a second.
struct MessageFlow {
  int from = 0, to = 0;
  const KnownRoute* route = nullptr;
  double bytes = 0;
  const std::vector<double>* loads = nullptr;  ///< by link of the route; nullptr: as many as move
};

/// Flows that share links get max-min fair rates: no flow can be faster without making one slower that is no faster (in its own unit).
class FairNetwork {
 public:
  virtual ~FairNetwork() = default;
  /// Seconds since run() began.
  [[nodiscard]] virtual double now() const = 0;
  virtual void alarm(double time, Token) = 0;
  virtual void start(const MessageFlow&, Token) = 0;
  /// Until nothing is left to happen. What happens at one time is told in a fixed order.
  virtual void run(Listener&) = 0;
};

/// Own max-min solver in SimGrid's event loop. `routes` must outlive the network; one network at a time.
[[nodiscard]] std::unique_ptr<FairNetwork> fluid_network(const Routes& routes);

/// SimGrid's communications. Bytes are rounded to whole ones. For at most kReferenceRanks ranks and kReferenceLinks links in use; must be
/// the first network of its process.
inline constexpr int kReferenceRanks = 256;
inline constexpr int kReferenceLinks = 4096;
[[nodiscard]] std::unique_ptr<FairNetwork> reference_network(const Routes& routes);

}  // namespace rehearsal::sim
