// Shares of the batch that differ: what a plan names, and what follows from how quick replicas are.
#include "plan/batch_shares.hpp"

#include <algorithm>
#include <numeric>

#include "base/error.hpp"
#include "base/random.hpp"
#include "plan/block.hpp"
#include "tests/catch.hpp"

using namespace rehearsal;
using namespace rehearsal::plan;

namespace {

using Samples = std::vector<std::int64_t>;

Plan with(const char* text) { return parse_plan(text); }

std::string refusal(const std::string& shares) {
  try {
    (void)parse_plan("dp=2,shares=" + shares);
  } catch (const BadInput& problem) {
    return problem.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("shares are written with how often they come, and read again") {
  CHECK(shares_in("3:1") == Samples{3, 1});
  CHECK(shares_in("24x2:8") == Samples{24, 24, 8});
  CHECK(text_of_shares({24, 24, 8, 8, 8, 1}) == "24x2:8x3:1");
  CHECK(to_text(with("dp=4,shares=2:2:1:1")) == "dp=4,shares=2x2:1x2");
  CHECK(to_text(with("dp=4,shares=speed")) == "dp=4");
  CHECK(to_text(with("dp=4,shares=equal")) == "dp=4,shares=equal");
  for (const auto* bad : {"3:", ":3", "0:1", "-1:2", "3:x", "x2", "3x0", "half", "1.5:1", "3;1", "1x99999999999"}) {
    INFO(bad);
    CHECK_THAT(refusal(bad), contains("shares=" + std::string(bad)));
  }
  CHECK_THAT(refusal("half"), contains("equal, speed, or whole numbers from 1 up"));
  CHECK_THAT(refusal("1x9999999:1x9999999"), contains("more than 10000000 replicas"));
}

TEST_CASE("samples follow the shares and add up to the batch") {
  CHECK(samples_of_replicas(8, with("dp=2,shares=3:1")) == Samples{6, 2});
  CHECK(samples_of_replicas(7, with("dp=3,shares=3:2:1")) == Samples{4, 2, 1});  // 3.5, 2.33, 1.17: the first loses most by rounding
  CHECK(samples_of_replicas(7, with("dp=3")) == Samples{2, 2, 3});               // as block() has them
  CHECK(has_uneven_shares(8, with("dp=2,shares=3:1")));
  CHECK_FALSE(has_uneven_shares(8, with("dp=2,shares=5:5")));
  CHECK_FALSE(has_uneven_shares(2, with("dp=2,shares=5:4")));  // 1 and 1
}

TEST_CASE("a replica has as many micro-batches as its own samples make, and equal replicas have equally many") {
  CHECK(micro_batches_of_replicas(8, with("dp=2,shares=3:1,micro_batch=2")) == std::vector{3, 1});
  CHECK(micro_batches_of_replicas(8, with("dp=2,shares=5:3,micro_batch=2")) == std::vector{3, 2});
  CHECK(micro_batches_of_replicas(8, with("dp=2,shares=3:1")) == std::vector{1, 1});
  CHECK(micro_batches_of_replicas(7, with("dp=2,micro_batch=2")) == std::vector{2, 2});
}

TEST_CASE("replicas end together: what one takes for all its samples, another takes for fewer") {
  // 12 samples, one replica three times as quick: 9 and 3.
  CHECK(samples_by_pace(12, 1, {{0, 1}, {0, 3}}) == Samples{9, 3});
  // 2 s of updates for the second one: t = (12 + 2) / 2 = 7, and 7 - 2 = 5 samples of a second each.
  CHECK(samples_by_pace(12, 1, {{0, 1}, {2, 1}}) == Samples{7, 5});
  CHECK(samples_by_pace(12, 4, {{0, 1}, {0, 3}}) == Samples{8, 4});    // units of 4: 2.25 and 0.75
  CHECK(samples_by_pace(13, 4, {{0, 3}, {0, 1}}) == Samples{4, 9});    // the odd one for the quicker
  CHECK(samples_by_pace(4, 1, {{0, 1}, {0, 1000}}) == Samples{3, 1});  // nobody has none
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    std::uint64_t drawn = 0;
    const auto uniform = [&] { return random_uniform(seed, 1, drawn++); };
    std::vector<ReplicaPace> paces;
    for (int n = 1 + static_cast<int>(6 * uniform()); n > 0; --n) paces.push_back({uniform(), 0.1 + uniform()});
    const auto batch = static_cast<std::int64_t>(paces.size()) + static_cast<std::int64_t>(100 * uniform());
    const auto samples = samples_by_pace(batch, 1, paces);
    INFO(seed);
    CHECK(std::accumulate(samples.begin(), samples.end(), std::int64_t{0}) == batch);
    CHECK(*std::ranges::min_element(samples) >= 1);
    const auto end = [&](const Samples& s) {
      double last = 0;
      for (std::size_t r = 0; r < s.size(); ++r) last = std::max(last, paces[r].fixed + paces[r].per_sample * static_cast<double>(s[r]));
      return last;
    };
    Samples equal;
    for (std::size_t r = 0; r < samples.size(); ++r)
      equal.push_back(block(batch, static_cast<std::int64_t>(samples.size()), static_cast<std::int64_t>(r)).count());
    CHECK(end(samples) <= end(equal) + 1.1);  // rounding moves one sample, of at most 1.1 s
  }
}
