// What a platform says of failures, storage and restarts, made into when a training is finished and what it costs then.
#include "predict/goodput.hpp"

#include "base/error.hpp"
#include "graph/zoo/zoo.hpp"
#include "platforms/catalog.hpp"
#include "predict/checkpoint_size.hpp"
#include "predict/frameworks/framework_predictor.hpp"
#include "predict/lowered_predictor.hpp"
#include "tests/catch.hpp"

using namespace rehearsal;
using namespace rehearsal::predict;

namespace {

constexpr double kDay = 86400;

/// 100,000 steps of 10 s on 64 of 128 H100s, with checkpoints of 500 GB.
struct Setting {
  platforms::Platform platform = platforms::with_nodes(platforms::load("dgx-h100"), 16);
  Assessment a;
  GoodputQuestion q;

  Setting() {
    platform.pue = {1.5, ""};
    a.plan.dp = a.ranks = 64;
    a.platform = platform.name;
    a.step = Seconds(10);
    a.step_seconds = {10, 9, 11};
    a.checkpoint = checkpoint_size(Bytes(500e9), 64, platform);
    a.cost = costmodel::job_cost(platform, 64, Seconds(10), Watts(700.0 * 64) * Seconds(10));
    q.steps = 100'000;
  }
  [[nodiscard]] Goodput goodput() const {
    const auto g = goodput_of(a, platform, q);
    REQUIRE(g);
    return *g;
  }
};

}  // namespace

TEST_CASE("figures of the platform become what a training has to reckon with") {
  const Setting s;
  const auto g = s.goodput();
  // One of 64 devices fails every 2112 d / 64 = 33 d.
  CHECK(g.disturbances.between_failures.value() == Approx(33 * kDay));
  // Each of 8 nodes writes an eighth of 500 GB with 625 MB/s: 100 s. A device copies 500 GB / 64 over a link of 63 GB/s: 0.124 s.
  CHECK(g.checkpoint.value() == 500e9);
  CHECK(g.disturbances.writing.value() == Approx(100));
  CHECK(g.disturbances.copying.value() == Approx(500.0 / 64 / 63));
  // 10 min to start, 100 s to read; another node is there at once.
  CHECK(g.disturbances.restarting.value() == Approx(700));
  CHECK(g.disturbances.waiting.value() == 0);
  for (const char* word : {"2112 d", "Llama 3", "625 MB/s", "SuperPOD", "10 min", "Kokolis", "--replacement"})
    CHECK_THAT(g.rests_on, contains(word));
  CHECK(g.run.undisturbed().value() == 1e6);
  CHECK(g.finished == expected_finish(g.run, g.disturbances));
  // Some 1e6 s / 33 d = 0.35 failures
  CHECK(g.failures == Approx(g.finished.value() / (33 * kDay)));
  CHECK(g.effective() == Approx(1e6 / g.finished.value()));
}

