// Cuts that are found against all ways to cut.
#include "plan/schedules/even_cuts.hpp"

#include <algorithm>
#include <functional>

#include "base/random.hpp"
#include "tests/catch.hpp"

using namespace rehearsal;
using namespace rehearsal::plan;

namespace {

struct CutResult {
  double longest = 0, widest = 0;
  [[nodiscard]] double sum() const { return longest + widest; }
};

CutResult result_of(const CutRow& row, const std::vector<std::size_t>& cuts) {
  CutResult found;
  for (std::size_t s = 0; s < row.stages; ++s) {
    const auto& costs = row.costs[row.costs.size() == 1 ? 0 : s];
    const std::size_t first = s == 0 ? 0 : cuts[s - 1], end = s + 1 == row.stages ? costs.size() : cuts[s];
    REQUIRE(first < end);
    double time = 0;
    for (std::size_t i = first; i < end; ++i) time += costs[i];
    found.longest = std::max(found.longest, time);
  }
  for (const auto cut : cuts) found.widest = std::max(found.widest, row.crossing[cut]);
  return found;
}

/// Calls back with every way to cut.
void all_cuts(const CutRow& row, std::vector<std::size_t>& cuts, const std::function<void()>& visit) {
  if (cuts.size() + 1 == row.stages) return visit();
  for (std::size_t at = cuts.empty() ? 1 : cuts.back() + 1; at < row.crossing.size(); ++at) {
    cuts.push_back(at);
    all_cuts(row, cuts, visit);
    cuts.pop_back();
  }
}

}  // namespace

TEST_CASE("no other cuts make the longest stage and the widest cut shorter together") {
  std::uint64_t drawn = 0;
  const auto below = [&](std::uint64_t n) { return random_bits(7, 0, drawn++) % n; };
  for (int round = 0; round < 200; ++round) {
    const std::size_t stages = 2 + below(3), pieces = stages + below(6);
    CutRow row{stages, {}, std::vector<double>(pieces, 0.0)};
    row.costs.resize(below(2) ? 1 : stages, std::vector<double>(pieces));
    for (auto& costs : row.costs)
      for (double& cost : costs) cost = static_cast<double>(below(10));
    for (double& crossing : row.crossing) crossing = static_cast<double>(below(8));
    const auto found = result_of(row, even_cuts(row));
    std::vector<std::size_t> cuts;
    double least = found.sum();
    all_cuts(row, cuts, [&] { least = std::min(least, result_of(row, cuts).sum()); });
    INFO("round " << round);
    CHECK(found.sum() == Approx(least));
  }
}

TEST_CASE("sixteen equal blocks between little and little are cut in the middle") {
  // Between them 1 crosses, within them 2 to 4.
  CutRow row{2, {{}}, {}};
  for (int block = 0; block < 16; ++block)
    for (int piece = 0; piece < 4; ++piece) {
      row.costs.front().push_back(1);
      row.crossing.push_back(piece + 1);
    }
  row.costs.front().front() += 0.3;
  row.costs.front().back() += 0.9;
  CHECK(even_cuts(row) == std::vector<std::size_t>{32});
  row.stages = 4;
  CHECK(even_cuts(row) == std::vector<std::size_t>{16, 32, 48});
}

TEST_CASE("a device that has two stages takes as long as both") {
  // There and back: the first device has the first and the last stage. 1 | 3 2 | 3 | 2 is the only way to stages of at most 5 ... of which
  // the outer ones take 3 and the inner ones 8; 1 3 | 2 | 3 | 2 takes 6 and 5.
  CutRow row{4, {{1, 3, 2, 3, 2}}, {0, 0, 0, 0, 0}, {0, 1, 1, 0}};
  CHECK(even_cuts(row) == std::vector<std::size_t>{2, 3, 4});
}
