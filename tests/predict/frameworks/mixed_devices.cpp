// Clusters of several devices under a framework: each is what it is, whichever stands first in the file.
#include "costmodel/framework.hpp"
#include "costmodel/power.hpp"
#include "graph/zoo/zoo.hpp"
#include "platforms/catalog.hpp"
#include "predict/frameworks/framework_predictor.hpp"
#include "predict/frameworks/usual_profile.hpp"
#include "tests/catch.hpp"
#include "tests/predict/frameworks/sample.hpp"

using namespace rehearsal;
using namespace rehearsal::predict;

namespace {

/// Both have nodes of 8.
platforms::Platform nodes_of(const char* first, const char* second) {
  auto platform = platforms::load(first);
  platform.nodes = {platform.nodes.front(), platforms::load(second).nodes.front()};
  for (auto& nodes : platform.nodes) nodes.count = 1;
  return platform;
}

Assessment asked(const platforms::Platform& platform, const char* plan) {
  auto predictor = frameworks::framework_predictor(
      {graph::zoo::build("llama?layers=8&hidden=2048&heads=16&kv_heads=8&ffn=4096&seq=2048&vocab=8000", 32), "bf16", "adamw"}, platform,
      *costmodel::find_framework("megatron-core"));
  return predictor->closed(plan::parse_plan(plan));
}

}  // namespace

TEST_CASE("energy of a mixed cluster is that of its devices, whatever the order of nodes") {
  const char* plan = "dp=16,micro_batch=1";
  const auto one = asked(nodes_of("dgx-h100", "dgx-a100"), plan), other = asked(nodes_of("dgx-a100", "dgx-h100"), plan);
  CHECK(one.step == other.step);
  CHECK(one.step_seconds.high == Approx(other.step_seconds.high));
  CHECK(one.cost.energy.value() == Approx(other.cost.energy.value()));
  // Sixteen A100s take as long as eight beside eight H100s, which wait for them: the A100s draw as much as half of the sixteen, the H100s
  // more than at rest and less than at full power. Hosts add the same to every device.
  const auto old = nodes_of("dgx-a100", "dgx-a100"), both = nodes_of("dgx-h100", "dgx-a100");
  const auto of_old = asked(old, plan), of_both = asked(both, plan);
  CHECK(of_both.step.value() == Approx(of_old.step.value()).epsilon(0.05));
  const double a100s = of_old.cost.energy.value() / 2 * (of_both.step / of_old.step);
  const double h100s = of_both.cost.energy.value() - a100s;
  const auto& h100 = both.nodes.front().device;
  const double seconds = of_both.step.value();
  CHECK(h100s > 8 * costmodel::resting_power(h100) * seconds);
  CHECK(h100s < 8 * 1.8 * h100.busy_power.value.value() * seconds);  // 1.8: hosts, and what the plug gives more than devices draw
  CHECK(h100s > a100s / 3);
}

TEST_CASE("the rank that the others wait for is one of the slower devices, which compute longer than all do in the mean") {
  const char* plan = "dp=16,micro_batch=1";
  const auto last = asked(nodes_of("dgx-h100", "dgx-a100"), plan), first = asked(nodes_of("dgx-a100", "dgx-h100"), plan);
  CHECK(last.limiting_rank == 8);
  CHECK(first.limiting_rank == 0);
  CHECK(last.imbalance.value() == Approx(first.imbalance.value()));
  // Replicas of both kinds do the same, each half of the ranks: the mean is the slower half's time less half of what it takes longer.
  const auto busy = [](const Assessment& a) { return a.breakdown.compute.value() + a.breakdown.optimizer.value(); };
  const double slow = busy(asked(nodes_of("dgx-a100", "dgx-a100"), plan)), fast = busy(asked(nodes_of("dgx-h100", "dgx-h100"), plan));
  CHECK(last.imbalance.value() == Approx((slow - fast) / 2).epsilon(0.1));
  CHECK(asked(nodes_of("dgx-a100", "dgx-a100"), plan).imbalance == Seconds(0));
}

TEST_CASE("what is known of a framework on a mixed cluster is what is known on the device of fewest published times") {
  const auto& framework = *costmodel::find_framework("megatron-core");
  const auto one = nodes_of("dgx-h100", "dgx-a100"), other = nodes_of("dgx-a100", "dgx-h100");
  const auto of_one = frameworks::grounds_of(framework, one);
  CHECK(of_one.sentence == frameworks::grounds_of(framework, other).sentence);
  for (const auto& nodes : one.nodes) CHECK(of_one.times <= frameworks::grounds_of(framework, nodes.device).times);
}

TEST_CASE("a plan that leaves devices of a mixed cluster idle says which it uses") {
  const auto idle = [](const Assessment& a) {
    std::string found;
    for (const auto& warning : a.warnings)
      if (warning.find("idle") != std::string::npos) found = warning;
    return found;
  };
  CHECK_THAT(idle(asked(nodes_of("dgx-h100", "dgx-a100"), "dp=8,micro_batch=1")),
             contains("8 ranks are on the first devices") && contains("8 H100-SXM5-80GB, and 8 A100-SXM4-80GB are idle"));
  CHECK_THAT(idle(asked(nodes_of("dgx-a100", "dgx-h100"), "dp=4,micro_batch=1")),
             contains("4 A100-SXM4-80GB, and 4 A100-SXM4-80GB and 8 H100-SXM5-80GB are idle"));
  CHECK(idle(asked(nodes_of("dgx-h100", "dgx-a100"), "dp=16,micro_batch=1")).empty());
  CHECK(idle(asked(nodes_of("dgx-h100", "dgx-h100"), "dp=8,micro_batch=1")).empty());
}

