// What waiting for samples makes of an answer.
#include "graph/zoo/zoo.hpp"
#include "platforms/catalog.hpp"
#include "predict/assessment.hpp"
#include "predict/frameworks/framework_predictor.hpp"
#include "predict/input_predictor.hpp"
#include "predict/plan_input.hpp"
#include "tests/catch.hpp"

using namespace rehearsal;
using namespace rehearsal::predict;

namespace {

InputTimes every(double seconds) {
  InputTimes t;
  t.pace = {seconds, seconds / 2, seconds * 2};
  return t;
}

/// A step of 0.1 s on one A100 that waits 0.3 s in the first epoch, of 10 steps, and 0.2 s later.
Assessment waiting_step(const platforms::Platform& platform) {
  Assessment a;
  a.ranks = 1;
  a.step = Seconds(0.1);
  a.step_seconds = {0.1, 0.09, 0.12};
  a.samples_per_second = 100;
  a.mfu = 0.4;
  a.breakdown.compute = Seconds(0.1);
  a.cost = costmodel::job_cost(platform, 1, Seconds(0.1), Joules(40));
  StepInput input;
  input.first = every(0.3);
  input.later = every(0.2);
  input.epoch_steps = 10;
  add_input(a, input, platform, "by hand");
  return a;
}

}  // namespace

TEST_CASE("a step that waits for samples is longer, and everything that follows from that changes with it") {
  const auto platform = platforms::load("dgx-a100");
  const auto a = waiting_step(platform);
  CHECK(a.step.value() == Approx(0.2));
  CHECK(a.step_seconds.low == Approx(0.1));
  CHECK(a.step_seconds.high == Approx(0.4));
  CHECK(a.samples_per_second == Approx(50));
  CHECK(a.mfu == Approx(0.2));
  CHECK(a.breakdown.io.value() == Approx(0.1));
  // While it waits the device idles, and the node is paid for.
  const auto idle = platforms::device_of(platform, 0).idle_power.value;
  const auto whole = costmodel::job_cost(platform, 1, Seconds(0.2), Joules(40) + idle * Seconds(0.1));
  CHECK(a.cost.energy.value() == Approx(whole.energy.value()));
  CHECK(a.cost.money.value() == Approx(whole.money.value()));
}

TEST_CASE("the steps of the first epoch are counted apart") {
  const auto platform = platforms::load("dgx-a100");
  const auto a = waiting_step(platform), within = mean_of_training(a, 4), mean = mean_of_training(a, 25);
  CHECK(training_seconds(within, 4).value == Approx(4 * 0.3));  // within the first epoch
  CHECK(training_seconds(mean, 25).value == Approx(10 * 0.3 + 15 * 0.2));
  CHECK(mean.step.value() == Approx(6.0 / 25));
  const double extra = 10 * 0.1;  // seconds
  CHECK(training_cost(mean, 25).money.value() == Approx(25 * a.cost.money.value() + extra * a.input->second_of_waiting.money.value()));
  CHECK(mean_of_training(mean, 4).step.value() == Approx(0.3));  // of whatever training it was the mean
  Assessment without;
  without.step_seconds = {0.1, 0.1, 0.1};
  CHECK(training_seconds(mean_of_training(without, 25), 25).value == Approx(2.5));
}

TEST_CASE("everything that is said of a step is of the mean step of the training") {
  const auto platform = platforms::load("dgx-a100");
  const auto mean = mean_of_training(waiting_step(platform), 25);
  // 100 samples a second where a step takes 0.1 s; it takes 0.24 s, of which it waits 0.14 s.
  CHECK(mean.step_seconds.value == Approx(0.24));
  CHECK(mean.samples_per_second == Approx(100 * 0.1 / 0.24));
  CHECK(mean.mfu == Approx(0.4 * 0.1 / 0.24));
  CHECK(mean.breakdown.io.value() == Approx(0.14));
  CHECK(mean.bottleneck == "input");
  const auto idle = platforms::device_of(platform, 0).idle_power.value;
  CHECK(mean.cost.energy.value() ==
        Approx(costmodel::job_cost(platform, 1, Seconds(0.24), Joules(40) + idle * Seconds(0.14)).energy.value()));
  CHECK(mean.input->later.value == Approx(0.2));
  CHECK(mean.input->first_epoch_step().value == Approx(0.3));
}

TEST_CASE("a predictor's closed form, its outlook and its default plan know of input") {
  auto platform = platforms::with_nodes(platforms::load("dgx-a100"), 1);
  const auto predictor = [&](std::optional<double> gigabytes_per_second, double steps = 0) {
    auto inner = frameworks::framework_predictor({graph::zoo::build("zoo:resnet50", 256), "bf16", "sgd"}, platform,
                                                 costmodel::known_framework("test", "pytorch"), {});
    if (!gigabytes_per_second) return inner;
    platform.nodes.front().storage = platforms::NodeStorage();
    platform.nodes.front().storage->bandwidth = BytesPerSecond(*gigabytes_per_second * 1e9);
    InputQuestion q;
    q.data.samples = 1.28e6;
    q.data.stored = Bytes(110e3);
    q.steps = steps;
    if (steps > 0) q.cache = &cache_kinds()[1], q.cache_size = Bytes(150e9);  // all that one node reads: 140.8 GB
    return with_input(std::move(inner), q);
  };
  plan::Plan plan;
  plan.dp = 8;
  const double computing = predictor({})->closed(plan).step.value();
  // 256 · 110 kB = 28.16 MB a step.
  CHECK(predictor(100)->closed(plan).step.value() == Approx(computing));
  const auto slow = predictor(0.1);
  CHECK(slow->closed(plan).step.value() == Approx(0.2816));
  CHECK(slow->closed(plan).input->computing.value == Approx(computing));
  CHECK(slow->closed(plan).bottleneck == "input");
  CHECK(slow->outlook(plan).step.value() == Approx(0.2816));
  // Of 10000 steps of 256 samples the first epoch has 5000, and computing takes less than the storage.
  const auto twice = predictor(0.1, 10000);
  CHECK(twice->closed(plan).step.value() == Approx((0.2816 + computing) / 2));
  CHECK(twice->outlook(plan).step <= twice->closed(plan).step);
  CHECK(twice->outlook(plan).step.value() > 0.2816 / 2);
}
