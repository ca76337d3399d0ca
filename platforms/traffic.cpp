#include "platforms/traffic.hpp"

#include <algorithm>
#include <limits>

namespace rehearsal::platforms {

void Traffic::send(int from, int to, double weight) {
  fabric_.route(from, to, route_);
  std::erase_if(route_.links, [&](std::uint32_t link) { return fabric_.link(link).role != LinkRole::Network; });
  if (route_.links.empty()) return;
  latency_ = std::max(latency_, route_.latency);
  for (const auto link : route_.links) messages_[link] += weight;
}

Path Traffic::slowest() const {
  Path path{BytesPerSecond(std::numeric_limits<double>::infinity()), latency_};
  for (const auto& [link, count] : messages_) path.bandwidth = std::min(path.bandwidth, fabric_.link(link).bandwidth / count);
  return path;
}

}  // namespace rehearsal::platforms
