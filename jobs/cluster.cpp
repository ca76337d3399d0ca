#include "jobs/cluster.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace rehearsal::jobs {

Cluster::Cluster(const platforms::Platform& platform) {
  if (platform.nodes.size() != 1)
    throw Refusal("platform " + platform.name + " has " + std::to_string(platform.nodes.size()) +
                  " kinds of nodes: jobs are played on clusters of equal nodes; give a platform file of one of them");
  per_node_ = platform.nodes.front().devices;
  free_.assign(static_cast<std::size_t>(platform.nodes.front().count) * static_cast<std::size_t>(per_node_), true);
}

int Cluster::free() const { return static_cast<int>(std::ranges::count(free_, true)); }

bool Cluster::can_have(int devices) const {
  return devices >= 1 && devices <= this->devices() && (devices <= per_node_ || devices % per_node_ == 0);
}

std::optional<Devices> Cluster::within_node(int devices, const std::vector<bool>& usable) const {
  std::optional<Devices> best;
  int fewest = per_node_ + 1;
  for (int node = 0; node < nodes(); ++node) {
    Devices here;
    for (int d = node * per_node_; d < (node + 1) * per_node_; ++d)
      if (usable[static_cast<std::size_t>(d)]) here.push_back(d);
    const int room = static_cast<int>(here.size());
    if (room < devices || room >= fewest) continue;
    fewest = room;
    here.resize(static_cast<std::size_t>(devices));
    best = std::move(here);
  }
  return best;
}

std::optional<Devices> Cluster::whole_nodes(int wanted, const std::vector<bool>& usable) const {
  std::vector<int> whole;
  for (int node = 0; node < nodes(); ++node) {
    const auto first = usable.begin() + static_cast<std::ptrdiff_t>(node) * per_node_;
    if (std::all_of(first, first + per_node_, [](bool usable_here) { return usable_here; })) whole.push_back(node);
  }
  const auto count = static_cast<std::size_t>(wanted);
  if (whole.size() < count) return std::nullopt;
  std::size_t begin = 0;
  for (std::size_t n = 0; n + count <= whole.size(); ++n)
    if (whole[n + count - 1] - whole[n] == wanted - 1) {
      begin = n;
      break;
    }
  Devices devices;
  for (std::size_t n = begin; n < begin + count; ++n)
    for (int d = 0; d < per_node_; ++d) devices.push_back(whole[n] * per_node_ + d);
  return devices;
}

std::optional<Devices> Cluster::room(int devices, const Devices& reserved) const {
  auto usable = free_;
  for (const int d : reserved) usable[static_cast<std::size_t>(d)] = false;
  return devices <= per_node_ ? within_node(devices, usable) : whole_nodes(devices / per_node_, usable);
}

bool Cluster::is_free(const Devices& devices) const {
  return std::ranges::all_of(devices, [&](int d) { return free_[static_cast<std::size_t>(d)]; });
}

void Cluster::take(const Devices& devices) {
  for (const int d : devices) {
    ensure(free_[static_cast<std::size_t>(d)], "a device is given to one job at a time");
    free_[static_cast<std::size_t>(d)] = false;
  }
}

void Cluster::release(const Devices& devices) {
  for (const int d : devices) free_[static_cast<std::size_t>(d)] = true;
}

}  // namespace rehearsal::jobs
