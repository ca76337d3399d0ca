// What a calibration rests on: statistics, the sweep, and that a measured kernel has the identity that a plan asks for.

#include "exec/calibrate.hpp"

#include <cmath>
#include <map>
#include <set>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "costmodel/cost_model.hpp"
#include "exec/bench/bench_machine.hpp"
#include "exec/bench/measured.hpp"
#include "exec/comm/usable_cores.hpp"
#include "exec/host/cpu_backend.hpp"
#include "exec/timed_kernels.hpp"
#include "platforms/fabric.hpp"
#include "platforms/json.hpp"
#include "tests/catch.hpp"

using namespace rehearsal;
using namespace rehearsal::exec;
using Sizes = std::vector<std::int64_t>;

namespace {

const bench::CoreLimits kCore{FlopsPerSecond(1e11), FlopsPerSecond(5e10), BytesPerSecond(1e10),
                              BytesPerSecond(1e10), FlopsPerSecond(4e11), FlopsPerSecond(0)};

/// Counts runs, and stops after so many.
class Counting final : public Progress {
 public:
  explicit Counting(int most) : most_(most) {}
  void advance(std::string_view, double, double) override { ++count_; }
  [[nodiscard]] bool stop_requested() const override { return count_ >= most_; }
  [[nodiscard]] int count() const { return count_; }

 private:
  int most_, count_ = 0;
};

}  // namespace

TEST_CASE("statistics of runs are of the quiet ones where there are enough") {
  // CPU 1..8: quartile at index 2 is 3, median at index 4 is 5. Wall 10 disturbed, else 2, 3, 4: least 2, median at index 1 of three is 3.
  std::vector<bench::MeasuredRun> runs;
  for (int i = 1; i <= 8; ++i) runs.push_back({static_cast<double>(i), i <= 3 ? 1.0 + i : 10.0, i <= 3});
  const auto s = bench::sample_of({}, runs);
  CHECK(s.count == 8);
  CHECK(s.cpu_min.value() == 1);
  CHECK(s.cpu_quartile.value() == 3);
  CHECK(s.cpu_median.value() == 5);
  CHECK(s.wall_min.value() == 2);
  CHECK(s.wall_median.value() == 3);
  // Quartiles 3 and 7 of the CPU times, 1.349 deviations apart.
  CHECK(s.spread == Approx(std::log(7.0 / 3.0) / 1.349));
  // With two quiet runs only, all wall times count: 2 3 10 10 10 10 10 10, median 10.
  runs[2].quiet = false;
  CHECK(bench::sample_of({}, runs).wall_median.value() == 10);
}

TEST_CASE("a node is measured by each of its kernels, under one name") {
  const CpuBackend backend("onednn");
  const graph::TensorType image{DType::F32, {1, 16, 8, 8}}, weights{DType::F32, {16, 16, 3, 3}};
  const bench::Case c{"Conv", {{"pads", Sizes(4, 1)}}, {image, weights}, true};
  const auto others = bench::by_other_kernels(c, backend, 1);
  const bench::Measured usual(c, backend, 1);
  for (const auto& other : others) {
    bench::Measured measured(other, backend, 1);
    CHECK(measured.kernel().implementation == other.implementation);
    CHECK(measured.kernel().implementation != usual.kernel().implementation);
    CHECK(measured.kernel().signature == usual.kernel().signature);
    CHECK(measured.node() == usual.node());
    measured.run();
  }
  CHECK(usual.node() == "Conv{pads=[1,1,1,1]}f32[1,16,8,8]|f32[16,16,3,3]|>f32[1,16,8,8]|>t1");
  CHECK(bench::by_other_kernels({"reorder", {}, {image}, true}, backend, 1).empty());
  auto unknown = c;
  unknown.implementation = "native:magic";
  CHECK_THROWS_AS(bench::Measured(unknown, backend, 1), Refusal);
}

TEST_CASE("nodes that several kernels can run are timed by each of them") {
  CpuBackend backend("onednn");
  const graph::TensorType image{DType::F32, {1, 16, 16, 16}}, weights{DType::F32, {16, 16, 3, 3}}, small{DType::F32, {8, 16, 3, 3}};
  const bench::Case c{"Conv", {{"pads", Sizes(4, 1)}}, {image, weights}}, alone{"Conv", {{"pads", Sizes(4, 1)}}, {image, small}};
  const std::vector<bench::Case> sweep{c, alone, c, {"reorder", {}, {image}}};
  const auto nodes = exec::nodes_with_choice(sweep, backend, 1);
  if (nodes.empty()) return;   // without AVX2, or without oneDNN
  REQUIRE(nodes.size() == 1);  // 8 channels are too few for tiles, the other convolution is there twice
  Progress silent;
  const auto choices = timed_choices(backend, nodes, {1, 0.01}, silent);
  CHECK(choices.home == bench::kernel_home());
  CHECK(choices.home.libraries == bench::describe_machine().items.at("libraries"));
  REQUIRE(choices.nodes.size() == 1);
  const auto& choice = choices.nodes.front();
  CHECK(choice.node == bench::Measured(c, backend, 1).node());
  REQUIRE(choice.timed.size() == 2);
  CHECK(choice.timed.front().implementation == bench::Measured(c, backend, 1).kernel().implementation);
  for (const auto& kernel : choice.timed) CHECK(kernel.seconds.value() > 0);
  CHECK(timed_choices(backend, {}, {}, silent).empty());
  // Once it is known it is nothing to be timed, and what was chosen runs.
  backend.choose(choices, "file");
  CHECK(bench::Measured(c, backend, 1).kernel().implementation == choice.chosen);
}

