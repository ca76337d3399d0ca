// Replicas that train by themselves, against the definitions of their papers: two ranks, each alone with its half of every batch, whose
// weights are put together here.
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

constexpr int kSteps = 7;  ///< with meetings every three: the last step has one of its own

struct Way {
  std::string outer = "average";
  int every = 3;
  double rate = 1, momentum = 0;  ///< of the outer step; 1 and 0: the mean
};

/// What both have after a meeting: from `met`, a step of SGD with Nesterov momentum along met - mean.
void meet(std::deque<Alone>& ranks, const Way& way, Values& met, Values& velocities) {
  const auto first = ranks[0].weights(), second = ranks[1].weights();
  for (auto& [name, values] : met) {
    auto& velocity = velocities[name];
    velocity.resize(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double along = values[i] - (first.at(name)[i] + second.at(name)[i]) / 2;
      velocity[i] = way.momentum * velocity[i] + along;
      values[i] -= way.rate * (along + way.momentum * velocity[i]);
    }
  }
  for (auto& rank : ranks) rank.set_weights(met);
}

std::vector<double> defined_losses(Communicator& world, const Case& whole, const Way& way) {
  Case half = whole;
  half.batch /= 2;
  std::deque<Alone> ranks;
  for (int r = 0; r < 2; ++r) ranks.emplace_back(world, half);
  const auto data = synthetic_data(sample::training_of(whole), 1);
  auto met = ranks[0].weights();
  Values velocities;
  std::vector<double> losses;
  for (int step = 0; step < kSteps; ++step) {
    double sum = 0;
    for (int r = 0; r < 2; ++r) {
      Half samples(*data, (step + r) * half.batch);
      sum += ranks[static_cast<std::size_t>(r)].step(step, samples);
    }
    losses.push_back(sum / 2);
    if ((step + 1) % way.every == 0) meet(ranks, way, met, velocities);
  }
  return losses;
}

}  // namespace

// Before this process is a rank itself: ranks that it launches would inherit its marks.
TEST_CASE("two replicas that meet every few steps do what the papers say") {
  const std::vector<Way> ways{{}, {"average", 1}, {"nesterov:0.7:0.9", 2, 0.7, 0.9}, {"nesterov:1:0", 3}};
  const std::vector<std::pair<std::string, int>> plans{
      {"dp=2", 2}, {"dp=2,overlap=off", 2}, {"dp=2,micro_batch=2", 2}, {"dp=2,pp=2,micro_batch=2", 4}, {"dp=2,tp=2", 4}};
  const auto plan_of = [](const std::string& plan, const Way& way) {
    return plan + ",local_steps=" + std::to_string(way.every) + (way.outer == "average" ? "" : ",outer=" + way.outer);
  };
  std::map<std::string, std::vector<double>> losses;
  for (const int ranks : {2, 4}) {
    std::vector<Case> cases;
    for (const std::string model : {"mlp", "gpt"})
      for (const auto& [plan, wanted] : plans)
        for (const auto& way : ways)
          if (wanted == ranks) cases.push_back({model, 8, plan_of(plan, way)});
    losses.merge(printed_of(cases, ranks, std::to_string(kSteps) + " -"));
  }
  // Each replica with statistics of its own samples, in the gradients of a norm's parameters as well.
  const Way average{"average", 2};
  const Case normalized{"cnn", 8, "dp=2,bn=local,local_steps=2"}, one_by_one{"cnn", 8, "dp=2,bn=local,local_steps=2,staleness=0"};
  const auto normal = printed_of({normalized, one_by_one}, 2, std::to_string(kSteps) + " -");
  MpiSession session;  // after the launches
  const auto own = defined_losses(session.world(), {"cnn", 8, "dp=1"}, average);
  for (const auto& [text, found] : normal) {
    INFO(text);
    REQUIRE(found.size() == kSteps);
    for (std::size_t step = 0; step < kSteps; ++step) CHECK(std::abs(found[step] - own[step]) <= 1e-6 * std::abs(own[step]));
  }
  for (const std::string model : {"mlp", "gpt"})
    for (const auto& way : ways) {
      const auto defined = defined_losses(session.world(), {model, 8, "dp=1"}, way);
      for (const auto& [plan, ranks] : plans) {
        const auto text = sample::to_text({model, 8, plan_of(plan, way)});
        INFO(text);
        REQUIRE(losses.at(text).size() == kSteps);
        for (std::size_t step = 0; step < kSteps; ++step)
          CHECK(std::abs(losses.at(text)[step] - defined[step]) <= 1e-6 * std::abs(defined[step]));
      }
    }
}

TEST_CASE("replicas that train by themselves refuse what would leave a gradient or a parameter in parts") {
  for (const auto& [key, why] : std::vector<std::pair<std::string, std::string>>{
           {"dp=2,zero=1,local_steps=2", "zero=1 gives each a part"},
           {"dp=2,compression=topk,local_steps=2", "gradients do not travel"},
           {"dp=2,pp=2,micro_batch=1,schedule=dualpipe,local_steps=2", "two ranks have halves"},
           {"dp=2,shares=3:1,local_steps=2", "equally many samples"},
           {"dp=3,local_steps=2", "a batch that dp divides"},
           {"dp=2,outer=nesterov", "local_steps=0 lets them never part"}}) {
    INFO(key);
    const Case c{"mlp", 8, key};
    CHECK_THROWS_WITH(sample::program_of(c, sample::training_of(c)), contains(why));
  }
}

TEST_CASE("steps of replicas that meet, by hand") {
  plan::Plan p;
  p.local_steps = 3, p.exact_steps = 2;
  // Steps 0 and 1 sum gradients, and 4, 7, 10 meet.
  CHECK_FALSE(plan::kind_of_step(p, 1).later);
  CHECK(plan::kind_of_step(p, 2).later);
  for (const int step : {2, 3, 5, 6, 8, 9}) CHECK_FALSE(plan::kind_of_step(p, step).meets);
  for (const int step : {4, 7, 10}) CHECK(plan::kind_of_step(p, step).meets);
}
