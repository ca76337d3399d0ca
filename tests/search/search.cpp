// What a search finds is what trying everything finds.
#include "search/search.hpp"

#include <algorithm>
#include <cstdio>

#include "base/error.hpp"
#include "costmodel/cost_model.hpp"
#include "graph/zoo/zoo.hpp"
#include "plan/recompute/recompute.hpp"
#include "plan/schedules/schedule.hpp"
#include "platforms/catalog.hpp"
#include "predict/frameworks/framework_predictor.hpp"
#include "predict/lowered_predictor.hpp"
#include "predict/violations.hpp"
#include "tests/catch.hpp"
#include "tests/search/oracle.hpp"

using namespace rehearsal;
using namespace rehearsal::plan;
using namespace rehearsal::predict;
using namespace rehearsal::search;
using namespace rehearsal::search::oracle;

TEST_CASE("a search of our own execution finds what trying every plan finds") {
  const std::vector<std::string> free{"dp", "tp", "pp", "cp", "micro_batch", "zero", "schedule", "recompute"};
  const OwnExecution setting(4);
  const auto predictor = setting.predictor();
  std::vector<std::string> plans;
  for (const int ranks : {1, 2, 4})
    for (const int pp : divisors(ranks))
      for (const int tp : divisors(ranks / pp))
        for (const int cp : divisors(ranks / pp / tp)) {
          const int dp = ranks / pp / tp / cp;
          std::vector<std::string> schedules{"1f1b"};
          if (pp > 1)
            schedules = {"1f1b",
                         "gpipe",
                         "zb-h1",
                         "zb-v",
                         "dualpipe",
                         "dualpipe-v",
                         "interleaved,interleave=2",
                         "interleaved,interleave=4",
                         "breadth-first,interleave=2",
                         "breadth-first,interleave=4"};
          const auto some = texts({{"dp", numbers({dp})},
                                   {"tp", numbers({tp})},
                                   {"pp", numbers({pp})},
                                   {"cp", numbers({cp})},
                                   {"micro_batch", numbers(divisors(4 / dp))},
                                   {"zero", numbers(dp * cp > 1 ? std::vector{0, 1, 2, 3} : std::vector{0})},
                                   {"schedule", schedules}});
          plans.insert(plans.end(), some.begin(), some.end());
        }
  const auto all = tried(*predictor, plans);
  REQUIRE(all.size() > 100);
  for (const char* name : {"time", "cost"}) {
    const auto& row = *objective(name);
    const auto result = found(*predictor, name, free);
    CHECK(result.exhausted);
    const auto& best = *std::ranges::min_element(all, {}, row.value);
    INFO(to_text(best.plan) << " against " << to_text(result.plans.front().answer.plan));
    CHECK(row.value(result.plans.front().answer) == Approx(row.value(best)).epsilon(1e-9));
    CHECK(std::ranges::is_sorted(result.plans, {}, [&](const RankedPlan& p) { return row.value(p.answer); }));
    CHECK(result.plans.front().why_not.empty());
    for (std::size_t n = 1; n < result.plans.size(); ++n) CHECK_FALSE(result.plans[n].why_not.empty());
  }
}

TEST_CASE("plans that differ in nothing that matters are one") {
  Megatron setting(4, 80e9);
  SearchOptions options;
  options.fixed = parse_plan("dp=4,micro_batch=4");
  options.free = {"recompute"};  // attention is one kernel, which keeps nothing: selective recomputation changes nothing
  options.objective = "memory";
  options.top = 10;
  Progress progress;
  const auto result = search::search(*setting.predictor, options, progress);
  std::size_t alike = 0;
  for (const auto& p : result.plans) alike += p.alike.size();
  for (const auto& p : result.plans) UNSCOPED_INFO(to_text(p.answer.plan) << " " << p.answer.memory_bytes << " " << p.alike.size());
  CHECK(alike == 1);
  CHECK(result.plans.size() == 5);  // none and selective, full, and a quarter, half and three quarters of it
  options.folds = false;
  CHECK(search::search(*setting.predictor, options, progress).plans.size() == 6);
}

