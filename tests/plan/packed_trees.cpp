#include "plan/collectives/packed_trees.hpp"

#include <algorithm>
#include <array>
#include <map>

#include "base/error.hpp"
#include "tests/catch.hpp"
#include "tests/plan/collective_play.hpp"

using namespace rehearsal;
using namespace rehearsal::plan;
using namespace rehearsal::plan::played;

namespace {

Steps steps_on(const PackedTrees& trees, int ranks, std::int64_t count) {
  Steps steps;
  for (int r = 0; r < ranks; ++r) steps.push_back(trees.steps(r, count));
  return steps;
}

Wiring wired(int ranks, const std::vector<std::array<int, 3>>& links) {
  Wiring w{ranks, std::vector<double>(static_cast<std::size_t>(ranks * ranks), 0.0)};
  for (const auto& [a, b, capacity] : links)
    w.capacity[static_cast<std::size_t>(a * ranks + b)] = w.capacity[static_cast<std::size_t>(b * ranks + a)] = capacity;
  return w;
}

constexpr double kUnit = 25e9;  // B/s of one NVLink, each way

}  // namespace

TEST_CASE("trees use links that exist, span all ranks, and share out the whole vector") {
  for (const auto& gpus :
       std::vector<std::vector<int>>{{0, 1}, {0, 1, 2}, {1, 4, 5, 7}, {0, 1, 2, 3, 4}, {0, 1, 3, 4, 5, 7}, {0, 1, 2, 3, 4, 5, 6}}) {
    INFO(gpus.size() << " GPUs from " << gpus.front() << " to " << gpus.back());
    const auto wiring = dgx1_wiring(gpus);
    const PackedTrees trees(wiring);
    double shares = 0;
    for (const auto& tree : trees.trees()) {
      shares += tree.share;
      int roots = 0;
      for (int v = 0; v < wiring.ranks; ++v) {
        const int up = tree.parent[static_cast<std::size_t>(v)];
        roots += up < 0 ? 1 : 0;
        if (up >= 0) CHECK(wiring.between(v, up) > 0);
      }
      CHECK(roots == 1);
    }
    CHECK(shares == Approx(1.0));
  }
}

TEST_CASE("the packing comes near to what cuts allow") {
  // 3 GPUs in a triangle of single links: two trees of two links each can use at most 3 links, 3/2 trees at a time
  CHECK(PackedTrees(wired(3, {{0, 1, 1}, {1, 2, 1}, {0, 2, 1}})).rate() > 1.4);
  CHECK(PackedTrees(wired(3, {{0, 1, 1}, {1, 2, 1}, {0, 2, 1}})).rate() <= 1.5 + 1e-9);
  // a chain is its own only tree
  CHECK(PackedTrees(wired(4, {{0, 1, 2}, {1, 2, 1}, {2, 3, 2}})).rate() == Approx(1.0));
  CHECK(PackedTrees(wired(3, {{0, 1, 1}, {1, 2, 2}})).rate() == Approx(1.0));
  CHECK(PackedTrees(wired(3, {{0, 1, 2}, {1, 2, 1}})).rate() == Approx(1.0));
  CHECK(PackedTrees(wired(3, {{0, 1, 3}, {0, 2, 2}})).rate() == Approx(2.0));
  // all of a DGX-1: 24 lanes, 7 a tree: at most 24/7 = 3.43
  const double whole = PackedTrees(dgx1_wiring({0, 1, 2, 3, 4, 5, 6, 7})).rate();
  CHECK(whole <= 24.0 / 7 + 1e-9);
  CHECK(whole > 0.85 * 24.0 / 7);
  // GPUs 0, 1, 3 and 5: a ring is impossible (5 is wired to 1 alone, by 2 lanes); 0, 1, 3 have lanes 1, 1, 2
  const PackedTrees uneven(dgx1_wiring({0, 1, 3, 5}));
  CHECK(uneven.rate() > 1.8);  // the cut around GPU 5 has 2 lanes, the one around GPU 1 and 5 has 2 as well
  CHECK(uneven.rate() <= 2 + 1e-9);
}

