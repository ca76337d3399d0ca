// Replicas that meet one by one, with their neighbours or pair by pair, against the definitions of their papers: ranks that are each alone
// with their part of every batch, whose weights are put together here.
#include <cmath>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "plan/plan.hpp"
#include "tests/exec/executor/halves.hpp"

using namespace rehearsal;
using namespace rehearsal::exec;
using namespace rehearsal::exec::sample;

namespace {

constexpr int kSteps = 7;  ///< with meetings every two or three: the last step has one of its own
constexpr std::int64_t kBatch = 8;

struct Way {
  std::string keys;
  int every = 1;
  double pull = 0;  ///< elastic, where above 0
  bool gossips = false;
  bool adds = false;  ///< ways of pairs, adaptively
};

/// Mean of the values of several replicas.
Values mean_of(const std::vector<Values>& all, const std::vector<std::size_t>& which) {
  auto mean = all.front();
  for (auto& [name, values] : mean)
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = 0;
      for (const auto r : which) values[i] += all[r].at(name)[i] / static_cast<double>(which.size());
    }
  return mean;
}

/// x_r -= a (x_r - c), c += a sum_r (x_r - c), a = pull / replicas: Zhang, Choromanska, LeCun 2015, equations 2 and 3.
void meet_elastically(std::vector<Values>& all, Values& center, double pull) {
  const double a = pull / static_cast<double>(all.size());
  for (auto& [name, middle] : center)
    for (std::size_t i = 0; i < middle.size(); ++i) {
      const double before = middle[i];
      for (auto& replica : all) {
        auto& x = replica.at(name)[i];
        const double pulled = a * (x - before);
        x -= pulled;
        middle[i] += pulled;
      }
    }
}

/// (1 - a·b / 2|a|²) a + (1 - a·b / 2|b|²) b: Maleki et al. 2021, equation 5.
std::vector<double> adaptive_sum(const std::vector<double>& a, const std::vector<double>& b) {
  double aa = 0, ab = 0, bb = 0;
  for (std::size_t i = 0; i < a.size(); ++i) aa += a[i] * a[i], ab += a[i] * b[i], bb += b[i] * b[i];
  auto sum = a;
  for (std::size_t i = 0; i < a.size(); ++i) sum[i] = (aa > 0 ? 1 - ab / (2 * aa) : 1) * a[i] + (bb > 0 ? 1 - ab / (2 * bb) : 1) * b[i];
  return sum;
}

/// The ways from `before`, pair by pair, then pair of pairs by pair of pairs.
void meet_adaptively(std::vector<Values>& all, Values& before) {
  for (auto& [name, begin] : before) {
    std::vector<std::vector<double>> ways;
    for (auto& replica : all) {
      ways.push_back(replica.at(name));
      for (std::size_t i = 0; i < begin.size(); ++i) ways.back()[i] -= begin[i];
    }
    for (; ways.size() > 1; ways.resize(ways.size() / 2))
      for (std::size_t pair = 0; pair < ways.size() / 2; ++pair) ways[pair] = adaptive_sum(ways[2 * pair], ways[2 * pair + 1]);
    for (std::size_t i = 0; i < begin.size(); ++i) begin[i] += ways[0][i];
    for (auto& replica : all) replica.at(name) = begin;
  }
}

void meet(std::deque<Alone>& ranks, const Way& way, Values& center) {
  std::vector<Values> all;
  std::vector<std::size_t> everyone;
  for (auto& rank : ranks) {
    everyone.push_back(all.size());
    all.push_back(rank.weights());
  }
  const auto before = all;
  const auto n = all.size();
  if (way.pull > 0) meet_elastically(all, center, way.pull);
  if (way.adds) meet_adaptively(all, center);
  for (std::size_t r = 0; r < n && way.pull == 0 && !way.adds; ++r) {
    auto with = everyone;
    if (way.gossips && n > 2) with = {(r + n - 1) % n, r, (r + 1) % n};
    all[r] = mean_of(before, with);
  }
  for (std::size_t r = 0; r < n; ++r) ranks[r].set_weights(all[r]);
}

std::vector<double> defined_losses(Communicator& world, const std::string& model, int replicas, const Way& way) {
  const Case part{model, kBatch / replicas, "dp=1"};
  std::deque<Alone> ranks;
  for (int r = 0; r < replicas; ++r) ranks.emplace_back(world, part);
  const auto data = synthetic_data(sample::training_of({model, kBatch, "dp=1"}), 1);
  auto center = ranks[0].weights();
  std::vector<double> losses;
  for (int step = 0; step < kSteps; ++step) {
    double sum = 0;
    for (int r = 0; r < replicas; ++r) {
      Half samples(*data, ((replicas - 1) * step + r) * part.batch);
      sum += ranks[static_cast<std::size_t>(r)].step(step, samples);
    }
    losses.push_back(sum / replicas);
    if ((step + 1) % way.every == 0) meet(ranks, way, center);
  }
  return losses;
}