TEST_CASE("a limit is kept, and one that nothing keeps is named with what comes nearest") {
  Megatron setting(8, 80e9);
  SearchOptions options;
  Progress progress;
  const auto quickest = search::search(*setting.predictor, options, progress).plans.front().answer;
  options.limits = {parse_limit("devices=2")};
  const auto few = search::search(*setting.predictor, options, progress);
  for (const auto& p : few.plans) CHECK(p.answer.ranks <= 2);
  // Less memory than the quickest takes: another plan, slower.
  options.limits = {parse_limit("memory=" + std::to_string(quickest.memory_bytes * 7 / 8) + "B")};
  const auto lean = search::search(*setting.predictor, options, progress).plans.front().answer;
  CHECK(lean.memory_bytes <= quickest.memory_bytes * 7 / 8);
  CHECK(lean.step >= quickest.step);
  options.limits = {parse_limit("step=1us")};
  try {
    static_cast<void>(search::search(*setting.predictor, options, progress));
    FAIL("a plan was found");
  } catch (const Refusal& refusal) {
    CHECK_THAT(refusal.what(), contains("no plan keeps the limits: the nearest is " + to_text(quickest.plan)) && contains("step") &&
                                   contains("--limit step="));
  }
  options.steps = 1000;  // limits of money are of the whole training
  char cost[40];
  std::snprintf(cost, sizeof cost, "cost=%.6f", 1000 * quickest.cost.money.value() * 1.5);
  options.limits = {parse_limit(cost)};
  CHECK(search::search(*setting.predictor, options, progress).plans.front().answer.step == quickest.step);
  for (const char* wrong : {"out-of-memory=2", "out-of-memory=often", "out-of-memory=5s", "speed=1", "step", "step=2", "step=-1s",
                            "cost=many", "memory=3s", "devices=0"})
    CHECK_THROWS_WITH(parse_limit(wrong), contains("--limit " + std::string(wrong)));
  CHECK(parse_limit("total=72h").most == 72 * 3600);
  CHECK(parse_limit("energy=10MWh").most == Approx(36e9));
  CHECK(parse_limit("cost=20k").most == 20000);
  CHECK(parse_limit("out-of-memory=5%").most == Approx(0.05));
  CHECK(parse_limit("Out_of_Memory=5%").row == parse_limit("out-of-memory=5%").row);
  CHECK(parse_limit("out-of-memory=0.2").most == Approx(0.2));
}

TEST_CASE("what failures add to a training is ranked and limited with it, and a plan that never ends is none") {
  Megatron setting(8, 80e9);
  SearchOptions options;
  Progress progress;
  const auto quickest = search::search(*setting.predictor, options, progress).plans.front().answer;
  REQUIRE(quickest.ranks == 8);
  // Four devices finish as if nothing failed, more need a hundred times as long and as much money.
  options.steps = 1000;
  options.goodput = [](const Assessment& a) -> std::optional<Goodput> {
    Goodput g;
    g.run = {a.step, 1000, 1000};
    const double times = a.ranks > 4 ? 100 : 1;
    g.finished = g.run.undisturbed() * times;
    g.cost = {a.cost.energy * 1000 * times, a.cost.money * 1000 * times, 0};
    return g;
  };
  for (const char* name : {"time", "cost", "energy"}) {
    options.objective = name;
    const auto result = search::search(*setting.predictor, options, progress);
    INFO(name);
    CHECK(result.exhausted);
    CHECK(result.plans.front().answer.ranks <= 4);
    const auto& row = *objective(name);
    CHECK(std::ranges::is_sorted(result.plans, {}, [&](const RankedPlan& p) { return row.value(p.answer); }));
  }
  options.objective = "memory";  // which eight devices need least of
  CHECK(search::search(*setting.predictor, options, progress).plans.front().answer.ranks == 8);
  char total[40];
  std::snprintf(total, sizeof total, "total=%.6fs", quickest.step.value() * 1000 * 50);
  options.limits = {parse_limit(total)};
  CHECK(search::search(*setting.predictor, options, progress).plans.front().answer.ranks <= 4);

  SearchOptions refusing;
  refusing.goodput = [](const Assessment& a) -> std::optional<Goodput> {
    if (a.ranks > 2) throw Refusal("would not end");
    return std::nullopt;
  };
  const auto result = search::search(*setting.predictor, refusing, progress);
  CHECK(result.plans.front().answer.ranks == 2);
  CHECK(result.pruned.at("cannot run") > 0);
}