TEST_CASE("every rank ends with the sum on irregular wirings") {
  const std::vector<Wiring> wirings{dgx1_wiring({0, 1, 3, 5}), dgx1_wiring({0, 1, 2, 3, 4}), dgx1_wiring({0, 1, 3, 4, 5, 7}),
                                    dgx1_wiring({1, 2, 3, 4, 5, 6, 7}), wired(5, {{0, 1, 1}, {1, 2, 3}, {2, 3, 1}, {3, 4, 2}, {4, 1, 1}})};
  for (const auto& wiring : wirings)
    for (const std::int64_t count : {1, 17, 1000, 70'000}) {
      const PackedTrees trees(wiring);
      const auto steps = steps_on(trees, wiring.ranks, count);
      Play play(steps, {[](int, int, Bytes) { return Seconds(1); }, BytesPerSecond(1e9)});
      for (int r = 0; r < wiring.ranks; ++r) {
        auto& own = play.memory.emplace_back(static_cast<std::size_t>(count));
        for (std::size_t e = 0; e < own.size(); ++e) own[e] = static_cast<double>((e % 7 + 1) << (3 * r));
      }
      REQUIRE(play.run() >= 0);
      bool right = true;
      for (const auto& own : play.memory)
        for (std::size_t e = 0; e < own.size(); ++e) {
          double sum = 0;
          for (int r = 0; r < wiring.ranks; ++r) sum += static_cast<double>((e % 7 + 1) << (3 * r));
          right = right && own[e] == sum;
        }
      INFO(wiring.ranks << " ranks, " << count << " elements");
      CHECK(right);
    }
}

TEST_CASE("steps take the time of their slots, and no less than the fullest link needs") {
  for (const auto& gpus : std::vector<std::vector<int>>{{0, 1, 3, 5}, {0, 1, 2, 3, 4}, {0, 1, 3, 4, 5, 7}, {0, 1, 2, 3, 4, 5, 6, 7}}) {
    const auto wiring = dgx1_wiring(gpus);
    const PackedTrees trees(wiring);
    const std::int64_t count = 16384 * 32;
    const auto steps = steps_on(trees, wiring.ranks, count);
    // A link's lanes are shared by the trees that use it: all messages on it take as long as it is busy with a chunk of theirs.
    std::map<std::pair<int, int>, double> load;
    for (const auto& tree : trees.trees())
      for (int v = 0; v < wiring.ranks; ++v)
        if (const int up = tree.parent[static_cast<std::size_t>(v)]; up >= 0) load[std::minmax(v, up)] += tree.share;
    const auto message = [&](int from, int to, Bytes) {
      return Seconds(1e-6) + Bytes(4.0 * 16384 * load[std::minmax(from, to)]) / BytesPerSecond(kUnit * wiring.between(from, to));
    };
    const double played = Play(steps, {message, BytesPerSecond(1e15)}).run();
    const Bytes size(4.0 * static_cast<double>(count));
    const auto ends = [&](std::span<const PackedTrees::Message> messages, Bytes chunk) {
      CHECK(chunk.value() == Approx(4.0 * 16384));
      std::vector<PackedTrees::Ends> all;
      for (const auto& m : messages) all.push_back({message(m.from, m.to, {}), message(m.from, m.to, {})});
      return all;
    };
    const double closed = trees.time(size, ends).value();
    INFO(wiring.ranks << " GPUs: played " << played << " s, closed form " << closed << " s");
    CHECK(played == Approx(closed).epsilon(1e-4));
    CHECK(played >= size.value() / (kUnit * trees.rate()) * 0.999);
  }
}

namespace {

double chain_of_three(double bytes, const CollectiveLinks& links) {
  return collective(CollectiveKind::AllReduce, "packed-trees").closed_form(3, Bytes(bytes), links).value();
}

/// Members wired in a row, each way 10 GB/s and 1 us, 3 us between the ends over both wires.
CollectiveLinks row_of_three() {
  CollectiveLinks links{Seconds(1e-6), Seconds(1e-6), BytesPerSecond(10e9), BytesPerSecond(10e9), BytesPerSecond(20e9), 3};
  const auto way = [](double latency, const std::vector<std::uint32_t>& wires) {
    MemberWays::Way made{Seconds(latency), {}};
    for (const auto wire : wires) made.shares.push_back({wire, BytesPerSecond(10e9)});
    return made;
  };
  links.members.links = 4;  // 0 to 1, 1 to 2, 1 to 0, 2 to 1
  links.members.ways = {way(0, {}),     way(1e-6, {0}),    way(3e-6, {0, 1}), way(1e-6, {2}), way(0, {}),
                        way(1e-6, {1}), way(3e-6, {3, 2}), way(1e-6, {3}),    way(0, {})};
  return links;
}

}  // namespace

TEST_CASE("the closed form of packed trees by hand, on one port for each rank") {
  const auto& row = collective(CollectiveKind::AllReduce, "packed-trees");
  // Two ranks have one tree of one level. 40 kB are one chunk: up 1 + 40 kB / 10 GB/s = 4 and 40 kB / 20 GB/s = 2 to add, down 1 + 4 us.
  CollectiveLinks links{Seconds(1e-6), Seconds(7e-6), BytesPerSecond(10e9), BytesPerSecond(2e9), BytesPerSecond(20e9), 2};
  CHECK(row.closed_form(2, Bytes(40e3), links).value() == Approx(12e-6));
  // 3 chunks of 16,384 floats, 65,536 B each: 6.5536 us to move and half of that to add. The first goes up, the next two go up while one
  // comes down, the last comes down: four slots of 1 + 6.5536, three of which add.
  CHECK(row.closed_form(2, Bytes(3 * 65536.0), links).value() == Approx((4 * 7.5536 + 3 * 3.2768) * 1e-6));
  // Between two nodes: 7 + 20 + 2, then 7 + 20 us; where the cards have half of that for all ranks of a node, 40 for 20.
  links.ranks_per_node = 1;
  CHECK(row.closed_form(2, Bytes(40e3), links).value() == Approx(56e-6));
  links.node_outer = BytesPerSecond(1e9);
  CHECK(row.closed_form(2, Bytes(40e3), links).value() == Approx(96e-6));
  CHECK(row.closed_form(1, Bytes(40e3), links).value() == 0);
  // Three ranks have two trees, each with half of the vector: two of a rank's edges share its port. See below which.
  const auto trees = PackedTrees(dgx1_wiring({0, 1, 2})).trees();
  REQUIRE(trees.size() == 2);
  CHECK(trees[0].root == 1);
  CHECK(trees[1].root == 2);
  CHECK(trees[0].share == Approx(0.5));
}

TEST_CASE("messages of packed trees that cross one wire share it, and a rank adds them one after the other") {
  // 60 kB, each tree has 30 kB: 3 us over a wire, 1.5 us to add. Up: 0 and 2 send to 1, 0 and 1 to 2. Wire 0-1 carries what goes from 0 to
  // 1 and, 2 us later, to 2; wire 1-2 what goes from 1 and, 2 us later, from 0 to 2: both are free at 1 + 3 + 3 = 7. What goes from 2 to 1
  // has its wire alone: 4. Rank 1 has added at 4 + 1.5 and 7 + 1.5 = 8.5, rank 2 both of its own, which come at 7, at 10. Down: rank 0 is
  // there at 7. 1 sends to 0 and to 2, 2 to 0 and to 1. Wire 1-0 carries what comes from 1 and from 2, wire 2-1 what goes from 2 to either:
  // 7 us; from 1 to 2 it takes 4. So what comes from 1 is there at 15.5, and what comes from 2 at 17.
  CHECK(chain_of_three(60e3, row_of_three()) == Approx(17e-6));
  // Additions that take as long as messages do: rank 1 has added at 4 + 3 and 7 + 3 = 10, rank 2 at 7 + 6 = 13, and all end at 20.
  auto slow = row_of_three();
  slow.reduction = BytesPerSecond(10e9);
  CHECK(chain_of_three(60e3, slow) == Approx(20e-6));
}

TEST_CASE("ranks that no link reaches are refused") {
  CHECK_THROWS_AS(PackedTrees(wired(3, {{0, 1, 1}})), Refusal);
  CHECK_THROWS_WITH(PackedTrees(wired(3, {{0, 1, 1}})), contains("do not connect all 3 ranks"));
}
