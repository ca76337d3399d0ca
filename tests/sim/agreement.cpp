// Steps of frameworks by formulas, with one replica played and with all ranks played: random plans where groups of ranks cross each other's
// links.
#include <algorithm>
#include <random>

#include "graph/zoo/zoo.hpp"
#include "plan/plan_keys.hpp"
#include "platforms/catalog.hpp"
#include "predict/frameworks/framework_predictor.hpp"
#include "sim/evaluator.hpp"
#include "tests/catch.hpp"

using namespace rehearsal;

namespace {

/// A pod of so many chips along each dimension.
platforms::Platform pod_of(std::vector<std::int64_t> dims) {
  auto pod = platforms::load("tpu-v4-pod");
  std::int64_t chips = 1;
  for (const auto dim : dims) chips *= dim;
  pod.nodes.front().count = static_cast<int>(chips);
  pod.topology.parameters["dims"] = std::move(dims);
  return pod;
}

/// 64 devices.
std::vector<platforms::Platform> crossing_platforms() {
  auto leaves = platforms::load("dgx-h100");  // two nodes of a leaf share a quarter of their cards' links up
  leaves.topology.parameters = {{"arity", {2}}, {"levels", {3}}, {"oversubscription", {4}}};
  auto pods = {pod_of({16, 4}), pod_of({4, 4, 4}), pod_of({8, 8})};
  std::vector<platforms::Platform> all(pods);
  all.push_back(std::move(leaves));
  return all;
}

/// Of 64 ranks.
std::string random_plan(std::mt19937& random) {
  const auto of = [&](std::initializer_list<int> choices) {
    return *(choices.begin() + static_cast<std::ptrdiff_t>(random() % choices.size()));
  };
  const int tp = of({1, 1, 2, 4}), cp = of({1, 1, 2, 4}), pp = of({1, 1, 2, 4}), dp = 64 / (tp * cp * pp);
  std::string plan = "dp=" + std::to_string(dp) + ",tp=" + std::to_string(tp) + ",cp=" + std::to_string(cp) + ",pp=" + std::to_string(pp) +
                     ",micro_batch=" + std::to_string(of({1, 2})) + ",zero=" + std::to_string(of({0, 1, 2, 3}));
  if (dp > 2 && of({0, 1}) == 1) plan += ",zero_group=" + std::to_string(of({2, dp / 2}));
  if (cp > 1 && of({0, 1}) == 1) plan += ",attention=ring";
  return plan;
}

}  // namespace

TEST_CASE("where groups cross each other's links a step is the same by formulas, with one replica played and with all ranks played") {
  std::mt19937 random(20261201);
  const auto folded = sim::folded_evaluator(), full = sim::full_evaluator();
  std::vector<double> gaps;
  const auto platforms = crossing_platforms();
  for (int n = 0; n < 40; ++n) {
    const auto& platform = platforms[random() % platforms.size()];
    const auto plan = plan::parse_plan(random_plan(random));
    const auto model = graph::zoo::build("zoo:gpt?layers=4&hidden=1024&heads=16&seq=256&vocab=8000", std::int64_t{plan.dp} * 8);
    const auto predictor =
        predict::frameworks::framework_predictor({model, "bf16", "adam"}, platform, *costmodel::find_framework("megatron-core"));
    if (!predictor->violations(plan).empty()) continue;
    CAPTURE(platform.name, plan::to_text(plan));
    const auto closed = predictor->closed(plan), one = predictor->played(predictor->playable(plan), *folded, nullptr),
               all = predictor->played(predictor->playable(plan), *full, nullptr);
    CHECK(closed.step.value() == Approx(one.step.value()).epsilon(0.05));
    gaps.push_back(std::abs(one.step / all.step - 1));
    CHECK(gaps.back() < 0.03);
    CHECK(one.memory_bytes == all.memory_bytes);
  }
  REQUIRE(gaps.size() > 20);
  std::ranges::sort(gaps);
  CHECK(gaps[gaps.size() / 2] < 0.005);
}
