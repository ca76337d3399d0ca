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

TEST_CASE("steps take no longer than the closed form, and no less than the fullest link needs") {
  for (const auto& gpus : std::vector<std::vector<int>>{{0, 1, 3, 5}, {0, 1, 2, 3, 4}, {0, 1, 3, 4, 5, 7}, {0, 1, 2, 3, 4, 5, 6, 7}}) {
    const auto wiring = dgx1_wiring(gpus);
    const PackedTrees trees(wiring);
    const std::int64_t count = 16384 * 32;
    const auto steps = steps_on(trees, wiring.ranks, count);
    // A link's lanes are shared by the trees that use it: a message gets its tree's part of them.
    std::map<std::pair<int, int>, double> load;
    for (const auto& tree : trees.trees())
      for (int v = 0; v < wiring.ranks; ++v)
        if (const int up = tree.parent[static_cast<std::size_t>(v)]; up >= 0) load[std::minmax(v, up)] += tree.share;
    const double chunk = 4.0 * 16384;
    const auto message = [&](int from, int to, Bytes) {
      return Seconds(1e-6) + Bytes(chunk * load[std::minmax(from, to)]) / BytesPerSecond(kUnit * wiring.between(from, to));
    };
    const double played = Play(steps, {message, BytesPerSecond(1e12)}).run();
    const Bytes size(4.0 * static_cast<double>(count));
    const double closed = trees.time(size, {Seconds(1e-6), BytesPerSecond(kUnit), BytesPerSecond(1e12)}).value();
    INFO(wiring.ranks << " GPUs: played " << played << " s, closed form " << closed << " s");
    CHECK(played <= closed * 1.001);
    CHECK(played >= size.value() / (kUnit * trees.rate()) * 0.999);
  }
}

TEST_CASE("ranks that no link reaches are refused") {
  CHECK_THROWS_AS(PackedTrees(wired(3, {{0, 1, 1}})), Refusal);
  CHECK_THROWS_WITH(PackedTrees(wired(3, {{0, 1, 1}})), contains("do not connect all 3 ranks"));
}
