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
  // Two ranks exchange as many bytes as they sum: 8 GB in two seconds are 4 GB/s, of the 10 that a card has; 16 GB are 8, and two of them 16.
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
