#include "sim/simgrid/world.hpp"

#include <simgrid/kernel/routing/NetPoint.hpp>
#include <simgrid/kernel/routing/NetZoneImpl.hpp>

#include "base/error.hpp"

namespace rehearsal::sim {

class World::Zone final : public simgrid::kernel::routing::NetZoneImpl {
 public:
  explicit Zone(const std::string& name) : NetZoneImpl(name) {}

  void get_local_route(const simgrid::kernel::routing::NetPoint*, const simgrid::kernel::routing::NetPoint*,
                       simgrid::kernel::routing::Route* out, double*) override {
    ensure(route != nullptr, "a communication starts when its route is set");
    for (const auto link : route->links) out->link_list_.push_back(links[link]);
  }

  const KnownRoute* route = nullptr;
  std::vector<simgrid::kernel::resource::StandardLinkImpl*> links;
};

namespace {

/// SimGrid would abort.
void refuse_second_engine() {
  if (simgrid::s4u::Engine::has_instance())
    throw EnvironmentFailure("this process simulates with SimGrid already; a process has room for one simulator");
}

}  // namespace

World& World::of_process(int ranks, int links) {
  static World world(ranks, links);
  ensure(world.hosts_.size() >= static_cast<std::size_t>(ranks) && world.links_.size() >= static_cast<std::size_t>(links),
         "the reference network comes first in a process");
  return world;
}

World::World(int ranks, int links) : engine_((refuse_second_engine(), "rehearsal")) {
  compat::configure(engine_);
  zone_ = new Zone("world");  // the engine deletes it
  compat::settle(engine_, *zone_);
  auto* zone = zone_->get_iface();
  for (int rank = 0; rank < ranks; ++rank) hosts_.push_back(compat::add_host(*zone, "rank" + std::to_string(rank)));
  for (int n = 0; n < links; ++n) {
    links_.push_back(compat::add_link(*zone, "link" + std::to_string(n)));
    zone_->links.push_back(links_.back()->get_impl());
  }
  zone->seal();
}

void World::set_route(const KnownRoute* route) { zone_->route = route; }

}  // namespace rehearsal::sim
