// Collectives and messages whose time alone is known: what they load links with, and how they slow each other down.
#include "sim/priced_messages.hpp"

#include <functional>
#include <map>
#include <utility>

#include "sim/messages.hpp"
#include "tests/catch.hpp"
#include "tests/sim/sample.hpp"

using namespace rehearsal;
using namespace rehearsal::sim;
using costmodel::CollectiveKind;

namespace {

/// Plays what is started before run(), and what `then` starts when something ends; the time at which every rank's stream goes on.
class Played final : public Listener {
 public:
  explicit Played(const platforms::Platform& platform) : platform_(platform), routes(platform_), network(fluid_network(routes)) {}
  void run() { network->run(*this); }
  void happened(Token token) override {
    REQUIRE(occasion_of(token) == Occasion::PricedEnded);
    for (const auto& w : priced.ended(number_of(token))) ends[{w.rank, w.stream}] = network->now();
    if (then) std::exchange(then, nullptr)();
  }
  /// Every rank of `group` begins a collective that takes `seconds` alone.
  void begin(CollectiveKind kind, double bytes, double seconds, const std::vector<int>& group) {
    for (const int rank : group) priced.join({kind, bytes, seconds, 0, 0}, group, {rank, 0});
  }

 private:
  platforms::Platform platform_;

 public:
  Routes routes;
  std::unique_ptr<FairNetwork> network;
  PricedMessages priced{platform_, routes, *network};
  std::function<void()> then;
  std::map<std::pair<int, std::size_t>, double> ends;
};

}  // namespace

TEST_CASE("alone a message and a collective take the time that is known") {
  Played message(sample::cluster(1, 4, 0));
  message.priced.send(0, 1, 1e9, 0.5, {0, 1});
  message.run();
  CHECK(message.ends.at({0, 1}) == Approx(0.5));
  CHECK(message.priced.count() == 1);
  Played sum(sample::cluster(2, 2, 2));
  sum.begin(CollectiveKind::AllReduce, 1e9, 0.75, {0, 1, 2, 3});
  sum.run();
  for (const int rank : {0, 1, 2, 3}) CHECK(sum.ends.at({rank, 0}) == Approx(0.75));
  CHECK(sum.priced.count() == 1);
}

TEST_CASE("a collective begins with its last rank and takes as long as its slowest") {
  Played p(sample::cluster(1, 2, 0));
  p.priced.join({CollectiveKind::AllReduce, 1e9, 0.5, 0, 0}, {0, 1}, {0, 0});
  p.priced.send(1, 0, 0, 0.25, {1, 0});  // before rank 1 comes
  p.then = [&] { p.priced.join({CollectiveKind::AllReduce, 1e9, 1, 0, 0}, {0, 1}, {1, 0}); };
  p.run();
  CHECK(p.ends.at({0, 0}) == Approx(1.25));
  CHECK(p.ends.at({1, 0}) == Approx(1.25));
}

TEST_CASE("a collective loads links with its bytes by its time") {
  // Two ranks exchange as many bytes as they sum: 8 GB in two seconds are 4 GB/s, of the 10 that a card has; 16 GB are 8, and two of
  // them 16.
  for (const auto& [bytes, seconds] : {std::pair{8e9, 2.0}, {16e9, 2 * 1.6}}) {
    Played p(sample::cluster(2, 2, 1));
    p.begin(CollectiveKind::AllReduce, bytes, 2, {0, 2});
    p.begin(CollectiveKind::AllReduce, bytes, 2, {1, 3});
    p.run();
    CHECK(p.ends.at({0, 0}) == Approx(seconds));
    CHECK(p.ends.at({3, 0}) == Approx(seconds));
  }
}

TEST_CASE("two messages that want more than a card has go on more slowly") {
  // Each moves 8 GB in a second over the card of its node, which has 10 GB/s: 10/16 of the speed.
  Played p(sample::cluster(2, 2, 1));
  p.priced.send(0, 2, 8e9, 1, {0, 0});
  p.priced.send(1, 3, 8e9, 1, {1, 0});
  p.run();
  CHECK(p.ends.at({0, 0}) == Approx(1.6));
  CHECK(p.ends.at({1, 0}) == Approx(1.6));
  // No link is slower than what crosses it alone: 20 GB "in a second" over a card of 10 GB/s take a second, and leave nothing for others.
  Played full(sample::cluster(2, 2, 1));
  full.priced.send(0, 2, 20e9, 1, {0, 0});
  full.run();
  CHECK(full.ends.at({0, 0}) == Approx(1));
}