TEST_CASE("nodes are timed in turn for as long as there is time, and those that memory does not hold are left out") {
  const CpuBackend backend("onednn");
  const graph::TensorType image{DType::F32, {1, 16, 16, 16}}, wide{DType::F32, {1, 16, 16, 32}}, weights{DType::F32, {16, 16, 3, 3}};
  const auto of = [&](const graph::TensorType& x) { return bench::Case{"Conv", {{"pads", Sizes(4, 1)}}, {x, weights}}; };
  // 2^42 pixels of 16 channels: 256 TiB.
  const std::vector<bench::Case> two{of(image), of(wide)}, three{of(image), of({DType::F32, {1, 16, 1 << 21, 1 << 21}}), of(wide)};
  if (exec::nodes_with_choice(two, backend, 1).size() < 2) return;  // without AVX2, or without oneDNN
  constexpr double kSeconds = 0.3;
  Counting all(1 << 30), stopped(3), whole(9);
  const double begin = exec::now_seconds();
  const auto choices = timed_choices(backend, three, {1, kSeconds}, all);
  CHECK(exec::now_seconds() - begin >= kSeconds);
  REQUIRE(choices.nodes.size() == 2);
  CHECK(choices.nodes[0].node != choices.nodes[1].node);
  CHECK(all.count() > 200);  // a run of both kernels takes less than a millisecond
  CHECK(all.count() % 2 == 0);
  // Each of the two ran once, and one of them twice: nothing is known of either.
  CHECK(timed_choices(backend, two, {1, kSeconds}, stopped).empty());
  CHECK(stopped.count() == 3);
  // A first run, which makes machine code, and three more of both are made in any case.
  CHECK(timed_choices(backend, two, {1, 0}, whole).nodes.size() == 2);
  CHECK(whole.count() == 8);
}

TEST_CASE("every kernel of the sweep runs and is fast where it costs") {
  const CpuBackend backend("onednn");
  std::set<std::string> slow, identities;
  std::size_t count = 0;
  for (const auto& c : bench::sweep(false)) {
    if (graph::element_count(c.inputs[0]->shape) > (1 << 17)) continue;  // the small ones, to be quick
    INFO(c.op << ' ' << c.attributes.to_text() << ' ' << graph::to_text(c.inputs[0]->shape));
    bench::Measured measured(c, backend, 1);
    measured.run();
    REQUIRE(measured.runs().size() == 1);
    CHECK(measured.runs()[0].wall > 0);
    const auto& k = measured.kernel();
    identities.insert(k.op + k.implementation + k.signature);
    if (k.implementation.starts_with("reference")) slow.insert(k.op);
    ++count;
  }
  CHECK(count > 100);
  CHECK(identities.size() > count * 3 / 4);
  CHECK(slow == std::set<std::string>{"BatchNormGradParameters", "BatchNormRunning"});
}

TEST_CASE("a measured convolution answers exactly for the same layer of a plan") {
  const graph::Attributes window{{"kernel_shape", Sizes{3, 3}}, {"pads", Sizes{1, 1, 1, 1}}, {"strides", Sizes{1, 1}}};
  const bench::Case c{"Conv", window, {graph::TensorType{DType::F32, {2, 4, 8, 8}}, graph::TensorType{DType::F32, {8, 4, 3, 3}}}, true};
  const CpuBackend backend("onednn");
  bench::Measured measured(c, backend, 1);
  // The text that plan::kernel_case builds of an instruction: attributes, operands with formats, results with formats.
  CHECK(measured.kernel().signature ==
        "kernel_shape=[3,3];pads=[1,1,1,1];strides=[1,1]|f32[2,4,8,8]channels-last|f32[8,4,3,3]>|f32[2,8,8,8]channels-last>");
  // 2 FLOP * 2 samples * 64 positions * 8 * 4 * 9 weights
  CHECK(measured.kernel().work.flops.value() == 2.0 * 2 * 64 * 8 * 4 * 9);
  for (int i = 0; i < 4; ++i) measured.run();
  costmodel::Calibration calibration;
  calibration.samples.push_back(bench::sample_of(measured.kernel(), measured.runs()));
  const auto platform = bench::platform_of(kCore, calibration, {});
  const costmodel::CostModel model(platform.nodes[0].device, calibration, "f32");
  const auto estimate = model.kernel(measured.kernel());
  CHECK(estimate.evidence == costmodel::Evidence::Exact);
  CHECK(estimate.seconds == calibration.samples[0].cpu_median);
}

