#include "platforms/mesh.hpp"

#include <algorithm>
#include <string>

#include "base/error.hpp"

namespace rehearsal::platforms {

Mesh::Mesh(const std::vector<Wire>& wires, int devices)
    : devices_(devices), hops_(static_cast<std::size_t>(devices) * static_cast<std::size_t>(devices)) {
  std::vector<std::vector<Edge>> edges(static_cast<std::size_t>(devices));
  for (std::uint32_t w = 0; w < wires.size(); ++w) {
    edges[static_cast<std::size_t>(wires[w].a)].push_back({wires[w].b, wires[w].count, 2 * w});
    edges[static_cast<std::size_t>(wires[w].b)].push_back({wires[w].a, wires[w].count, 2 * w + 1});
  }
  for (auto& of_device : edges) std::sort(of_device.begin(), of_device.end(), [](const Edge& x, const Edge& y) { return x.to < y.to; });
  for (int target = 0; target < devices; ++target) find_ways(target, edges);
  for (int device = 0; device < devices; ++device)
    if (hop(device, 0).wires < 0) throw BadInput("wires: device " + std::to_string(device) + " cannot be reached from device 0");
}

void Mesh::find_ways(int target, const std::vector<std::vector<Edge>>& edges) {
  hop(target, target) = {0, 1 << 30, target, 0};
  for (int distance = 1; distance < devices_; ++distance) {
    for (int from = 0; from < devices_; ++from) {
      if (hop(from, target).wires >= 0) continue;
      Hop best;
      for (const auto& edge : edges[static_cast<std::size_t>(from)]) {
        const auto& onward = hop(edge.to, target);
        const int width = std::min(edge.width, onward.width);
        if (onward.wires == distance - 1 && width > best.width) best = {distance, width, edge.to, edge.link};
      }
      if (best.wires == distance) hop(from, target) = best;
    }
  }
}

void Mesh::route(int a, int b, std::uint32_t first_link, std::vector<std::uint32_t>& links) const {
  while (a != b) {
    const auto& next = hop(a, b);
    links.push_back(first_link + next.link);
    a = next.device;
  }
}

}  // namespace rehearsal::platforms