TEST_CASE("a list of plans is ranked as it is, and what cannot be is refused with its reason") {
  Megatron setting(8, 12e9);
  std::vector<Plan> plans;
  for (const char* text : {"dp=8,micro_batch=1", "dp=8,zero=1,micro_batch=1", "dp=8,zero=2,micro_batch=1", "dp=5", "dp=4,tp=3", "dp=1"})
    plans.push_back(parse_plan(text));
  SearchOptions options;
  options.top = 10;
  Progress progress;
  Predictor* const one = setting.predictor.get();
  const auto result = ranked(std::span(&one, 1), plans, options, progress);
  CHECK(result.plans.size() + result.refused.size() == plans.size());
  REQUIRE(result.refused.size() >= 3);
  for (const auto& r : result.refused) {
    INFO(r.plan << ": " << r.reason);
    if (r.plan == "dp=5") CHECK_THAT(r.reason, contains("dp"));
    if (r.plan == "dp=1") CHECK_THAT(r.reason, contains("GB"));
    CHECK(r.reason.size() > 10);
  }
  for (const auto& p : result.plans) CHECK(p.answer.step == setting.predictor->closed(p.answer.plan).step);
}

TEST_CASE("the best plans are played before they are ranked") {
  /// Takes twice as long as the closed form for the plan that this says is quickest.
  class Contrary final : public StepEvaluator {
   public:
    explicit Contrary(Plan quickest) : quickest_(std::move(quickest)) {}
    [[nodiscard]] std::string_view name() const override { return "contrary"; }
    [[nodiscard]] StepCost evaluate(const EvaluationRequest& request) override {
      auto cost = closed_form_evaluator()->evaluate(request);
      ++played;
      if (request.program.plan == quickest_) cost.step = 2 * cost.step;
      return cost;
    }
    int played = 0;

   private:
    Plan quickest_;
  };
  Megatron setting(8, 80e9);
  SearchOptions options;
  Progress progress;
  const auto closed = search::search(*setting.predictor, options, progress);
  Contrary contrary(closed.plans.front().answer.plan);
  options.player = &contrary;
  options.confirm = 3;
  const auto played = search::search(*setting.predictor, options, progress);
  CHECK(contrary.played == 3);
  CHECK(played.plans.front().answer.plan != closed.plans.front().answer.plan);
  CHECK(played.plans.front().played);
  CHECK(played.plans[2].answer.plan == closed.plans.front().answer.plan);
  CHECK(played.plans[2].closed.step == closed.plans.front().answer.step);
  CHECK_FALSE(played.plans[3].played);
}

TEST_CASE("a search that is stopped returns the best so far") {
  class StopsAfter final : public Progress {
   public:
    [[nodiscard]] bool stop_requested() const override { return ++asked_ > 40; }

   private:
    mutable int asked_ = 0;
  };
  Megatron setting(16, 80e9);
  StopsAfter stop;
  const auto result = search::search(*setting.predictor, {}, stop);
  CHECK_FALSE(result.exhausted);
  REQUIRE(!result.plans.empty());
  CHECK(result.searched < 60);
}

TEST_CASE("a budget of time is kept") {
  Megatron unhurried(16, 80e9), hurried(16, 80e9);  // one each: what a predictor has once built makes it quicker
  Progress progress;
  const auto whole = search::search(*unhurried.predictor, {}, progress);
  REQUIRE(whole.exhausted);
  SearchOptions options;
  options.seconds = whole.seconds / 10;
  const auto result = search::search(*hurried.predictor, options, progress);
  CHECK_FALSE(result.exhausted);
  CHECK(result.looked_at() > 0);
}

TEST_CASE("the same search gives the same plans") {
  const OwnExecution setting;
  const auto plans_of = [&](const std::string& objective) {
    std::vector<std::string> plans;
    for (const auto& p : found(*setting.predictor(), objective, {"dp", "pp", "tp", "micro_batch"}).plans)
      plans.push_back(to_text(p.answer.plan));
    return plans;
  };
  for (const auto* objective : {"time", "pareto"}) CHECK(plans_of(objective) == plans_of(objective));
  SearchOptions options;
  options.plans = 3;
  Progress progress;
  const auto some = search::search(*setting.predictor(), options, progress);
  CHECK(some.searched == 3);
  CHECK_FALSE(some.exhausted);
}

TEST_CASE("when nothing fits the search says by how much") {
  OwnExecution setting;
  const std::vector<std::string> free{"dp", "pp", "tp", "zero", "micro_batch", "recompute"};
  const auto least = found(*setting.predictor(), "memory", free).plans.front().answer;
  // One byte less than the leanest plan needs: it alone is the nearest, and misses by that byte.
  setting.set_memory(static_cast<double>(least.memory_bytes - 1));
  try {
    (void)found(*setting.predictor(), "time", free);
    FAIL("a plan was found");
  } catch (const Refusal& refusal) {
    INFO(refusal.what());
    CHECK_THAT(refusal.what(), contains("no plan can run"));
    CHECK_THAT(refusal.what(), contains("1 B more"));
  }
  // One byte more, and it is found.
  setting.set_memory(static_cast<double>(least.memory_bytes));
  const auto result = found(*setting.predictor(), "time", free);
  CHECK(result.plans.front().answer.memory_bytes <= least.memory_bytes);  // a budget may be met by less than the named choices need
  CHECK(result.pruned.at("does not fit in memory") > 0);
}