TEST_CASE("what a collective moves over a link depends on its kind") {
  // Of a vector of 1: four ranks in one node, or four nodes of one rank. An all-reduce moves 2·3/4 of it over every link, gathering and
  // scattering 3/4, an all-to-all 3/4, three shifts 3.
  const std::map<CollectiveKind, double> share{{CollectiveKind::AllReduce, 1.5},
                                               {CollectiveKind::AllGather, 0.75},
                                               {CollectiveKind::ReduceScatter, 0.75},
                                               {CollectiveKind::AllToAll, 0.75},
                                               {CollectiveKind::Shift, 3}};
  for (const bool inside : {true, false})
    for (const auto& [kind, part] : share) {
      INFO(costmodel::name(kind) << (inside ? " inside a node" : " between nodes"));
      // The collective wants 8/10 of a link, a message from rank 0 to 1 as much: both have 10/16 of their speed.
      const double link = inside ? sample::kPort : sample::kCard;
      Played p(inside ? sample::cluster(1, 4, 0) : sample::cluster(4, 1, 1));
      p.begin(kind, 0.8 * link / part, 1, {0, 1, 2, 3});
      p.priced.send(0, 1, 0.8 * link, 1, {0, 1});
      p.run();
      CHECK(p.ends.at({0, 0}) == Approx(1.6));
      CHECK(p.ends.at({0, 1}) == Approx(1.6));
    }
  // Two nodes of two: of an all-to-all 1/4 stays in the node, 2/4 cross to the other.
  Played both(sample::cluster(2, 2, 2));
  both.begin(CollectiveKind::AllToAll, 0.8 * sample::kCard * 2, 1, {0, 1, 2, 3});
  both.priced.send(0, 2, 0.8 * sample::kCard, 1, {0, 1});
  both.run();
  CHECK(both.ends.at({0, 1}) == Approx(1.6));
}

TEST_CASE("what moves nothing disturbs nobody, and a message of no time arrives at once") {
  Played p(sample::cluster(1, 2, 0));
  p.begin(CollectiveKind::Broadcast, 1e12, 0.5, {0, 1});
  p.priced.send(0, 1, 0.9 * sample::kPort, 1, {0, 1});
  p.priced.send(1, 0, 1e9, 0, {1, 1});
  p.run();
  CHECK(p.ends.at({0, 0}) == Approx(0.5));
  CHECK(p.ends.at({0, 1}) == Approx(1));
  CHECK(p.ends.at({1, 1}) == 0);
}

TEST_CASE("calls of one group follow each other, calls of other groups go beside them") {
  Played p(sample::cluster(1, 4, 0));
  for (const std::uint64_t run : {0, 1})
    for (const int rank : {0, 1}) p.priced.join({CollectiveKind::AllReduce, 1e9, run == 0 ? 0.25 : 0.5, 0, run}, {0, 1}, {rank, run});
  for (const int rank : {2, 3}) p.priced.join({CollectiveKind::AllReduce, 1e9, 0.75, 0, 0}, {2, 3}, {rank, 0});
  p.run();
  CHECK(p.ends.at({0, 0}) == Approx(0.25));
  CHECK(p.ends.at({1, 1}) == Approx(0.5));
  CHECK(p.ends.at({3, 0}) == Approx(0.75));
  CHECK(p.priced.count() == 3);
}

namespace {

/// Four devices wired to their neighbours round a ring, 1 B/s each way.
platforms::Platform ring_of_wires() {
  auto platform = sample::chain(4);
  platform.nodes.front().intra.wires.push_back({3, 0, 1});
  platform.nodes.front().intra.bandwidth = BytesPerSecond(1);
  return platform;
}

/// Three nodes of one device on a ring with links of 1 B/s, two of which are a node's card.
platforms::Platform ring_of_nodes() {
  auto platform = sample::cluster(3, 1, 1);
  platform.topology.kind = "torus";
  platform.topology.parameters = {{"dims", {3}}};
  platform.topology.bandwidth = BytesPerSecond(1);
  platform.nodes.front().nic.bandwidth = BytesPerSecond(2);
  return platform;
}

/// How long a message takes that fills its links for a second, beside a sum of all ranks that does so for as long.
double beside_a_sum(const platforms::Platform& platform, const std::vector<int>& group, double bytes, std::pair<int, int> ends) {
  Played p(platform);
  p.begin(CollectiveKind::AllReduce, bytes, 1, group);
  p.priced.send(ends.first, ends.second, 1, 1, {99, 0});
  p.run();
  return p.ends.at({99, 0});
}

}  // namespace

