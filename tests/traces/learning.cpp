#include "costmodel/learning.hpp"

#include <cmath>

#include "base/error.hpp"
#include "costmodel/cost_model.hpp"
#include "plan/collectives/collective.hpp"
#include "tests/catch.hpp"
#include "tests/traces/sample.hpp"
#include "traces/composition.hpp"
#include "traces/learn.hpp"
#include "traces/timeline.hpp"

namespace rehearsal::traces {
namespace {

using costmodel::Calibration;
using costmodel::CostModel;
using costmodel::KernelCase;
using sample::kernel;

/// What a micro-benchmark of the imagined machine says: 100 GFLOP/s, 10 GB/s, 1 us.
double benchmark_seconds(const KernelCase& k) { return k.work.flops.value() / 100e9 + k.work.bytes.value() / 10e9 + 1e-6; }

/// In training, products take 1.3 times as long as alone, what is memory-bound 1.6 times.
double training_seconds(const KernelCase& k) { return benchmark_seconds(k) * (k.family == graph::CostFamily::MatMul ? 1.3 : 1.6); }

KernelCase product(double n) { return kernel("MatMul", graph::CostFamily::MatMul, 2 * n * n * n, 12 * n * n); }
KernelCase sum(double n) { return kernel("Add", graph::CostFamily::Elementwise, n * n, 12 * n * n); }

/// A network of layers of these widths, each a product and a sum, on two ranks for `steps` steps after a warm-up; time after
/// the last kernel goes to one all-reduce of `exposed` seconds. Noise of a few percent, the same in every run.
Trace trained(const std::vector<double>& widths, int steps, double exposed) {
  auto t = sample::empty_trace("measured");
  t.model_hash = std::to_string(widths.size()) + "/" + std::to_string(widths.front());
  for (int rank : {0, 1}) {
    RankTrace r{rank, {}, {}};
    for (double n : widths)
      for (const auto& k : {product(n), sum(n)})
        r.kinds.push_back(sample::computing(k, plan::BodyKind::Forward, static_cast<std::uint32_t>(r.kinds.size())));
    r.kinds.push_back(sample::all_reduce(1 << 20, static_cast<std::uint32_t>(r.kinds.size())));
    t.ranks.push_back(r);
  }
  double at = 0;
  for (int step = 0; step <= steps; ++step) {
    const double begin = at, noise = (step == 0 ? 5.0 : 1.0) * (1 + 0.02 * (step % 3 - 1));
    for (auto& r : t.ranks) {
      at = begin;
      for (std::uint32_t n = 0; n < r.kinds.size(); ++n) {
        const bool message = n + 1 == r.kinds.size();
        const double seconds = (message ? exposed : training_seconds(r.kinds[n].kernel)) * noise;
        r.events.push_back({n, 0, step, message ? plan::Stream::Collective : plan::Stream::Compute, at, at + seconds, seconds});
        at += seconds;
      }
    }
    t.steps.push_back({step, begin, at, 0, step == 0});
  }
  return t;
}

costmodel::Sample benchmark(const KernelCase& k) {
  costmodel::Sample s;
  s.kernel = k;
  s.count = 20;
  s.cpu_min = s.cpu_quartile = s.cpu_median = s.wall_min = s.wall_median = Seconds(benchmark_seconds(k));
  return s;
}

Calibration benchmarks() {
  Calibration c;
  for (const double n : {16.0, 64.0, 200.0, 500.0, 900.0}) {
    c.samples.push_back(benchmark(product(n)));
    c.samples.push_back(benchmark(sum(n)));
  }
  costmodel::fit(c);
  return c;
}

CostModel model(const Calibration& c) { return {sample::machine().nodes.front().device, c, "f32"}; }

const costmodel::Correction& correction(const Calibration& c, const std::string& scope) {
  for (const auto& k : c.corrections)
    if (k.scope == scope) return k;
  FAIL("no correction " << scope);
  return c.corrections.front();
}

double step_error(const Calibration& c, const Trace& trace) {
  return compose(trace, sample::machine(), model(c)).step(model(c)) / median_step_seconds(trace) - 1;
}

TEST_CASE("factors per family and operator are learned and shrunk while few") {
  Calibration c = benchmarks();
  auto s = benchmark(product(64));
  s.from_training = true;
  s.wall_median = s.wall_median * 2.0;
  REQUIRE(costmodel::merge_sample(c, s));
  costmodel::learn_kernel_corrections(c, sample::machine().nodes.front().device, "f32");
  // One kernel that takes twice as long: family 2^(1/(1+3)) = 1.189; operator half way from there,
  // log2 = 0.25 + (1 - 0.25) / 2 = 0.625.
  CHECK(correction(c, "family:matmul").factor == Approx(std::exp2(0.25)));
  CHECK(correction(c, "op:MatMul").factor == Approx(std::exp2(0.625)));
  // One kernel has no scatter: what is left is the prior's error, by sqrt(1 - 1/4) of 0.3 and sqrt(1 - 1/2) of 0.15.
  CHECK(correction(c, "family:matmul").log_error == Approx(0.3 * std::sqrt(0.75)));
  CHECK(correction(c, "op:MatMul").log_error == Approx(0.15 * std::sqrt(0.5)));
  // The kernel itself was measured, another shape is corrected.
  CHECK(model(c).kernel(product(64)).seconds.value() == Approx(2 * benchmark_seconds(product(64))));
  CHECK(model(c).kernel(product(300)).seconds.value() == Approx(std::exp2(0.625) * benchmark_seconds(product(300))).epsilon(0.08));
  CHECK(model(c).kernel(sum(64)).seconds.value() == Approx(benchmark_seconds(sum(64))));
}

TEST_CASE("of two kernels that disagree the one that slowed down less is believed, the other no more than e times that") {
  Calibration c = benchmarks();
  for (const double slower : {1.0, std::exp(2.0)}) {
    auto s = benchmark(product(slower > 1 ? 64 : 200));
    s.from_training = true;
    s.count = 1;
    s.wall_median = s.wall_median * slower;
    // Both weigh the same: a second in all.
    s.count = static_cast<std::int64_t>(std::llround(1 / s.wall_median.value()));
    costmodel::merge_sample(c, s);
  }
  costmodel::learn_kernel_corrections(c, sample::machine().nodes.front().device, "f32");
  // Logs 0 and 2, of which 1 counts: mean 0.5. Family 0.5/4; operator of two kernels 1/8 + (1/2 - 1/8)·2/3 = 3/8, scatter 1/4.
  CHECK(correction(c, "op:MatMul").factor == Approx(std::exp(0.375)).epsilon(1e-3));
  CHECK(correction(c, "op:MatMul").observations == 2);
  CHECK(correction(c, "op:MatMul").log_error == Approx(std::sqrt(0.25 * 2 / 3 + 0.15 * 0.15 / 3)).epsilon(1e-3));
}

TEST_CASE("an operator that no benchmark measured does not speak for its family") {
  Calibration c = benchmarks();
  auto s = benchmark(sum(64));
  s.from_training = true;
  s.kernel.op = "load";
  s.wall_median = s.wall_median * 16.0;
  costmodel::merge_sample(c, s);
  costmodel::learn_kernel_corrections(c, sample::machine().nodes.front().device, "f32");
  CHECK(correction(c, "op:load").factor == Approx(4).epsilon(0.03));  // 16^(1/2), towards 1
  CHECK(model(c).kernel(sum(300)).seconds.value() == Approx(benchmark_seconds(sum(300))).epsilon(0.1));
  for (const auto& k : c.corrections) CHECK(k.scope != "family:elementwise");
}

TEST_CASE("kernels that waited for a core do not slow down other sizes without bound") {
  auto c = benchmarks();
  const auto tiny = product(16);
  auto s = benchmark(tiny);
  s.from_training = true;
  s.wall_median = Seconds(2000 * benchmark_seconds(tiny));
  c.samples.push_back(s);
  costmodel::learn_kernel_corrections(c, sample::machine().nodes.front().device, "f32");
  // e^3 is the most that one kernel says: family 3/4, operator half way from there, 0.75 + (3 - 0.75) / 2 = 1.875.
  CHECK(correction(c, "op:MatMul").factor == Approx(std::exp(1.875)));
  CHECK(model(c).kernel(tiny).seconds.value() == Approx(2000 * benchmark_seconds(tiny)));
}

TEST_CASE("samples of one kernel merge by repetitions") {
  Calibration c;
  auto s = benchmark(product(64));
  s.from_training = true;
  s.wall_median = Seconds(1);
  s.count = 100;
  CHECK(costmodel::merge_sample(c, s));
  s.wall_median = Seconds(4);
  s.count = 10;
  CHECK_FALSE(costmodel::merge_sample(c, s));
  // The older one's 100 repetitions count as 10: the geometric mean of 1 s and 4 s.
  REQUIRE(c.samples.size() == 1);
  CHECK(c.samples[0].wall_median.value() == Approx(2));
  CHECK(c.samples[0].count == 110);
  CHECK(c.samples[0].spread == Approx(std::log(4) / 2));  // equal weights: half the distance
}

TEST_CASE("observations of a mechanism merge in any order") {
  Calibration one, other;
  costmodel::merge_factor(one, "step", {std::log(2), 0, 4}, 0.15);
  CHECK(correction(one, "step").factor == Approx(std::sqrt(2)));            // 4 / (4 + 4)
  CHECK(correction(one, "step").log_error == Approx(0.15 / std::sqrt(2)));  // sqrt(4 · 0.15² / 8)
  costmodel::merge_factor(one, "step", {std::log(1.5), 0.01, 12}, 0.15);
  costmodel::merge_factor(other, "step", {std::log(1.5), 0.01, 12}, 0.15);
  costmodel::merge_factor(other, "step", {std::log(2), 0, 4}, 0.15);
  CHECK(correction(one, "step").factor == Approx(correction(other, "step").factor));
  CHECK(correction(one, "step").log_error == Approx(correction(other, "step").log_error));
  CHECK(correction(one, "step").observations == 16);
  // Mean (4 · 0.6931 + 12 · 0.4055) / 16 = 0.4774, shrunk by 16/20 to 0.3819.
  CHECK(std::log(correction(one, "step").factor) == Approx(0.3819).epsilon(1e-3));
}

TEST_CASE("what is learned from two networks carries over to a third") {
  const auto machine = sample::machine();
  auto c = benchmarks();
  const auto third = trained({150, 350, 450, 250}, 12, 0);
  const double before = std::fabs(step_error(c, third));
  CHECK(before > 0.2);
  const std::vector<Trace> seen{trained({100, 300, 700, 800}, 12, 0), trained({64, 120, 256, 512, 600}, 12, 0)};
  const auto outcome = learn(c, machine, seen);
  CHECK(std::fabs(step_error(c, third)) < 0.05);
  REQUIRE(outcome.traces.size() == 2);
  for (const auto& t : outcome.traces) {
    CHECK(std::fabs(t.error_before()) > 0.2);
    CHECK(std::fabs(t.error_after()) < 0.02);
  }
  CHECK(outcome.samples_added == 2 * 9);
  CHECK_FALSE(outcome.corrections.empty());
  CHECK(correction(c, "op:MatMul").factor == Approx(1.3).epsilon(0.08));
  CHECK(correction(c, "op:Add").factor == Approx(1.6).epsilon(0.12));
}

TEST_CASE("learning a trace again changes nothing") {
  const auto machine = sample::machine();
  auto c = benchmarks();
  const std::vector<Trace> seen{trained({100, 300, 700}, 12, 1e-3)};
  learn(c, machine, seen);
  const auto text = costmodel::to_json_text(c);
  const auto again = learn(c, machine, seen);
  CHECK(again.traces[0].known);
  CHECK(again.samples_added + again.samples_merged == 0);
  CHECK(costmodel::to_json_text(c) == text);
}

TEST_CASE("what traces taught can be taken back, and what benchmarks measured stays") {
  const auto machine = sample::machine();
  auto c = benchmarks();
  const auto calibrated = costmodel::to_json_text(c);
  const std::vector<Trace> seen{trained({100, 300, 700}, 12, 1e-3), trained({50, 200}, 12, 1e-3)};
  learn(c, machine, seen);
  CHECK(costmodel::to_json_text(c) != calibrated);
  CHECK(forget(c) == 2);
  CHECK(costmodel::to_json_text(c) == calibrated);
  CHECK(forget(c) == 0);
  CHECK_FALSE(learn(c, machine, seen).traces[0].known);  // what is forgotten can be learned again
}

TEST_CASE("a trace says how long its kernels waited for their cores") {
  const auto machine = sample::machine();
  auto c = benchmarks();
  auto trace = trained({100, 300, 700}, 12, 1e-3);
  CHECK(learn(c, machine, {&trace, 1}).traces[0].waiting == Approx(0).margin(1e-9));  // time stamps are rounded
  for (auto& rank : trace.ranks)
    for (auto& e : rank.events)
      if (rank.kinds[e.kind].identity.kind == plan::InstructionKind::Kernel) e.busy *= 0.6;  // messages are not asked: they wait anyway
  trace.model_hash = "other";
  CHECK(learn(c, machine, {&trace, 1}).traces[0].waiting == Approx(0.4));
}

TEST_CASE("a second run of the same training moves the estimate little") {
  const auto machine = sample::machine();
  auto c = benchmarks();
  const auto first = trained({100, 300, 700}, 12, 1e-3);
  const auto second = trained({100, 300, 700}, 11, 1e-3);
  learn(c, machine, {&first, 1});
  const double once = step_error(c, first);
  learn(c, machine, {&second, 1});
  CHECK(step_error(c, first) == Approx(once).margin(0.02));
}

TEST_CASE("kernels that compute in some steps only are not learned from") {
  // Shampoo's roots every ten steps: in nine of ten they take nothing, and so does their median.
  const auto machine = sample::machine();
  const auto learned_with = [&](const char* signature) {
    auto t = trained({100, 300}, 5, 1e-3);
    auto root = kernel("InverseRoot", graph::CostFamily::Decomposition, 1e6, 1e4);
    root.signature = signature;
    for (auto& rank : t.ranks) rank.kinds.front().kernel = root;
    auto c = benchmarks();
    learn(c, machine, {&t, 1});
  };
  CHECK_THROWS_WITH(learned_with("decay=0.99;eps=1e-06;interval=10;root=4|f32[8,8]"), contains("InverseRoot") && contains("interval=1"));
  CHECK_NOTHROW(learned_with("decay=0.99;eps=1e-06;interval=1;root=4|f32[8,8]"));
}

TEST_CASE("communication is learned against its closed form") {
  const auto machine = sample::machine();
  auto c = benchmarks();
  c.link.reduction = BytesPerSecond(1e12);
  const auto t = trained({100}, 12, 1e-4);
  // Ring of two ranks: twice half the vector, 2 · (2 us + 524288 B / 100 GB/s) + 524288 B / 1 TB/s = 15.01 us.
  CHECK(compose(t, machine, model(c)).communication == Approx(15.01e-6).epsilon(1e-3));
  learn(c, machine, {&t, 1});
  // 100 us in the median step: log(100 / 15.01) = 1.8965, shrunk by 12 / 16.
  CHECK(std::log(correction(c, "communication").factor) == Approx(1.8965 * 0.75).epsilon(0.01));
}

TEST_CASE("exchanges between ranks are composed message by message") {
  const auto machine = sample::machine();
  auto t = trained({100}, 2, 1e-4);
  for (auto& rank : t.ranks)
    for (auto& kind : rank.kinds) {
      if (kind.identity.kind != plan::InstructionKind::Collective) continue;
      kind.kernel.op = std::string(plan::name(plan::CollectiveKind::Halo));
      kind.kernel.implementation = std::string(plan::kExchange);
    }
  // 1 MiB is sent and received together: one message of 2 us + 524288 B / 100 GB/s.
  CHECK(compose(t, machine, model(benchmarks())).communication == Approx(2e-6 + 524288 / 100e9).epsilon(1e-3));
}

/// Two stages of one product each, two micro-batches: while the first stage fills and the last drains, the other waits for a message.
///   stage 0: product 0, product 1, waits        stage 1: waits, product 0, product 1
Trace pipeline(int steps) {
  auto t = sample::empty_trace("measured");
  t.plan = "pp=2,micro_batch=2";
  const auto k = product(400);
  const double seconds = benchmark_seconds(k);
  for (int rank : {0, 1}) {
    RankTrace r{rank, {}, {}};
    r.kinds.push_back(sample::computing(k, plan::BodyKind::Forward, 0));
    auto message = sample::all_reduce(4096, 1);
    message.identity.kind = plan::InstructionKind::Receive;
    r.kinds.push_back(message);
    for (int step = 0; step <= steps; ++step) {
      const double begin = 3 * seconds * step, wait = begin + (rank == 0 ? 2 * seconds : 0), first = begin + rank * seconds;
      for (const double at : {first, first + seconds}) r.events.push_back({0, 0, step, plan::Stream::Compute, at, at + seconds, seconds});
      r.events.push_back({1, 0, step, plan::Stream::Receive, wait, wait + seconds, 0});
    }
    t.ranks.push_back(r);
  }
  for (int step = 0; step <= steps; ++step) t.steps.push_back({step, 3 * seconds * step, 3 * seconds * (step + 1), 0, step == 0});
  return t;
}

TEST_CASE("the bubble of a pipeline corrects neither steps nor messages") {
  const auto machine = sample::machine();
  auto c = benchmarks();
  const auto t = pipeline(12);
  // Two products and one more of the other stage: three, as long as the step.
  const auto composed = compose(t, machine, model(c));
  CHECK(composed.bubble == Approx(composed.kernels / 2));
  CHECK(step_error(c, t) == Approx(0).margin(0.02));
  learn(c, machine, {&t, 1});
  for (const auto& k : c.corrections)
    if (k.scope == "step" || k.scope == "communication") CHECK(k.factor == Approx(1).margin(0.02));
}

TEST_CASE("only measured traces with steps on this machine teach") {
  const auto machine = sample::machine();
  auto c = benchmarks();
  const auto text = costmodel::to_json_text(c);
  auto t = trained({100}, 3, 0);
  t.kind = "simulated";
  CHECK_THROWS_WITH(learn(c, machine, {&t, 1}), contains("was simulated"));
  t = trained({100}, 3, 0);
  t.steps.clear();
  CHECK_THROWS_AS(learn(c, machine, {&t, 1}), BadInput);
  t = trained({100}, 3, 0);
  for (auto& step : t.steps) step.warm_up = true;
  CHECK_THROWS_WITH(learn(c, machine, {&t, 1}), contains("holds no step after its warm-up; run at least 3 steps"));
  t.steps = {{0, 0, 1, 0, false}, {1, 1, 2, 0, false}};  // as earlier versions wrote them
  CHECK_THROWS_WITH(learn(c, machine, {&t, 1}), contains("holds no step after its warm-up"));
  t = trained({100}, 3, 0);
  t.plan = "dp=4";
  CHECK_THROWS_WITH(learn(c, machine, {&t, 1}), contains("4 ranks"));
  CHECK(costmodel::to_json_text(c) == text);
}

TEST_CASE("a GPU learns from traces of GPUs of its kind alone") {
  const auto machine = sample::machine();
  auto t = trained({100}, 3, 0);
  t.context = {{"gpu", "NVIDIA H200 (cuda:0)"}};
  auto processor = benchmarks(), other = benchmarks(), same = benchmarks();
  other.context.items["gpu"] = "NVIDIA H100 80GB HBM3 (cuda:0)";
  same.context.items["gpu"] = "NVIDIA H200 (cuda:3)";
  CHECK_THROWS_WITH(learn(other, machine, {&t, 1}), contains("on NVIDIA H200, and the machine file on NVIDIA H100 80GB HBM3;"));
  CHECK_THROWS_WITH(learn(processor, machine, {&t, 1}), contains("on a processor;"));
  CHECK(learn(same, machine, {&t, 1}).samples_added > 0);
}

TEST_CASE("a processor learns from its own traces, and from those that do not say whose they are") {
  const auto machine = sample::machine();
  auto t = trained({100}, 3, 0);
  const auto of = [](const char* item, const char* name) {
    auto c = benchmarks();
    c.context.items[item] = name;
    return c;
  };
  auto own = of("cpu", "Xeon A"), other = of("cpu", "Xeon B"), gpu = of("gpu", "NVIDIA H200 (cuda:0)"), unknown = benchmarks();
  t.context = {{"cpu", "Xeon A"}};
  CHECK(learn(own, machine, {&t, 1}).samples_added > 0);
  CHECK(learn(unknown, machine, {&t, 1}).samples_added > 0);
  CHECK_THROWS_WITH(learn(other, machine, {&t, 1}), contains("on Xeon A, and the machine file on Xeon B;"));
  CHECK_THROWS_WITH(learn(gpu, machine, {&t, 1}), contains("on Xeon A, and the machine file on NVIDIA H200;"));
  t.context.clear();
  auto older = of("cpu", "Xeon B");
  CHECK(learn(older, machine, {&t, 1}).samples_added > 0);
}

}  // namespace
}  // namespace rehearsal::traces