TEST_CASE("shapes of which every plan is refused are not said to be too large") {
  // 64 thousand weights on 80 GB each: whatever cannot be done, memory is no reason.
  const auto platform = platforms::with_devices(platforms::load("dgx-a100"), 16);
  const auto predictor = predict::frameworks::framework_predictor(
      {graph::zoo::build("gpt?layers=2&hidden=32&heads=2&seq=16&vocab=64", 16), "bf16", "adam", {}}, platform,
      *costmodel::find_framework("megatron-core"));
  const auto result = found(*predictor, "time", {"dp", "tp", "pp", "cp", "zero", "micro_batch", "recompute"});
  CHECK(result.pruned.at("cannot run") > 0);
  CHECK(result.pruned.count("does not fit in memory") == 0);
}

TEST_CASE("a plan that leaves nothing to search says itself why it cannot run") {
  Megatron setting(8, 80e9);
  SearchOptions options;
  options.fixed = parse_plan("dp=3");
  Progress progress;
  CHECK_THROWS_WITH(search::search(*setting.predictor, options, progress), contains("3 replicas do not divide"));
}

TEST_CASE("when nothing fits that is searched, the search names what would") {
  // Adam's two moments and copy of 125 million weights are 1.5 GB: more than half of what a step of one short sample needs.
  auto platform = platforms::with_devices(platforms::load("dgx-a100"), 1);
  const auto job = [&] {
    return predict::frameworks::framework_predictor({graph::zoo::build("gpt2?seq=64", 1), "bf16", "adam", {}}, platform,
                                                    *costmodel::find_framework("pytorch"));
  };
  const auto whole = job()->closed(parse_plan("dp=1")), offloaded = job()->closed(parse_plan("dp=1,offload=optimizer"));
  REQUIRE(offloaded.memory_bytes < whole.memory_bytes);
  platform.nodes.front().device.memory.value = Bytes(static_cast<double>(offloaded.memory_bytes));
  CHECK_THROWS_WITH(found(*job(), "time", {"recompute"}), contains("offload=optimizer it needs") && contains("put them into --plan"));
}

TEST_CASE("a plan that does not fit recomputes as little as lets it fit") {
  OwnExecution setting;
  SearchOptions options;
  options.fixed = parse_plan("dp=1");
  options.free = {"recompute"};
  const auto evaluator = closed_form_evaluator();
  const auto job = setting.job();
  const auto bytes = [&](const char* plan) { return assess(job, parse_plan(plan), *evaluator).memory_bytes; };
  const auto selective = bytes("recompute=selective"), full = bytes("recompute=full");
  REQUIRE(full < selective);
  REQUIRE(selective < bytes("dp=1"));
  Progress progress;
  const auto best = [&](double memory) {
    setting.set_memory(memory);
    return search::search(*setting.predictor(), options, progress).plans.front().answer;
  };
  CHECK(best(static_cast<double>(bytes("dp=1"))).plan.recompute.rule == RecomputeRule::None);
  CHECK(best(static_cast<double>(selective)).plan.recompute.rule == RecomputeRule::Selective);
  // Between the two: quicker than full.
  const auto between = (selective + full) / 2;
  const auto middle = best(static_cast<double>(between));
  CHECK(middle.memory_bytes <= between);
  CHECK(middle.plan.recompute.rule == RecomputeRule::Budget);
  CHECK(middle.step <= assess(job, parse_plan("recompute=full"), *evaluator).step);
  setting.set_memory(static_cast<double>(full - 1));
  CHECK_THROWS_WITH(search::search(*setting.predictor(), options, progress), contains("recompute=full"));
}

