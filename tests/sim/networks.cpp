// Flows that share links: hand calculations, and the fluid network against SimGrid's own.

#include "base/random.hpp"
#include "sim/network.hpp"
#include "tests/catch.hpp"
#include "tests/sim/sample.hpp"

using namespace rehearsal;
using namespace rehearsal::sim;

namespace {

struct Sent {
  int from, to;
  double bytes, start = 0;
};

/// Starts flows at their times and writes down when each ends.
class Clock final : public Listener {
 public:
  Clock(Routes& routes, FairNetwork& network, const std::vector<Sent>& flows)
      : routes_(routes), network_(network), flows_(flows), ends(flows.size(), -1.0) {
    for (std::size_t n = 0; n < flows.size(); ++n) network.alarm(flows[n].start, n);
    network.run(*this);
  }
  void happened(Token token) override {
    if (token >= flows_.size()) {
      ends[token - flows_.size()] = network_.now();
      return;
    }
    const auto& f = flows_[token];
    network_.start({f.from, f.to, &routes_.between(f.from, f.to), f.bytes}, token + flows_.size());
  }

 private:
  Routes& routes_;
  FairNetwork& network_;
  const std::vector<Sent>& flows_;

 public:
  std::vector<double> ends;
};

std::vector<double> ends_of(const platforms::Platform& platform, const std::vector<Sent>& flows, NetworkOf network_of) {
  Routes routes(platform);
  const auto network = network_of(routes);
  return Clock(routes, *network, flows).ends;
}

/// The reference first: it makes the engine's world large enough.
const std::vector<NetworkOf> kNetworks{reference_network, fluid_network};

/// Nodes of one device behind cards of 1 GB/s.
platforms::Platform gigabyte_cards(int nodes) {
  auto platform = sample::cluster(nodes, 1, 1);
  platform.nodes.front().nic.bandwidth = BytesPerSecond(1e9);
  return platform;
}

}  // namespace

TEST_CASE("two flows halve a link until the shorter one has ended") {
  // 1 and 2 GB at 0.5 GB/s: the first ends at 2 s; the second has 1 GB left at 1 GB/s: 3 s.
  for (const auto network : kNetworks) {
    INFO((network == reference_network ? "reference network" : "fluid network"));
    const auto ends = ends_of(gigabyte_cards(3), {{0, 1, 1e9}, {0, 2, 2e9}}, network);
    CHECK(ends[0] == Approx(2.0).epsilon(1e-12));
    CHECK(ends[1] == Approx(3.0).epsilon(1e-12));
  }
}

TEST_CASE("directions of a cable do not disturb each other") {
  for (const auto network : kNetworks) {
    INFO((network == reference_network ? "reference network" : "fluid network"));
    const auto ends = ends_of(gigabyte_cards(2), {{0, 1, 1e9}, {1, 0, 1e9}}, network);
    CHECK(ends[0] == Approx(1.0).epsilon(1e-12));
    CHECK(ends[1] == Approx(1.0).epsilon(1e-12));
  }
}

TEST_CASE("four senders to one receiver share its card") {
  // Each of 4 nodes sends 1 GB to a node of its own and 1 GB to a common one. The common card gives each 0.25 GB/s: 4 s; the private flows
  // get the other 0.75 GB/s: 4/3 s. (SimGrid's default settings say 2 s for the common flows.)
  std::vector<Sent> flows;
  for (int source = 0; source < 4; ++source) {
    flows.push_back({source, 4 + source, 1e9});
    flows.push_back({source, 8, 1e9});
  }
  for (const auto network : kNetworks) {
    INFO((network == reference_network ? "reference network" : "fluid network"));
    const auto ends = ends_of(gigabyte_cards(9), flows, network);
    for (std::size_t n = 0; n < ends.size(); ++n) CHECK(ends[n] == Approx(n % 2 == 0 ? 4.0 / 3.0 : 4.0).epsilon(1e-9));
  }
}

TEST_CASE("a flow that comes later takes its share from then on") {
  // 1 GB alone for 0.5 s, then halved: 0.5 + 0.5/0.5 = 1.5 s. The second: 0.5 GB until then, 0.5 GB alone: 2 s.
  for (const auto network : kNetworks) {
    INFO((network == reference_network ? "reference network" : "fluid network"));
    const auto ends = ends_of(gigabyte_cards(3), {{0, 1, 1e9}, {0, 2, 1e9, 0.5}}, network);
    CHECK(ends[0] == Approx(1.5).epsilon(1e-12));
    CHECK(ends[1] == Approx(2.0).epsilon(1e-12));
  }
}

TEST_CASE("the fluid network gives the times of SimGrid's communications") {
  auto platform = sample::cluster(8, 4, 2);  // 32 ranks
  platform.topology = {};
  platform.topology.kind = "fat-tree";
  platform.topology.parameters = {{"arity", {2}}, {"levels", {3}}, {"oversubscription", {2}}};
  platform.topology.bandwidth = BytesPerSecond(15e9);
  platform.topology.latency = Seconds(1e-6);
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    auto roll = [&, next = std::uint64_t{0}](std::uint64_t below) mutable { return random_bits(seed, 3, next++) % below; };
    std::vector<Sent> flows;
    for (int n = 0; n < 150; ++n) {
      const auto from = static_cast<int>(roll(32)), to = static_cast<int>((static_cast<std::uint64_t>(from) + 1 + roll(31)) % 32);
      // Many begin at once, many have the same size: what comes of ties must not matter.
      flows.push_back(
          {from, to, static_cast<double>(roll(4) == 0 ? 1'000'000 : 1 + roll(5'000'000)), static_cast<double>(roll(20)) * 1e-4});
    }
    const auto reference = ends_of(platform, flows, reference_network), fluid = ends_of(platform, flows, fluid_network);
    for (std::size_t n = 0; n < flows.size(); ++n) {
      INFO("seed " << seed << ", flow " << n);
      CHECK(fluid[n] == Approx(reference[n]).epsilon(1e-9).margin(1e-12));  // the engine's clock is coarser
    }
  }
}

TEST_CASE("programs take the same time on both networks") {
  for (const int cards : {1, 2, 4}) {
    const auto platform = sample::cluster(4, 4, cards);
    for (const auto* algorithm : {"ring", "halving-doubling", "hierarchical"}) {
      const auto job = sample::one_collective(16, algorithm, plan::CollectiveKind::AllReduce, 1 << 20);
      const auto reference = job.play(*full_evaluator(reference_network), platform), fluid = job.play(*full_evaluator(), platform);
      INFO(algorithm << ", " << cards << " cards");
      CHECK(fluid.step.value() == Approx(reference.step.value()).epsilon(1e-9));
      CHECK(fluid.events == reference.events);
    }
  }
}