TEST_CASE("a collective goes one way round its ranks, inside nodes and between them") {
  // Round four devices 2·3/4 of 2/3 B are 1 B a second on every wire from one device to the next, and nothing on those back.
  for (int device = 0; device < 4; ++device) {
    INFO("device " << device);
    CHECK(beside_a_sum(ring_of_wires(), {0, 1, 2, 3}, 2.0 / 3, {device, (device + 1) % 4}) == Approx(2));
    CHECK(beside_a_sum(ring_of_wires(), {0, 1, 2, 3}, 2.0 / 3, {(device + 1) % 4, device}) == Approx(1));
  }
  // Of two devices the ring is their wire, both ways: 2·1/2 of 1 B.
  CHECK(beside_a_sum(ring_of_wires(), {0, 1}, 1, {0, 1}) == Approx(2));
  CHECK(beside_a_sum(ring_of_wires(), {0, 1}, 1, {1, 0}) == Approx(2));
  CHECK(beside_a_sum(ring_of_wires(), {0, 1}, 1, {2, 3}) == Approx(1));
  // Round three nodes 2·2/3 of 3/4 B, half of it on each of the two links of a node. 3/2 B want a link of 1 B/s.
  for (int node = 0; node < 3; ++node) {
    INFO("node " << node);
    CHECK(beside_a_sum(ring_of_nodes(), {0, 1, 2}, 0.75, {node, (node + 1) % 3}) == Approx(1.5));
    CHECK(beside_a_sum(ring_of_nodes(), {0, 1, 2}, 0.75, {(node + 1) % 3, node}) == Approx(1));
  }
}

TEST_CASE("a shift's messages go one way each, though a node's card is several links") {
  // Two passed on of 1/2 B each: 1 B a second over a link of 1 B/s, beside a message that wants as much.
  Played p(ring_of_nodes());
  p.begin(CollectiveKind::Shift, 0.5, 1, {0, 1, 2});
  p.priced.send(0, 1, 1, 1, {99, 0});
  p.run();
  CHECK(p.ends.at({99, 0}) == Approx(2));
}

TEST_CASE("ranks of a node share what goes to other nodes, each over its own card") {
  // Two nodes of two ranks and two cards. Between nodes each card carries half of what a rank alone would: 2·1/2 / 2 of a sum, 1/2 / 2 of
  // what is gathered or scattered, 2/4 of an all-to-all, three shifts. 0.8 of a card, beside a message that takes as much: 1.6 s for one.
  for (const auto& [kind, part] : {std::pair{CollectiveKind::AllReduce, 0.5},
                                   {CollectiveKind::AllGather, 0.25},
                                   {CollectiveKind::ReduceScatter, 0.25},
                                   {CollectiveKind::AllToAll, 0.5},
                                   {CollectiveKind::Shift, 3.0}})
    for (const auto& [from, to] : {std::pair{0, 2}, {1, 3}, {2, 0}, {3, 1}}) {
      INFO(costmodel::name(kind) << ", from " << from << " to " << to);
      Played p(sample::cluster(2, 2, 2));
      p.begin(kind, 0.8 * sample::kCard / part, 1, {0, 1, 2, 3});
      p.priced.send(from, to, 0.8 * sample::kCard, 1, {from, 1});
      p.run();
      CHECK(p.ends.at({from, 1}) == Approx(1.6));
      CHECK(p.ends.at({0, 0}) == Approx(1.6));
    }
  // Inside, two ranks sum: 2·1/2 of the vector.
  Played inside(sample::cluster(2, 2, 2));
  inside.begin(CollectiveKind::AllReduce, 0.8 * sample::kPort, 1, {0, 1});
  inside.priced.send(0, 1, 0.4 * sample::kPort, 0.5, {0, 1});  // 0.8 of the port for half a second
  inside.run();
  CHECK(inside.ends.at({0, 1}) == Approx(0.8));
  // A node with one rank of the group beside one with two: all three cards that have a rank are loaded.
  Played uneven(sample::cluster(2, 2, 2));
  uneven.begin(CollectiveKind::AllReduce, 0.8 * sample::kCard / 0.5, 1, {0, 1, 2});
  uneven.priced.send(1, 3, 0.8 * sample::kCard, 1, {1, 1});  // over the card of rank 1
  uneven.run();
  CHECK(uneven.ends.at({1, 1}) == Approx(1.6));
}

TEST_CASE("a call that is over may be called again") {
  Played p(sample::cluster(1, 2, 0));
  p.begin(CollectiveKind::AllReduce, 1e9, 0.5, {0, 1});
  p.then = [&] { p.begin(CollectiveKind::AllReduce, 1e9, 0.25, {0, 1}); };
  p.run();
  CHECK(p.ends.at({1, 0}) == Approx(0.75));
  CHECK(p.priced.count() == 2);
}