TEST_CASE("a framework recomputes as many blocks as let a plan fit, and no more") {
  SearchOptions options;
  options.fixed = parse_plan("dp=4,micro_batch=4");
  options.free = {"recompute"};
  Progress progress;
  Megatron roomy(4, 80e9);
  const auto of = [&](const char* value) {
    return roomy.predictor->closed(parse_plan("dp=4,micro_batch=4,recompute=" + std::string(value)));
  };
  const auto none = of("none"), quarter = of("full:2"), half = of("full:4"), most = of("full:6"), full = of("full");
  CHECK(none.memory_needed > quarter.memory_needed);
  CHECK(quarter.memory_needed > half.memory_needed);
  CHECK(half.memory_needed > most.memory_needed);
  CHECK(most.memory_needed > full.memory_needed);
  const auto best = [&](std::int64_t bytes) {
    Megatron tight(4, static_cast<double>(bytes));
    return to_text(search::search(*tight.predictor, options, progress).plans.front().answer.plan.recompute);
  };
  CHECK(best(none.memory_needed) == "none");
  CHECK(best(none.memory_needed - 1) == "full:2");
  CHECK(best(quarter.memory_needed - 1) == "full:4");
  CHECK(best(half.memory_needed - 1) == "full:6");
  CHECK(best(most.memory_needed - 1) == "full");
}

TEST_CASE("what is fixed stays fixed, and unknown objectives are named") {
  const OwnExecution setting;
  SearchOptions options;
  options.fixed = parse_plan("dp=2,pp=2,allreduce=ring,micro_batch=1");
  options.free = {"schedule"};
  options.top = 100;
  Progress progress;
  const auto result = search::search(*setting.predictor(), options, progress);
  options.folds = false;
  CHECK(result.plans.size() > 2);  // gpipe, 1f1b, zb-h1 and more
  for (const auto& [a, closed, played, why, alike] : result.plans) {
    CHECK(a.plan.dp == 2);
    CHECK(a.plan.micro_batch == 1);
    CHECK(a.plan.allreduce == "ring");
    CHECK_FALSE(schedule(a.plan.schedule).asynchronous);  // other mathematics only when it is asked for
  }
  options.fixed = parse_plan("pp=2,micro_batch=1,schedule=pipedream-2bw");
  options.free = {"dp"};
  const auto asked = search::search(*setting.predictor(), options, progress);
  REQUIRE(!asked.plans.empty());
  for (const auto& p : asked.plans) CHECK(schedule(p.answer.plan.schedule).asynchronous);
  options.objective = "beauty";
  CHECK_THROWS_WITH(search::search(*setting.predictor(), options, progress), contains("beauty"));
}

TEST_CASE("several platforms are one choice, and share the budget") {
  const OwnExecution here;
  OwnExecution there;
  there.set_platform(platforms::with_devices(platforms::load("dgx-h100"), 4));
  const auto ours = here.predictor(), theirs = there.predictor();
  const std::vector<Predictor*> jobs{ours.get(), theirs.get()};
  SearchOptions options;
  options.top = 10000;
  options.free = {"dp", "tp", "micro_batch"};
  Progress progress;
  const auto both = search::search(jobs, options, progress);
  const auto first = search::search(*jobs[0], options, progress), second = search::search(*jobs[1], options, progress);
  CHECK(both.plans.size() == first.plans.size() + second.plans.size());
  CHECK(both.searched == first.searched + second.searched);
  CHECK(both.plans.front().answer.platform == "dgx-h100");
  CHECK(both.plans.front().answer.step == second.plans.front().answer.step);
  const auto on_a100 = [](const RankedPlan& p) { return p.answer.platform == "dgx-a100"; };
  const auto best_here = std::ranges::find_if(both.plans, on_a100);
  REQUIRE(best_here != both.plans.end());
  CHECK(best_here->answer.step == first.plans.front().answer.step);
  CHECK_THAT(best_here->why_not, contains("% more time"));
  options.plans = 9;  // four on the first, the other five on the second
  options.folds = false;
  const auto some = search::search(jobs, options, progress);
  CHECK(some.searched == 9);
  CHECK_FALSE(some.exhausted);
  CHECK(std::ranges::count_if(some.plans, on_a100) == 4);
}

TEST_CASE("auto is the quickest value of one key, the others stay") {
  const OwnExecution setting;
  const auto job = setting.job();
  const auto evaluator = closed_form_evaluator();
  const auto best = with_best_values(*setting.predictor(), parse_plan("dp=2,tp=2,zero=auto"));
  CHECK(best.searched.empty());
  CHECK(best.dp == 2);
  CHECK(best.tp == 2);
  for (const int zero : {0, 1, 2, 3})
    CHECK(assess(job, best, *evaluator).step <= assess(job, parse_plan("dp=2,tp=2,zero=" + std::to_string(zero)), *evaluator).step);
  CHECK_THROWS_WITH(with_best_values(*setting.predictor(), parse_plan("dp=4,compression=auto")), contains("compression"));
}
