// Bounds rule out no plan that is better: what a search under a framework finds is what trying every plan finds.
#include "tests/catch.hpp"
#include "tests/search/oracle.hpp"

using namespace rehearsal;
using namespace rehearsal::predict;
using namespace rehearsal::search;
using namespace rehearsal::search::oracle;

TEST_CASE("a search under a framework finds the best of what trying every plan finds, and bounds rule out no better one") {
  // 16 GPUs with so little memory that some plans do not fit, and others only when they recompute.
  Megatron setting(16, 12e9);
  const auto plans = megatron_plans(16);
  CHECK(plans.size() > 10000);
  const auto all = tried(*setting.predictor, plans);
  CHECK(all.size() > 2000);
  CHECK(all.size() < plans.size());
  for (const auto& row : objective_table()) {
    INFO(row.name);
    const auto result = found(*setting.predictor, std::string(row.name));
    CHECK(result.exhausted);
    const auto& best = *std::ranges::min_element(all, {}, row.value);
    INFO(to_text(best.plan) << " against " << to_text(result.plans.front().answer.plan));
    CHECK(row.value(result.plans.front().answer) <= row.value(best) * (1 + 1e-9));  // it may look beyond a node for tensor parallelism
  }
  SearchOptions options;
  options.seconds = 600;
  Progress progress;
  const auto quickest = search::search(*setting.predictor, options, progress);
  CHECK(quickest.searched < static_cast<std::int64_t>(all.size()) / 4);  // most are ruled out
}

TEST_CASE("the front of a framework's plans holds what nothing beats in everything") {
  Megatron setting(4, 20e9);
  const auto all = tried(*setting.predictor, megatron_plans(4));
  const auto front = found(*setting.predictor, "pareto").plans;
  REQUIRE(front.size() > 3);
  for (const auto& p : front)
    for (const auto& b : all) CHECK_FALSE(beats(b, p.answer));
  // Everything that is not beaten is on it, or as good as something on it within 0.1 %.
  for (const auto& a : all) {
    if (std::ranges::any_of(all, [&](const Assessment& b) { return beats(b, a); })) continue;
    INFO(to_text(a.plan));
    CHECK(std::ranges::any_of(front, [&](const RankedPlan& p) {
      return std::ranges::all_of(objective_table(), [&](const ObjectiveRow& row) { return row.value(p.answer) <= 1.0011 * row.value(a); });
    }));
  }
}

TEST_CASE("a bound is never more than the closed form, and memory is what that says") {
  Megatron setting(16, 80e9);
  int looked = 0;
  double tightness = 0;
  const auto plans = megatron_plans(16);
  for (std::size_t n = 0; n < plans.size(); n += 7) {
    const auto plan = parse_plan(plans[n]);
    if (!setting.predictor->violations(plan).empty()) continue;
    const auto outlook = setting.predictor->outlook(plan);
    const auto a = setting.predictor->closed(plan);
    INFO(plans[n]);
    CHECK(outlook.memory_bytes == a.memory_bytes);
    if (!outlook.fits()) continue;
    CHECK(outlook.step <= a.step);
    tightness += outlook.step / a.step;
    for (const auto& row : objective_table()) CHECK(row.least(outlook) <= row.value(a) * (1 + 1e-12));
    ++looked;
  }
  REQUIRE(looked > 500);
  CHECK(tightness / looked > 0.7);  // worth its time
}
