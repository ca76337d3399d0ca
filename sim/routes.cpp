#include "sim/routes.hpp"

namespace rehearsal::sim {

const KnownRoute& Routes::between(int from, int to) {
  const auto key = static_cast<std::uint64_t>(from) << 32 | static_cast<std::uint32_t>(to);
  const auto [at, fresh] = routes_.try_emplace(key);
  if (!fresh) return at->second;
  fabric_.route(from, to, scratch_);
  auto& route = at->second;
  route.latency = scratch_.latency.value();
  for (const auto crossed : scratch_.links) {
    const auto number = number_of(crossed);
    const auto& link = links_[number];
    route.links.push_back(number);
    route.joules_per_byte += (link.busy_power - link.idle_power).value() / link.bandwidth.value();
  }
  return route;
}

std::uint32_t Routes::number_of(std::uint32_t fabric_link) {
  const auto [at, fresh] = numbers_.try_emplace(fabric_link, static_cast<std::uint32_t>(links_.size()));
  if (fresh) links_.push_back(fabric_.link(fabric_link));
  return at->second;
}

}  // namespace rehearsal::sim
