#pragma once
// The links of a platform and the way between any two ranks, for the closed form and the simulator alike.
// A Link is one direction of a cable (full duplex = two links); a memory bus is one link for both directions.
// Links and routes are computed from their numbers, never stored: no table grows with the machine.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.hpp"
#include "platforms/platform.hpp"

namespace rehearsal::platforms {

enum class LinkRole : std::uint8_t { DeviceOut, DeviceIn, Bus, Wire, NicOut, NicIn, Network };
[[nodiscard]] std::string_view name(LinkRole);

struct Link {
  BytesPerSecond bandwidth;
  Seconds latency;
  Watts idle_power, busy_power;
  LinkRole role = LinkRole::Network;
};

/// What a message crosses, in order. `latency` is the sum over its links.
struct Route {
  std::vector<std::uint32_t> links;
  Seconds latency;
};

/// What a closed form needs of a route. Of a rank to itself: infinite bandwidth, no latency, no links.
struct Path {
  BytesPerSecond bandwidth;  ///< of the slowest link
  Seconds latency;
  int links = 0;
};

/// All links of a platform, numbered from 0, in an order that depends on the platform alone.
class Fabric {
 public:
  /// Throws BadInput when check(platform) does (platforms/platform_check.hpp).
  explicit Fabric(const Platform&);
  ~Fabric();
  Fabric(Fabric&&) noexcept;
  Fabric& operator=(Fabric&&) noexcept;

  [[nodiscard]] std::uint32_t link_count() const;
  /// Throws InternalError when `link` is not below link_count().
  [[nodiscard]] Link link(std::uint32_t link) const;
  [[nodiscard]] std::vector<Link> links() const;  ///< all of them, for who needs a table
  /// "node3.device2.out", "node0.bus", "node1.nic0.in", "level1.switch4.up2": unique.
  [[nodiscard]] std::string link_name(std::uint32_t link) const;

  /// Deterministic. Empty for a == b. Ranks count all devices of the platform's nodes (device_limit is not looked at).
  [[nodiscard]] Route route(int a, int b) const;
  /// The same into an existing object, so that its storage is reused.
  void route(int a, int b, Route& out) const;
  [[nodiscard]] Path path(int a, int b) const;

 private:
  struct Layout;
  std::unique_ptr<Layout> layout_;
};

}  // namespace rehearsal::platforms
