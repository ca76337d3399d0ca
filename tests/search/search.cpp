// What a search finds is what trying everything finds.
#include "search/search.hpp"

#include <algorithm>
#include <map>

#include "base/error.hpp"
#include "costmodel/cost_model.hpp"
#include "graph/zoo/zoo.hpp"
#include "plan/recompute/recompute.hpp"
#include "plan/schedules/schedule.hpp"
#include "platforms/catalog.hpp"
#include "predict/lowered_predictor.hpp"
#include "predict/violations.hpp"
#include "tests/catch.hpp"

using namespace rehearsal;
using namespace rehearsal::plan;
using namespace rehearsal::predict;
using namespace rehearsal::search;

namespace {

/// A small GPT on four devices of the catalogue, whose memory can be set.
struct Setting {
  explicit Setting(int count = 4) : devices(count) {}

  int devices;
  graph::TrainingGraph training =
      graph::build_training_graph(graph::with_initial_values(graph::zoo::build("gpt?layers=2&hidden=64&heads=2&seq=32&vocab=96", 4)), {});
  std::shared_ptr<const graph::LogicalDims> dims = std::make_shared<const graph::LogicalDims>(training.graph);
  platforms::Platform platform = platforms::with_devices(platforms::load("dgx-a100"), devices);
  TableBackend backend;
  costmodel::CostModel model{platforms::device_of(platform, 0), {}, costmodel::profile("rehearse"), "f32"};

  [[nodiscard]] std::unique_ptr<Predictor> predictor() const { return lowered_predictor(job()); }
  [[nodiscard]] Job job() const { return {training, dims, platform, backend, model, "f32"}; }
  void set_memory(double bytes) { platform.nodes.front().device.memory = Bytes(bytes); }
};

SearchResult found(const Setting& setting, const std::string& objective) {
  SearchOptions options;
  options.objective = objective;
  options.top = 10000;
  options.splits_samples = true;
  Progress progress;
  return search::search(*setting.predictor(), options, progress);
}

/// Every plan written down by loops of its own, assessed; those that can run and fit.
std::vector<Assessment> brute_force(const Setting& setting, bool recomputing = false) {
  std::vector<Assessment> all;
  const auto job = setting.job();
  const auto evaluator = closed_form_evaluator();
  // Where stages begin is not searched: it follows from the operators' costs.
  std::map<std::pair<int, int>, std::vector<std::string>> cuts;
  for (const auto& a : found(setting, "memory").plans) cuts[{a.plan.dp, a.plan.pp}] = a.plan.cuts;
  const auto try_plan = [&](const std::string& text) {
    auto plan = parse_plan(text);
    plan.cuts = cuts[{plan.dp, plan.pp}];
    if (!validate(setting.training, plan).empty()) return;
    auto a = assess(job, plan, *evaluator);
    if (a.fits()) all.push_back(std::move(a));
  };
  const auto try_shared = [&](const std::string& text, int dp) {
    const bool tp = text.find(",tp=1") == std::string::npos, cp = text.find(",cp=1") == std::string::npos;
    for (const int zero : {0, 1, 3})
      for (const auto* sequence : {"off", "on"})
        for (const auto* attention : {"gather", "all-to-all", "ring"})
          for (const auto* recompute : {"none", "selective", "full"})
            if ((zero == 0 || dp > 1) && (tp || std::string(sequence) == "off") && (cp || std::string(attention) == "gather") &&
                (recomputing || std::string(recompute) == "none"))
              try_plan(text + ",zero=" + std::to_string(zero) + ",sequence_parallel=" + sequence + ",attention=" + attention +
                       ",recompute=" + recompute);
  };
  for (const int dp : {1, 2, 4})
    for (const int pp : {1, 2, 4})
      for (const auto* size : {"", ",micro_batch=1", ",micro_batch=2", ",micro_batch=4"})
        for (const auto* order : {"1f1b", "gpipe", "zb-h1"}) {
          const bool whole = std::string(size).empty() || std::stoi(std::string(size).substr(13)) == 4 / dp;
          if (pp == 1 && std::string(order) != "1f1b") continue;
          if (whole && std::string(size).empty() != (pp == 1)) continue;  // a replica's whole batch is written in one way
          for (const int tp : {1, 2, 4})
            for (const int cp : {1, 2, 4})
              if (dp * pp * tp * cp <= setting.devices)
                try_shared("dp=" + std::to_string(dp) + ",pp=" + std::to_string(pp) + size + ",schedule=" + order +
                               ",tp=" + std::to_string(tp) + ",cp=" + std::to_string(cp),
                           dp);
        }
  return all;
}

std::vector<std::string> texts(const std::vector<Assessment>& plans) {
  std::vector<std::string> out;
  for (const auto& a : plans) out.push_back(to_text(a.plan));
  return out;
}

}  // namespace