TEST_CASE("a plan fits a mixed cluster when every stage fits the least of its devices") {
  const auto capacity = [](const platforms::Platform& platform, const char* plan) { return asked(platform, plan).memory_capacity; };
  auto small_first = nodes_of("dgx-h100", "dgx-h100"), small_last = small_first;
  small_first.nodes[0].device.memory = small_last.nodes[1].device.memory = Bytes(12e9);
  const auto whole = static_cast<std::int64_t>(small_last.nodes[0].device.memory.value.value());
  CHECK(capacity(small_first, "dp=16,micro_batch=1") == 12'000'000'000);
  CHECK(capacity(small_last, "dp=16,micro_batch=1") == 12'000'000'000);
  // Stage 0 needs more than stage 1, and less of what its devices have.
  CHECK(capacity(small_last, "dp=8,pp=2,micro_batch=1") == 12'000'000'000);
  CHECK(asked(small_last, "dp=8,pp=2,micro_batch=1").worst_rank == 8);
  CHECK(asked(nodes_of("dgx-h100", "dgx-h100"), "dp=8,pp=2,micro_batch=1").worst_rank == 0);
  CHECK(capacity(nodes_of("dgx-h100", "dgx-h100"), "dp=8,pp=2,micro_batch=1") == whole);
}

TEST_CASE("devices that a plan leaves idle change nothing about its step") {
  const auto alone = nodes_of("dgx-h100", "dgx-h100");
  for (const auto* other : {"dgx1-v100", "l40s-4x"}) {
    auto both = nodes_of("dgx-h100", other);
    for (auto& nodes : both.nodes) nodes.device.peaks["bf16"] = alone.nodes.front().device.peaks.at("bf16");  // which a V100 lacks
    for (const auto* plan : {"tp=8,micro_batch=4", "cp=8", "dp=8,zero=1", "dp=8,zero=3", "dp=2,tp=2,pp=2,micro_batch=2"}) {
      CAPTURE(other, plan);
      CHECK(asked(both, plan).step == asked(alone, plan).step);
    }
  }
}

TEST_CASE("nodes of one kind may stand in a file in one group or in several") {
  auto together = nodes_of("dgx-h100", "dgx-h100");
  together.nodes.pop_back();
  together.nodes.front().count = 2;
  for (const auto* plan : {"dp=16,micro_batch=1", "dp=4,pp=4,micro_batch=1", "dp=2,tp=8", "tp=4,pp=4,micro_batch=1", "dp=4,cp=4,zero=1"}) {
    CAPTURE(plan);
    CHECK(asked(nodes_of("dgx-h100", "dgx-h100"), plan).step.value() == Approx(asked(together, plan).step.value()).epsilon(1e-12));
  }
}

TEST_CASE("groups that lie on one kind of nodes communicate over its links") {
  using namespace frameworks;
  const auto both = nodes_of("dgx-a100", "dgx-h100");
  const auto timed = [](const platforms::Platform& platform, const char* plan, const auto& ask) {
    sample::Sample s("zoo:llama?layers=8&hidden=2048&heads=16&kv_heads=8&ffn=4096&seq=2048&vocab=8000&batch=1", platform, "megatron-core");
    s.job.plan = plan::parse_plan(plan);
    return s.ask([&](const StagedStep& step) { return ask(step); });
  };
  const auto exchanges = [](const StagedStep& step) {
    std::vector<double> seconds;
    for (const auto& lane : step.lanes)
      for (const auto* timer : lane.timers) {
        seconds.push_back(0);
        for (const auto& part : timer->parts()) seconds.back() += part.forward.exchanges;
      }
    return seconds;
  };
  const auto on = [&](const char* name, const char* plan) { return timed(nodes_of(name, name), plan, exchanges).front(); };
  const double slow = on("dgx-a100", "tp=8,pp=2,micro_batch=1"), fast = on("dgx-h100", "tp=8,pp=2,micro_batch=1");
  REQUIRE(slow > fast);
  CHECK(timed(both, "tp=8,pp=2,micro_batch=1", exchanges) == std::vector{slow, fast});                                  // by stage
  CHECK(timed(both, "dp=2,tp=8", exchanges) == std::vector{on("dgx-a100", "dp=2,tp=8"), on("dgx-h100", "dp=2,tp=8")});  // by replica
  // What stages send to each other takes the slower of their links, either way: those of the A100's cards.
  const auto sends = [](const StagedStep& step) {
    const auto& timers = step.lanes.front().timers;
    return std::pair(timers[0]->send(1e9, *timers[1]), timers[1]->send(1e9, *timers[0]));
  };
  const auto [there, back] = timed(both, "tp=8,pp=2,micro_batch=1", sends);
  CHECK(there == back);
  CHECK(there == Approx(timed(nodes_of("dgx-a100", "dgx-a100"), "tp=8,pp=2,micro_batch=1", sends).first));
}
