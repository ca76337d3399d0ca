// What is proposed for a plan that does not fit is what trying every change finds.
#include "base/error.hpp"
#include "predict/changes.hpp"
#include "predict/memory_risk.hpp"
#include "tests/catch.hpp"
#include "tests/search/oracle.hpp"

using namespace rehearsal;
using namespace rehearsal::plan;
using namespace rehearsal::predict;
using namespace rehearsal::search;
using namespace rehearsal::search::oracle;

TEST_CASE("the remedy of a plan that does not fit is a change with which it fits") {
  OwnExecution setting;
  const auto evaluator = closed_form_evaluator();
  const auto plan = parse_plan("dp=1");
  setting.set_memory(1);
  const auto none = cheapest_remedy(*setting.predictor(), plan);
  CHECK_FALSE(none.plan.has_value());
  CHECK(none.all_tried);
  const auto alone = assess(setting.job(), plan, *evaluator);
  setting.set_memory(static_cast<double>(alone.memory_bytes - 1));
  const auto remedy = cheapest_remedy(*setting.predictor(), plan).plan;
  REQUIRE(remedy.has_value());
  REQUIRE(remedy->changes.size() == 1);
  CHECK(assess(setting.job(), parse_plan("dp=1," + remedy->changes.front()), *evaluator).fits());
  const auto at_once = cheapest_remedy(*setting.predictor(), plan, Goal::Fits, Seconds(-1));  // no time to try one
  CHECK_FALSE(at_once.plan.has_value());
  CHECK_FALSE(at_once.all_tried);
}

TEST_CASE("the remedy of a plan that may run out of memory is one with which that is unlikely") {
  Megatron setting(8, 80e9);
  const auto plan = parse_plan("dp=8,micro_batch=2,zero=1");
  const auto needed = setting.predictor->closed(plan).memory_bytes;
  setting.platform.nodes.front().device.memory = Bytes(1.05 * static_cast<double>(needed));  // fits, by 5 % alone
  const auto now = setting.predictor->closed(plan);
  REQUIRE(now.fits());
  REQUIRE(chance_of_running_out(now) > kRisky);
  const auto remedy = cheapest_remedy(*setting.predictor, plan, Goal::FitsSafely).plan;
  REQUIRE(remedy.has_value());
  CHECK(chance_of_running_out(remedy->assessment) <= kSafe);
  // Merely to fit takes no more, but for what is not worth a change more.
  CHECK(cheapest_remedy(*setting.predictor, plan).plan->assessment.step <= remedy->assessment.step * (1 + kWorthSaying));
}

TEST_CASE("no combination of changes is quicker than the remedy") {
  Megatron setting(8, 80e9);
  const auto plan = parse_plan("dp=8");
  const auto needed = static_cast<double>(setting.predictor->closed(plan).memory_bytes);
  const auto plans = texts({{"dp", {"8"}},
                            {"micro_batch", {"1", "2"}},
                            {"zero", {"0", "1", "2", "3"}},
                            {"recompute", {"none", "selective", "full", "full:2", "full:4", "full:6"}},
                            {"offload", {"none", "optimizer", "activations"}}});
  const auto quickest = [&]() -> std::optional<Seconds> {
    std::optional<Seconds> best;
    for (const auto& a : tried(*setting.predictor, plans))
      if (chance_of_running_out(a) <= kSafe && (!best || a.step < *best)) best = a.step;
    return best;
  };
  for (const double share : {0.95, 0.8, 0.6, 0.5, 0.4, 0.3, 0.02}) {
    CAPTURE(share);
    setting.platform.nodes.front().device.memory = Bytes(share * needed);
    const auto remedy = cheapest_remedy(*setting.predictor, plan, Goal::FitsSafely);
    const auto best = quickest();
    REQUIRE(remedy.plan.has_value() == best.has_value());
    CHECK(remedy.all_tried);
    if (!best) continue;
    CHECK(chance_of_running_out(remedy.plan->assessment) <= kSafe);
    CHECK(remedy.plan->assessment.step <= *best * (1 + kWorthSaying));
    CHECK(cheapest_remedy(*setting.predictor, plan, Goal::FitsSafely).plan->changes == remedy.plan->changes);  // the same again
  }
}
