// What a device reaches in a model's operators, by hand: work over time without launches.
#include "predict/stage_speeds.hpp"

#include "graph/zoo/layers.hpp"
#include "graph/zoo/zoo.hpp"
#include "platforms/catalog.hpp"
#include "predict/step_cost.hpp"
#include "tests/catch.hpp"

using namespace rehearsal;
using namespace rehearsal::predict;

namespace {

constexpr double kLaunch = 5e-6;

/// A device that multiplies at 1 TFLOP/s, moves 10 GB/s and launches in 5 us, by fits alone.
costmodel::Calibration fitted_device() {
  costmodel::Calibration calibration;
  for (std::size_t family = 0; family < static_cast<std::size_t>(graph::CostFamily::Count); ++family)
    for (const auto dtype : {DType::F32, DType::F64}) {
      auto& fit = calibration.fits.emplace_back();
      fit.family = static_cast<graph::CostFamily>(family);
      fit.dtype = dtype;
      fit.overhead = Seconds(kLaunch);
      if (fit.family == graph::CostFamily::MatMul)
        fit.flop_rate = FlopsPerSecond(1e12);
      else
        fit.byte_rate = BytesPerSecond(1e10);
    }
  return calibration;
}

class SpeedSetting {
 public:
  explicit SpeedSetting(graph::Graph model)
      : training_(graph::build_training_graph(graph::with_initial_values(std::move(model)), {})),
        dims_(std::make_shared<const graph::LogicalDims>(training_.graph)),
        platform_(platforms::load("dgx-a100")) {}

  [[nodiscard]] plan::StageSpeed speed(const costmodel::Calibration& calibration) const {
    const costmodel::CostModel model(platform_.nodes.front().device, calibration, "f32");
    return speed_of_operators({training_, dims_, platform_, backend_, model, "f32"}, model);
  }
  /// The case of the first node of this family.
  [[nodiscard]] costmodel::KernelCase first_case(graph::CostFamily family) const {
    for (const auto& node : training_.graph.nodes()) {
      if (graph::schema(node).family != family) continue;
      const graph::NodeTypes types(training_.graph, node);
      return kernel_case({graph::schema(node), types.view(), {}}, 1);
    }
    FAIL("no node of this family");
    return {};
  }

 private:
  graph::TrainingGraph training_;
  std::shared_ptr<const graph::LogicalDims> dims_;
  platforms::Platform platform_;
  plan::TableBackend backend_{true};  // attention is one kernel
};

/// [8, 4, 4] through a view and a few products: launches are most of what each kernel takes.
graph::Graph viewed_chain() {
  graph::zoo::Layers layers;
  const auto flat = layers.reshape("flat", layers.input("input", {8, 4, 4}), {8, 16});
  return std::move(layers).finish(layers.linear("second", layers.linear("first", flat, 16), 8), "out");
}

}  // namespace

TEST_CASE("what operators reach is without their launches, which count apart, and views are no kernels") {
  const SpeedSetting setting(viewed_chain());
  const auto speed = setting.speed(fitted_device());
  CHECK(speed.flops.value() == Approx(1e12));
  CHECK(speed.bytes.value() == Approx(1e10));
  CHECK(speed.launch.value() == Approx(kLaunch));
}

TEST_CASE("a launch is that of an empty kernel, whatever was measured of this shape") {
  const SpeedSetting setting(viewed_chain());
  auto calibration = fitted_device();
  costmodel::Sample sample;
  for (const auto family :
       {graph::CostFamily::View, graph::CostFamily::Optimizer, graph::CostFamily::Reduction, graph::CostFamily::Elementwise}) {
    sample.kernel = setting.first_case(family);
    sample.wall_median = sample.cpu_median = Seconds(1);
    calibration.samples.push_back(sample);
  }
  CHECK(setting.speed(calibration).launch.value() == Approx(kLaunch));
}

TEST_CASE("of attention that is one kernel nothing counts") {
  const SpeedSetting setting(graph::zoo::build("gpt?layers=1&hidden=64&heads=4&seq=64&vocab=96", 4));
  auto calibration = fitted_device();
  costmodel::Sample sample;
  sample.kernel = setting.first_case(graph::CostFamily::Normalization);
  REQUIRE(sample.kernel.op == "LayerNormalization");
  const auto before = setting.speed(calibration);
  CHECK(before.bytes.value() == Approx(1e10));
  for (const auto& [op, counts] : {std::pair{"Softmax", false}, {"LayerNormalization", true}}) {
    INFO(op);
    auto slow = calibration;
    auto& fit = slow.fits.emplace_back();
    fit.op = op;
    fit.family = graph::CostFamily::Normalization;
    fit.byte_rate = BytesPerSecond(1);
    CHECK((setting.speed(slow).bytes < 0.9 * before.bytes) == counts);
  }
}