TEST_CASE("the file of a machine is a platform and its measurements") {
  CalibrationResult r;
  r.calibration.link = {Seconds(1e-6), BytesPerSecond(5e9), BytesPerSecond(1e10), 0.1};
  r.platform = bench::platform_of(kCore, r.calibration, {});
  r.calibration.context = bench::describe_machine();
  const auto platform = platforms::read_platform_text(machine_json_text(r), "machine.json");
  CHECK(platforms::device_count(platform) == cores_of_node());
  CHECK(platform == r.platform);
  CHECK(r.calibration.context.items.at("cores") == std::to_string(cores_of_node()));
  CHECK(r.calibration.context.items.count("libraries") == 1);
  // bf16 at 4e11 was measured, f16 (0) was not: a prediction in it has no peak, and says so.
  CHECK(platform.nodes[0].device.peak("bf16")->value() == 4e11);
  CHECK(!platform.nodes[0].device.peak("f16").has_value());
}

TEST_CASE("nodes that were measured are on a switch, with the link between them") {
  CalibrationResult r;
  auto& c = r.calibration;
  c.link = {Seconds(1e-6), BytesPerSecond(5e9), BytesPerSecond(1e10), 0.1};
  // Between nodes 1 ms and 25 MB/s: 8 B take 1 ms + 0.32 us, 4 MB 1 ms + 160 ms, 16 MB 1 ms + 640 ms.
  for (const double bytes : {8.0, 4e6, 16e6}) c.link_samples.push_back({"between nodes", 2, Bytes(bytes), Seconds(1e-3 + bytes / 25e6), 0});
  costmodel::fit(c);
  REQUIRE(c.node_link.has_value());
  CHECK(c.node_link->latency.value() == Approx(1e-3).epsilon(1e-6));
  CHECK(c.node_link->bandwidth.value() == Approx(25e6).epsilon(1e-6));
  CHECK(c.link.latency.value() == 1e-6);  // no message within a node was measured
  r.platform = bench::platform_of(kCore, c, {.nodes = 2, .of_node = 1});
  const auto text = machine_json_text(r);
  const auto platform = platforms::read_platform_text(text, "machine.json");
  CHECK(platform == r.platform);
  CHECK(platforms::node_count(platform) == 2);
  const auto cores = platforms::device_count(platform) / 2;
  const auto path = platforms::Fabric(platform).path(0, cores);
  CHECK(path.latency.value() == Approx(1e-3).epsilon(1e-6));
  CHECK(path.bandwidth.value() == Approx(25e6).epsilon(1e-6));
  const auto read = costmodel::calibration_from_json_text(nlohmann::json::parse(text).at("calibration").dump(), "machine.json");
  REQUIRE(read.node_link.has_value());
  CHECK(read.node_link->bandwidth.value() == c.node_link->bandwidth.value());
}

TEST_CASE("the sweep has enough gradients of depthwise weights for a fit of their own") {
  const CpuBackend backend("onednn");
  std::map<DType, int> count;
  for (const auto& c : bench::sweep(false))
    if (c.op == "ConvGradWeight") count[c.inputs[0]->dtype] += backend.offer(bench::CaseNode(c).on(1)).implementation == "native:depthwise";
  CHECK(count[DType::F32] == 8);  // 4 sizes, of 4 and of 8 samples; a fit takes 3
  CHECK(count[DType::BF16] == 8);
}

TEST_CASE("the sweep has every family in bf16, and products of both 16-bit types have a rate") {
  std::set<std::string> wide, narrow;
  for (const auto& c : bench::sweep(false)) (c.inputs[0]->dtype == DType::BF16 ? narrow : wide).insert(c.op);
  CHECK(narrow.contains("MatMul"));
  CHECK(narrow.contains("ConvGradWeight"));
  CHECK(narrow.contains("AttentionGrad"));
  CHECK(narrow.contains("Cast"));
  CHECK(wide.contains("SgdUpdate"));
  CHECK(!narrow.contains("SgdUpdate"));  // updates are of f32 masters
  const CpuBackend backend("onednn");
  for (const auto type : {DType::BF16, DType::F16}) {
    const double rate = bench::product_rate(backend, type).value();
    CHECK(rate > 1e8);
    CHECK(rate < 1e14);  // a core of today's matrix units does a few 10^12
  }
}

TEST_CASE("a kernel that reads 16 bits is priced as one, also where its sums are f64") {
  const graph::TensorType image{DType::BF16, {2, 4, 8, 8}};
  const CpuBackend backend("onednn");
  const bench::Measured measured({"BatchNormSums", {{"count", std::int64_t{128}}}, {image}, true}, backend, 1);
  CHECK(measured.kernel().dtype == DType::BF16);
}

TEST_CASE("the limits of a core are physical") {
  const auto limits = bench::measure_core(0.2);
  // No processor of today adds fewer than 10^8 or more than 10^12 times a second per core, or moves more than 10^12 bytes.
  CHECK(limits.f32.value() > 1e8);
  CHECK(limits.f32.value() < 1e12);
  CHECK(limits.f64.value() < limits.f32.value() * 1.5);
  CHECK(limits.memory.value() > 1e8);
  CHECK(limits.memory.value() < 1e12);
}