TEST_CASE("options stand over the platform, and say so") {
  Setting s;
  s.q.failures_per_device_day = 0.01;
  s.q.storage = BytesPerSecond(62.5e9);
  s.q.restart = Seconds(60);
  s.q.every = CheckpointEvery{{}, Seconds(1234)};
  auto g = s.goodput();
  CHECK(g.disturbances.between_failures.value() == Approx(kDay / 0.64));
  CHECK(g.disturbances.writing.value() == Approx(1));
  CHECK(g.disturbances.restarting.value() == Approx(61));
  CHECK(g.run.every == 123);
  for (const char* word : {"--failures", "--storage", "--restart"}) CHECK_THAT(g.rests_on, contains(word));
  s.q.every = CheckpointEvery{50, {}};
  CHECK(s.goodput().run.every == 50);
  s.q.every = CheckpointEvery{0, {}};  // at the end only
  s.q.failures_per_device_day = 0.001;
  CHECK(s.goodput().run.every == 100'000);
  s.q.every.reset();
  // All of 100 s waited for, and more: nothing is written beside training then.
  s.q.storage.reset();
  s.q.wait = Seconds(120);
  CHECK(s.goodput().disturbances.copying.value() == 120);
  CHECK(s.goodput().disturbances.writing.value() == 0);
  s.q.wait = Seconds(30);
  CHECK(s.goodput().disturbances.writing.value() == Approx(70));
}

TEST_CASE("storage that all nodes share may be what they wait for") {
  Setting s;
  s.platform.storage_bandwidth = {{BytesPerSecond(2e9), "a small cluster"}};
  CHECK(s.goodput().writing.value() == Approx(250));  // 500 GB at 2 GB/s
  CHECK_THAT(s.goodput().rests_on, contains("a small cluster"));
  s.platform.nodes.front().storage_bandwidth.reset();
  CHECK(s.goodput().writing.value() == Approx(250));
}

TEST_CASE("training waits for the writing where nobody knows how quickly a device copies") {
  Setting s;
  s.platform.nodes.front().device.host_bandwidth.reset();
  CHECK(s.goodput().disturbances.copying.value() == Approx(100));
  CHECK(s.goodput().disturbances.writing.value() == 0);
}

TEST_CASE("devices of several kinds fail each at its own rate") {
  Setting s;
  auto older = platforms::load("dgx-a100").nodes.front();
  older.count = 4;
  s.platform.nodes.front().count = 4;
  s.platform.nodes.push_back(older);
  // 32 / 2112 d + 32 / (time of an A100)
  const double days = older.device.time_between_failures->value.value() / kDay;
  CHECK(s.goodput().disturbances.between_failures.value() == Approx(kDay / (32 / 2112.0 + 32 / days)));
  CHECK_THAT(s.goodput().rests_on, contains("A100-SXM4-80GB") && contains("H100-SXM5-80GB"));
}

TEST_CASE("money goes on while nodes wait, energy goes on idle, and spares are paid for") {
  Setting s;
  s.q.failures_per_device_day = 0.05;  // 3.2 a day
  s.q.replacement = Seconds(4 * 3600);
  const auto g = s.goodput();
  // Rent is of time: 98.32 $/h for each of 8 nodes.
  CHECK(g.cost.money.value() == Approx(8 * 98.32 * g.finished.value() / 3600));
  // While nodes wait or start, devices are idle (70 W). Restarts that fail are begun again: M (1 - exp(-R / M)) each in the mean.
  const auto& d = g.disturbances;
  const double between = d.between_failures.value();
  const double idle = g.failures * (between * -std::expm1(-d.restarting.value() / between) + 4 * 3600);
  const auto& node = s.platform.nodes.front();
  const double host = node.host_power.value.value() * 8;
  const double energy = 1.5 * ((700.0 * 64 + host) * (g.finished.value() - idle) + (70.0 * 64 + host) * idle);
  CHECK(g.cost.energy.value() == Approx(energy));

  s.q.spares = 16;
  const auto spared = s.goodput();
  CHECK(spared.finished < g.finished);
  CHECK(spared.cost.money.value() == Approx(10 * 98.32 * spared.finished.value() / 3600));
  // Erlang's formula for 2 spares and a load of 4 h · 3.2 / 24 h = 0.5333: B(1) = 0.3478, B(2) = 0.08488; then 4 h / 3 are waited
  CHECK(spared.disturbances.waits == Approx(0.08488).epsilon(1e-3));
  CHECK(spared.disturbances.waiting.value() == Approx(4800));
}

TEST_CASE("when it is finished is open by chance and by the prediction of a step") {
  Setting s;
  s.q.failures_per_device_day = 0;
  auto g = s.goodput();
  CHECK(g.failures == 0);
  CHECK(g.effective() == Approx(1).epsilon(1e-3));
  auto interval = finished_seconds(s.a, g);
  CHECK(interval.low == Approx(interval.value * 0.9));
  CHECK(interval.high == Approx(interval.value * 1.1));
  s.q.failures_per_device_day = 0.1;
  g = s.goodput();
  s.a.step_seconds = {10, 10, 10};
  interval = finished_seconds(s.a, g);
  const auto chance = finish(g.run, g.disturbances);
  CHECK(interval.low == Approx(chance.low));
  CHECK(interval.high == Approx(chance.high));
}

TEST_CASE("where a platform says nothing of failures, nothing is said, but to whom asks") {
  Setting s;
  s.platform.nodes.front().device.time_between_failures.reset();
  CHECK_FALSE(goodput_of(s.a, s.platform, s.q));
  s.q.restart = Seconds(60);
  CHECK_THROWS_WITH(s.goodput(), contains("--failures") && contains("time_between_failures"));
  s.q.failures_per_device_day = 0.001;
  CHECK(s.goodput().disturbances.between_failures.value() == Approx(kDay / 0.064));
  s.platform.nodes.front().storage_bandwidth.reset();
  CHECK_THROWS_WITH(s.goodput(), contains("--storage") && contains("storage_bandwidth"));
  // Nor is anything said of a step alone.
  GoodputQuestion step;
  CHECK_FALSE(goodput_of(s.a, s.platform, step));
  step.spares = 8;
  CHECK_THROWS_WITH(goodput_of(s.a, s.platform, step), contains("--steps"));
}

TEST_CASE("what cannot be is refused with what could") {
  const auto refusal = [](auto change) {
    Setting s;
    change(s.q);
    try {
      static_cast<void>(goodput_of(s.a, s.platform, s.q));
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  using Q = GoodputQuestion;
  CHECK_THAT(refusal([](Q& q) { q.failures_per_device_day = -1; }), contains("--failures") && contains("from 0"));
  CHECK_THAT(refusal([](Q& q) { q.restart = Seconds(-1); }), contains("--restart"));
  CHECK_THAT(refusal([](Q& q) { q.wait = Seconds(-1); }), contains("--checkpoint-wait"));
  CHECK_THAT(refusal([](Q& q) { q.replacement = Seconds(-1); }), contains("--replacement"));
  CHECK_THAT(refusal([](Q& q) { q.storage = BytesPerSecond(0); }), contains("--storage") && contains("more than 0"));
  CHECK_THAT(refusal([](Q& q) { q.spares = -8; }), contains("--spares -8") && contains("from 0 to 127"));
  CHECK_THAT(refusal([](Q& q) { q.spares = 128; }), contains("--spares 128") && contains("from 0 to 127"));
  CHECK_THAT(refusal([](Q& q) { q.spares = 8; }), contains("--spares") && contains("--replacement"));
  CHECK_THAT(refusal([](Q& q) { q.spares = 12, q.replacement = Seconds(60); }), contains("a multiple of 8"));
  CHECK_THAT(refusal([](Q& q) { q.spares = 72, q.replacement = Seconds(60); }), contains("leaves 64") && contains("not 72"));
  // 100 s of writing, less 0.124 s of copying: 99.9 s, 10 steps of 10 s.
  CHECK_THAT(refusal([](Q& q) {
               q.every = CheckpointEvery{9, {}};
             }),
             contains("--checkpoint-every") && contains("at least 100 s, 10 steps"));
  CHECK(refusal([](Q& q) { q.every = CheckpointEvery{10, {}}; }).empty());
  // 64 devices, each of which fails 3,000 times a day: every 0.45 s, and a restart takes 700 s.
  CHECK_THAT(refusal([](Q& q) { q.failures_per_device_day = 3000; }),
             contains("would not end") && contains("every 450 ms") && contains("11.7 min"));
}

TEST_CASE("a checkpoint holds weights and the optimizer's state once") {
  const auto platform = platforms::load("dgx-h100");
  const auto model = [] { return graph::zoo::build("gpt?layers=2&hidden=64&heads=2&seq=32&vocab=96", 8); };
  double parameters = 0;
  const auto graph = model();
  for (const auto& t : graph.tensors())
    if (t.role == graph::TensorRole::Parameter) parameters += static_cast<double>(graph::element_count(t.type.shape));
  const auto size = [&](const char* dtype, const char* optimizer, const char* plan) {
    const auto predictor =
        frameworks::framework_predictor({model(), dtype, optimizer}, platform, *costmodel::find_framework("megatron-core"));
    return predictor->closed(plan::parse_plan(plan)).checkpoint;
  };
  // bf16: 2 bytes, and in f32 the master weight and two moments; f32: the weight and two moments, or one of momentum.
  CHECK(size("bf16", "adam", "dp=8").all.value() == Approx(14 * parameters));
  CHECK(size("f32", "adam", "dp=8").all.value() == Approx(12 * parameters));
  CHECK(size("f32", "sgd", "dp=8").all.value() == Approx(8 * parameters));
  CHECK(size("bf16", "adam", "dp=4,tp=2").all.value() == Approx(14 * parameters));
  CHECK(size("bf16", "adam", "dp=8").of_rank.value() == Approx(14 * parameters / 8));
  CHECK(size("bf16", "adam", "dp=8").of_node.value() == Approx(14 * parameters));

  // Our own execution: of ranks that hold the same the first one writes.
  const auto own = [&](const char* plan, int nodes, int devices) {
    const auto untied = graph::zoo::build("llama?layers=2&hidden=64&heads=2&seq=32&vocab=96", 8);
    auto few = platforms::with_nodes(platform, nodes);
    few.nodes.front().devices = devices;
    const auto training = graph::build_training_graph(graph::with_initial_values(untied), {});
    const plan::TableBackend backend;
    const costmodel::CostModel costs(platforms::device_of(few, 0), {}, "f32");
    const Workload job{training, std::make_shared<const graph::LogicalDims>(training.graph), few, backend, costs, "f32"};
    double saved = 0;
    for (const auto& t : training.graph.tensors())
      if (t.role == graph::TensorRole::Parameter || t.role == graph::TensorRole::Slot || t.role == graph::TensorRole::State)
        saved += graph::size_of(t.type).value();
    const auto written = lowered_predictor(job)->closed(plan::parse_plan(plan)).checkpoint;
    CHECK(written.all.value() == Approx(saved));
    return std::pair{written.of_rank.value() / saved, written.of_node.value() / saved};
  };
  CHECK(own("dp=4", 2, 2) == std::pair{1.0, 1.0});
  // Two stages, one on each node: some half each.
  const auto [rank, node] = own("pp=2", 2, 1);
  CHECK(rank > 0.4);
  CHECK(rank < 1);
  CHECK(node == rank);
}