const std::vector<Way> kWays{{"local_steps=1,staleness=0"},
                             {"local_steps=3,staleness=0,servers=1", 3},
                             {"local_steps=2,staleness=0,outer=elastic", 2, 0.9},
                             {"local_steps=1,staleness=0,servers=2,outer=elastic:0.4", 1, 0.4},
                             {"local_steps=2,staleness=0,servers=at:1", 2},
                             {"local_steps=2,outer=gossip", 2, 0, true},
                             {"local_steps=1,outer=adasum", 1, 0, false, true},
                             {"local_steps=3,outer=adasum", 3, 0, false, true}};

struct Laid {
  std::string plan;
  int ranks, replicas;
};
const std::vector<Laid> kPlans{{"dp=2", 2, 2},      {"dp=2,micro_batch=2", 2, 2}, {"dp=4", 4, 4}, {"dp=2,pp=2,micro_batch=2", 4, 2},
                               {"dp=2,tp=2", 4, 2}, {"dp=4,overlap=off", 4, 4}};

}  // namespace

// Before this process is a rank itself: ranks that it launches would inherit its marks.
TEST_CASE("replicas that run ahead of each other end behind the same step when one of them is to stop") {
  for (const std::string who : {"stop:0:3", "stop:3:4"}) {
    std::vector<Case> cases;
    for (const std::string keys : {"local_steps=1,staleness=0", "local_steps=1,staleness=1", "local_steps=3,staleness=2",
                                   "local_steps=2,staleness=any", "local_steps=1,staleness=any,outer=elastic"})
      cases.push_back({"mlp", kBatch, "dp=4," + keys});
    for (const auto& [text, losses] : printed_of(cases, 4, "200 " + who)) {
      INFO(text << " " << who);
      CHECK(losses.size() >= 4);
      // Who wants to stop is at most 17 steps behind rank 0, and rank 0 as many behind another. Wishes travel, too.
      CHECK(losses.size() <= 5 + 3 * 17);
    }
  }
}

TEST_CASE("replicas that meet at a center without staleness, gossip, or add adaptively do what the papers say") {
  std::map<std::string, std::vector<double>> losses;
  for (const int ranks : {2, 4}) {
    std::vector<Case> cases;
    for (const std::string model : {"mlp", "gpt"})
      for (const auto& laid : kPlans)
        for (const auto& way : kWays)
          if (laid.ranks == ranks) cases.push_back({model, kBatch, laid.plan + "," + way.keys});
    losses.merge(printed_of(cases, ranks, std::to_string(kSteps) + " -"));
  }
  // As far ahead as they may be, losses are those of no definition; they begin as the others do, and stay near.
  const std::vector<Case> stale{{"mlp", kBatch, "dp=4,local_steps=1,staleness=2"},
                                {"mlp", kBatch, "dp=4,local_steps=2,staleness=any"},
                                {"mlp", kBatch, "dp=2,tp=2,local_steps=1,staleness=any,outer=elastic"}};
  const auto apart = printed_of(stale, 4, std::to_string(kSteps) + " -");
  MpiSession session;  // after the launches
  for (const std::string model : {"mlp", "gpt"})
    for (const auto& way : kWays)
      for (const int replicas : {2, 4}) {
        const auto defined = defined_losses(session.world(), model, replicas, way);
        for (const auto& laid : kPlans) {
          if (laid.replicas != replicas) continue;
          const auto text = sample::to_text({model, kBatch, laid.plan + "," + way.keys});
          INFO(text);
          REQUIRE(losses.at(text).size() == kSteps);
          for (std::size_t step = 0; step < kSteps; ++step)
            CHECK(std::abs(losses.at(text)[step] - defined[step]) <= 1e-9 * std::abs(defined[step]));
        }
      }
  const auto together = defined_losses(session.world(), "mlp", 4, {"", 1});
  for (const auto& [text, found] : apart) {
    INFO(text);
    REQUIRE(found.size() == kSteps);
    CHECK(found[0] == Approx(together[0]).epsilon(1e-9));
    for (std::size_t step = 1; step < kSteps; ++step) CHECK(found[step] == Approx(together[step]).epsilon(0.5));
  }
}

TEST_CASE("replicas that meet in part refuse what would have them wait, and what the plan cannot mean") {
  for (const auto& [key, why] : std::vector<std::pair<std::string, std::string>>{
           {"dp=2,staleness=1", "staleness: is for replicas when they meet"},
           {"dp=2,servers=1", "servers: is for replicas when they meet"},
           {"dp=2,local_steps=2,outer=elastic", "use staleness=0, where all wait for all"},
           {"dp=2,local_steps=2,servers=1", "hold the center"},
           {"dp=2,local_steps=2,staleness=0,servers=3", "3 are more than the 2 replicas"},
           {"dp=2,local_steps=2,staleness=0,servers=at:0+2", "numbered 0 to 1; there is no replica 2"},
           {"dp=2,local_steps=2,staleness=1,outer=nesterov", "is of all replicas at once"},
           {"dp=2,local_steps=2,staleness=1,outer=gossip", "is of all replicas at once"}}) {
    INFO(key);
    const Case c{"mlp", 8, key};
    CHECK_THROWS_WITH(sample::program_of(c, sample::training_of(c)), contains(why));
  }
  const Case normalizes{"cnn", 8, "dp=2,local_steps=2,staleness=1"};
  CHECK_THROWS_WITH(sample::program_of(normalizes, sample::training_of(normalizes)), contains("use bn=local"));
}
