// Copies between local tensors: everything that both hold, once, in as few runs as there can be.
#include "plan/sharding/copies.hpp"

#include <map>

#include "base/random.hpp"
#include "tests/catch.hpp"

using namespace rehearsal;
using namespace rehearsal::plan;

namespace {

struct CopiedRun {
  std::int64_t from, to, count;
  bool operator==(const CopiedRun&) const = default;
};

std::vector<CopiedRun> runs_of(const BlockCopy& copy) {
  std::vector<CopiedRun> runs;
  copy.for_each_run([&](std::int64_t from, std::int64_t to, std::int64_t count) { runs.push_back({from, to, count}); });
  return runs;
}

/// Places of a region's elements in memory, by where they are in a whole tensor of less than 100 along every dimension.
std::map<std::int64_t, std::int64_t> places_of(const Region& region) {
  std::vector<std::int64_t> whole{0};
  for (const IndexSet& set : region) {
    std::vector<std::int64_t> longer;
    for (const auto outer : whole)
      for (const Range& r : set)
        for (auto i = r.begin; i < r.end; ++i) longer.push_back(outer * 100 + i);
    whole = std::move(longer);
  }
  std::map<std::int64_t, std::int64_t> places;
  for (std::size_t n = 0; n < whole.size(); ++n) places[whole[n]] = static_cast<std::int64_t>(n);
  return places;
}

/// Where the elements of one come to in the other, by brute force.
std::map<std::int64_t, std::int64_t> pairs_of(const Region& from, const Region& to) {
  const auto there = places_of(to);
  std::map<std::int64_t, std::int64_t> pairs;
  for (const auto& [element, place] : places_of(from))
    if (const auto at = there.find(element); at != there.end()) pairs[place] = at->second;
  return pairs;
}

IndexSet drawn_set(std::uint64_t seed, std::uint64_t stream) {
  IndexSet set;
  std::int64_t at = 0;
  for (std::uint64_t n = 0; n < 1 + random_bits(seed, stream, 0) % 3; ++n) {
    at += static_cast<std::int64_t>(random_bits(seed, stream, 2 * n + 1) % 3) + (n > 0 ? 1 : 0);
    const auto end = at + 1 + static_cast<std::int64_t>(random_bits(seed, stream, 2 * n + 2) % 4);
    set.push_back({at, end});
    at = end;
  }
  return set;
}

}  // namespace

TEST_CASE("what two regions have in common is copied once, from where it is to where it belongs") {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    Region from, to;
    for (std::uint64_t d = 0; d < seed % 4; ++d) from.push_back(drawn_set(seed, 2 * d)), to.push_back(drawn_set(seed, 2 * d + 1));
    const auto expected = pairs_of(from, to);
    std::map<std::int64_t, std::int64_t> found;
    for (const auto& run : runs_of(BlockCopy(from, to, 5, 7)))
      for (std::int64_t i = 0; i < run.count; ++i) CHECK(found.emplace(run.from + i - 5, run.to + i - 7).second);
    INFO("seed " << seed);
    CHECK(found == expected);
    CHECK(element_count(intersection(from, to)) == static_cast<std::int64_t>(expected.size()));
    CHECK(element_count(from) == static_cast<std::int64_t>(places_of(from).size()));
    CHECK(contains(from, to) == (expected.size() == places_of(to).size()));
  }
}

TEST_CASE("copies have as few runs as there can be") {
  const Region whole{{{0, 4}}, {{0, 3}}, {{0, 5}}};
  CHECK(runs_of(BlockCopy(whole, whole)) == std::vector<CopiedRun>{{0, 0, 60}});
  // Rows 1 and 2: what is inside a row is whole.
  CHECK(runs_of(BlockCopy(whole, {{{1, 3}}, {{0, 3}}, {{0, 5}}})) == std::vector<CopiedRun>{{15, 0, 30}});
  // Of every row the columns 1 and 2, which are whole inside.
  CHECK(runs_of(BlockCopy({{{0, 2}}, {{0, 3}}, {{0, 5}}}, {{{0, 2}}, {{1, 3}}, {{0, 5}}})) ==
        std::vector<CopiedRun>{{5, 0, 10}, {20, 10, 10}});
  // Two elements of each innermost five.
  CHECK(runs_of(BlockCopy({{{0, 2}}, {{0, 5}}}, {{{0, 2}}, {{3, 5}}})) == std::vector<CopiedRun>{{3, 0, 2}, {8, 2, 2}});
  // Ranges apart in the whole that lie side by side in both.
  CHECK(runs_of(BlockCopy({{{0, 2}, {5, 8}}}, {{{0, 2}, {5, 9}}})) == std::vector<CopiedRun>{{0, 0, 5}});
  CHECK(runs_of(BlockCopy({{{0, 2}, {5, 8}}}, {{{0, 3}, {5, 8}}})) == std::vector<CopiedRun>{{0, 0, 2}, {2, 3, 3}});
  CHECK(runs_of(BlockCopy({{{0, 3}, {5, 8}}}, {{{0, 2}, {5, 8}}})) == std::vector<CopiedRun>{{0, 0, 2}, {3, 2, 3}});
  // As long as the other, but not the same elements.
  CHECK(runs_of(BlockCopy({{{0, 2}}, {{0, 4}}}, {{{0, 2}}, {{2, 6}}})) == std::vector<CopiedRun>{{2, 0, 2}, {6, 4, 2}});
  CHECK(runs_of(BlockCopy({{{0, 2}}}, {{{2, 4}}})).empty());
  CHECK(runs_of(BlockCopy({}, {})) == std::vector<CopiedRun>{{0, 0, 1}});  // a scalar
  CHECK(runs_of(BlockCopy()).empty());
  CHECK(whole_region({2, 3}) == Region{{{0, 2}}, {{0, 3}}});
  CHECK(intersection({{{0, 4}, {6, 9}}}, {{{2, 7}}}) == Region{{{2, 4}, {6, 7}}});
  CHECK(intersection({{{0, 4}}}, {{{0, 2}, {2, 3}}}) == Region{{{0, 3}}});  // joined where they meet
}