TEST_CASE("a search finds what trying every plan finds") {
  for (const auto& row : objective_table()) {
    INFO(row.name);
    // What fits is only recomputed for the sake of memory: three plans of each, so of fewer devices.
    const bool recomputing = row.name == "memory";
    const Setting setting(recomputing ? 2 : 4);
    const auto all = brute_force(setting, recomputing);
    REQUIRE(all.size() > 10);
    const auto result = found(setting, std::string(row.name));
    CHECK(result.exhausted);
    auto ours = texts(result.plans), theirs = texts(all);
    std::sort(ours.begin(), ours.end());
    std::sort(theirs.begin(), theirs.end());
    CHECK(ours == theirs);
    const auto best = std::min_element(all.begin(), all.end(), [&](const auto& a, const auto& b) { return row.value(a) < row.value(b); });
    CHECK(row.value(result.plans.front()) == row.value(*best));
    CHECK(std::is_sorted(result.plans.begin(), result.plans.end(),
                         [&](const auto& a, const auto& b) { return row.value(a) < row.value(b); }));
    CHECK(result.plans.front().why_not.empty());
    for (std::size_t n = 1; n < result.plans.size(); ++n) CHECK_THAT(result.plans[n].why_not, contains("%"));
  }
}

TEST_CASE("the front holds what nothing beats in everything") {
  const Setting setting(2);
  const auto front = found(setting, "pareto").plans;
  const auto all = brute_force(setting, true);
  const auto beats = [](const Assessment& a, const Assessment& b) {
    bool better = false;
    for (const auto& row : objective_table()) {
      if (row.value(a) > row.value(b)) return false;
      better = better || row.value(a) < row.value(b);
    }
    return better;
  };
  REQUIRE(!front.empty());
  std::size_t unbeaten = 0;
  for (const auto& a : all) unbeaten += std::none_of(all.begin(), all.end(), [&](const auto& b) { return beats(b, a); }) ? 1 : 0;
  CHECK(front.size() == unbeaten);
  for (const auto& a : front)
    for (const auto& b : all) CHECK_FALSE(beats(b, a));
}

TEST_CASE("the same search gives the same plans") {
  const Setting setting;
  for (const auto* objective : {"time", "pareto"}) CHECK(texts(found(setting, objective).plans) == texts(found(setting, objective).plans));
  SearchOptions options;
  options.plans = 3;
  Progress progress;
  const auto some = search::search(*setting.predictor(), options, progress);
  CHECK(some.searched == 3);
  CHECK_FALSE(some.exhausted);
}

TEST_CASE("when nothing fits the search says by how much") {
  Setting setting;
  const auto least = found(setting, "memory").plans.front();
  // One byte less than the leanest plan needs: it alone is the nearest, and misses by that byte.
  setting.set_memory(static_cast<double>(least.memory_bytes - 1));
  try {
    (void)found(setting, "time");
    FAIL("a plan was found");
  } catch (const Refusal& refusal) {
    INFO(refusal.what());
    CHECK_THAT(refusal.what(), contains("no plan can run"));
    CHECK_THAT(refusal.what(), contains("1 B more"));
  }
  // One byte more, and it is found.
  setting.set_memory(static_cast<double>(least.memory_bytes));
  const auto result = found(setting, "time");
  CHECK(result.plans.front().memory_bytes <= least.memory_bytes);  // a budget may be met by less than the named choices need
  CHECK(result.pruned.at("does not fit in memory") > 0);
}

