#include "platforms/traffic.hpp"

#include <algorithm>
#include <limits>

#include "platforms/topology.hpp"

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

double links_at_a_time(const Platform& platform, const NodeGroup& node) {
  if (!topology_row(platform.topology.kind).cards_are_links) return 1;
  double neighbours = 0;  // two along a dimension, of two nodes each other
  for (const auto size : platform.topology.parameters.at("dims")) neighbours += static_cast<double>(std::min<std::int64_t>(size - 1, 2));
  return std::max(1.0, std::min(neighbours, *node.nic.bandwidth / *platform.topology.bandwidth * node.nic.count));
}

}  // namespace rehearsal::platforms