TEST_CASE("a plan that does not fit recomputes as little as lets it fit") {
  Setting setting;
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
    return search::search(*setting.predictor(), options, progress).plans.front();
  };
  CHECK(best(static_cast<double>(bytes("dp=1"))).plan.recompute == "none");
  CHECK(best(static_cast<double>(selective)).plan.recompute == "selective");
  // Between the two: quicker than full.
  const auto between = (selective + full) / 2;
  const auto middle = best(static_cast<double>(between));
  CHECK(middle.memory_bytes <= between);
  CHECK(middle.step <= assess(job, parse_plan("recompute=full"), *evaluator).step);
  setting.set_memory(static_cast<double>(full - 1));
  CHECK_THROWS_WITH(search::search(*setting.predictor(), options, progress), contains("recompute=full"));
}

TEST_CASE("the remedy of a plan that does not fit is a change with which it fits") {
  Setting setting;
  const auto evaluator = closed_form_evaluator();
  const auto plan = parse_plan("dp=1");
  setting.set_memory(1);
  CHECK_FALSE(cheapest_remedy(*setting.predictor(), plan).has_value());
  const auto alone = assess(setting.job(), plan, *evaluator);
  setting.set_memory(static_cast<double>(alone.memory_bytes - 1));
  const auto remedy = cheapest_remedy(*setting.predictor(), plan);
  REQUIRE(remedy.has_value());
  REQUIRE(remedy->changes.size() == 1);
  CHECK(assess(setting.job(), parse_plan("dp=1," + remedy->changes.front()), *evaluator).fits());
}

TEST_CASE("what is fixed stays fixed, and unknown objectives are named") {
  const Setting setting;
  SearchOptions options;
  options.fixed = parse_plan("dp=2,pp=2,allreduce=ring,micro_batch=1");
  options.free = {"schedule"};
  options.top = 100;
  Progress progress;
  const auto result = search::search(*setting.predictor(), options, progress);
  CHECK(result.plans.size() == 3);  // gpipe, 1f1b, zb-h1
  for (const auto& a : result.plans) {
    CHECK(a.plan.dp == 2);
    CHECK(a.plan.micro_batch == 1);
    CHECK(a.plan.allreduce == "ring");
    CHECK_FALSE(schedule(a.plan.schedule).asynchronous);  // other mathematics only when it is asked for
  }
  options.fixed = parse_plan("pp=2,micro_batch=1,schedule=pipedream-2bw");
  options.free = {"dp"};
  const auto asked = search::search(*setting.predictor(), options, progress);
  REQUIRE(!asked.plans.empty());
  for (const auto& a : asked.plans) CHECK(schedule(a.plan.schedule).asynchronous);
  options.objective = "beauty";
  CHECK_THROWS_WITH(search::search(*setting.predictor(), options, progress), contains("beauty"));
}

TEST_CASE("several platforms are one choice, and share the budget") {
  const Setting here;
  Setting there;
  there.platform = platforms::with_devices(platforms::load("dgx-h100"), 4);
  there.model = costmodel::CostModel(platforms::device_of(there.platform, 0), {}, costmodel::profile("rehearse"), "f32");
  const auto ours = here.predictor(), theirs = there.predictor();
  const std::vector<Predictor*> jobs{ours.get(), theirs.get()};
  SearchOptions options;
  options.top = 10000;
  Progress progress;
  const auto both = search::search(jobs, options, progress);
  const auto first = search::search(*jobs[0], options, progress), second = search::search(*jobs[1], options, progress);
  CHECK(both.plans.size() == first.plans.size() + second.plans.size());
  CHECK(both.searched == first.searched + second.searched);
  CHECK(both.plans.front().platform == "dgx-h100");
  CHECK(both.plans.front().step == second.plans.front().step);
  const auto best_here = std::ranges::find_if(both.plans, [](const Assessment& a) { return a.platform == "dgx-a100"; });
  REQUIRE(best_here != both.plans.end());
  CHECK(best_here->step == first.plans.front().step);
  CHECK_THAT(best_here->why_not, contains("% more time"));
  options.plans = 9;  // four on the first, the other five on the second
  const auto some = search::search(jobs, options, progress);
  CHECK(some.searched == 9);
  CHECK_FALSE(some.exhausted);
  CHECK(std::ranges::count_if(some.plans, [](const Assessment& a) { return a.platform == "dgx-a100"; }) == 4);
}

TEST_CASE("auto is the quickest value of one key, the others stay") {
  const Setting setting;
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
