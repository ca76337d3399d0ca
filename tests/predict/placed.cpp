// A plan says in which order it fills groups of nodes: then it is what it would be on a platform that lists them so, and what stands idle
// changes nothing.
#include "base/error.hpp"
#include "graph/zoo/zoo.hpp"
#include "platforms/catalog.hpp"
#include "platforms/node_order.hpp"
#include "predict/explain.hpp"
#include "predict/frameworks/framework_predictor.hpp"
#include "predict/lowered_predictor.hpp"
#include "tests/catch.hpp"

using namespace rehearsal;
using namespace rehearsal::predict;

namespace {

/// One node of each.
platforms::Platform cluster_of(const std::vector<const char*>& names) {
  auto platform = platforms::load("dgx-a100");
  platform.nodes.clear();
  for (const auto* name : names) {
    platform.nodes.push_back(platforms::load(name).nodes.front());
    platform.nodes.back().count = 1;
  }
  return platform;
}

/// A GPT on a cluster, as a framework or we train it. Our kernels of GPUs fuse attention, those of processors do not.
struct OnCluster {
  OnCluster(platforms::Platform cluster, std::string_view framework, const char* precision = "f16") : platform(std::move(cluster)) {
    if (framework != "rehearse") {
      predictor = frameworks::framework_predictor({graph::zoo::build(kModel, kBatch), precision, "adam"}, platform,
                                                  *costmodel::find_framework(framework));
      return;
    }
    for (const auto& group : platform.nodes) models.emplace_back(group.device, costmodel::Calibration{}, precision);
    BackendsOfGroups backends;
    for (const auto& group : platform.nodes)
      backends.push_back(group.device.kind == platforms::DeviceKind::Cpu ? &of_processors : &of_gpus);
    Workload job{training, dims, platform, *backends.front(), models.front(), precision};
    for (const auto& model : models) job.models.push_back(&model);
    predictor = lowered_predictor(job, backends);
  }

  [[nodiscard]] Assessment closed(const std::string& plan) const { return predictor->closed(plan::parse_plan(plan)); }
  [[nodiscard]] Assessment played(const std::string& plan) const {
    return predictor->played(predictor->playable(plan::parse_plan(plan)), *closed_form_evaluator(), nullptr);
  }

  static constexpr const char* kModel = "gpt?layers=4&hidden=512&heads=8&seq=128&vocab=1000";
  static constexpr std::int64_t kBatch = 64;
  graph::TrainingGraph training = graph::build_training_graph(graph::with_initial_values(graph::zoo::build(kModel, kBatch)), {});
  std::shared_ptr<const graph::LogicalDims> dims = std::make_shared<const graph::LogicalDims>(training.graph);
  platforms::Platform platform;
  plan::TableBackend of_processors{false}, of_gpus{true};
  std::vector<costmodel::CostModel> models;
  std::unique_ptr<Predictor> predictor;
};

void check_same(const Assessment& a, const Assessment& b) {
  CHECK(a.step == b.step);
  CHECK(a.step_seconds.high == b.step_seconds.high);
  CHECK(a.memory_bytes == b.memory_bytes);
  CHECK(a.memory_capacity == b.memory_capacity);
  CHECK(a.cost.energy == b.cost.energy);
  CHECK(a.cost.money == b.cost.money);
  CHECK(a.limiting_rank == b.limiting_rank);
  CHECK(a.shares == b.shares);
}

constexpr const char *kQuick = "dgx-a100", *kSlow = "dgx1-v100";

bool warns(const Assessment& a, const std::string& words) {
  return std::ranges::any_of(a.warnings, [&](const std::string& w) { return w.find(words) != std::string::npos; });
}

}  // namespace

TEST_CASE("a plan that names the order of groups is predicted as on a platform that lists them so") {
  const auto framework = GENERATE("rehearse", "megatron-core");
  const OnCluster listed(cluster_of({kQuick, kSlow}), framework), turned(cluster_of({kSlow, kQuick}), framework);
  for (const std::string plan : {"dp=8", "dp=16", "dp=8,pp=2,micro_batch=1", "dp=2,tp=8", "dp=4,zero=1"}) {
    CAPTURE(framework, plan);
    check_same(listed.closed(plan + ",fill=V100"), turned.closed(plan));
    check_same(turned.closed(plan + ",fill=A100"), listed.closed(plan));
    check_same(turned.closed(plan + ",fill=V100|A100"), turned.closed(plan));
    check_same(listed.played(plan + ",fill=V100"), turned.played(plan));
    CHECK(listed.closed(plan + ",fill=V100").plan.fill == std::vector<std::string>{"V100"});
  }
  CHECK(listed.closed("dp=8,fill=V100").step > listed.closed("dp=8").step);
}

TEST_CASE("layers are explained on the nodes that the plan names") {
  const OnCluster listed(cluster_of({kQuick, kSlow}), "rehearse"), turned(cluster_of({kSlow, kQuick}), "rehearse");
  const auto seconds = [](const OnCluster& s, const char* plan) {
    double sum = 0;
    for (const auto& stage : explain(*s.predictor, s.predictor->playable(plan::parse_plan(plan))))
      for (const auto& layer : stage.layers) sum += layer.compute.value();
    return sum;
  };
  CHECK(seconds(listed, "dp=8,fill=V100") == seconds(turned, "dp=8"));
  CHECK(seconds(listed, "dp=8,fill=V100") > seconds(listed, "dp=8"));
}

TEST_CASE("what idle devices cannot do refuses no plan that leaves them idle") {
  const auto framework = GENERATE("rehearse", "megatron-core");
  CAPTURE(framework);
  const OnCluster alone(cluster_of({kQuick}), framework, "bf16");  // which a V100 has not
  for (const auto& names : {std::vector{kQuick, kSlow}, std::vector{kSlow, kQuick}}) {
    const OnCluster both(cluster_of(names), framework, "bf16");
    CHECK(both.closed("dp=8,fill=A100").step == alone.closed("dp=8").step);
    CHECK_THROWS_WITH(both.closed("dp=16"),
                      contains("V100-SXM2-16GB") && contains("bf16") && contains("with fewer ranks, and the key fill"));
    CHECK(!both.predictor->violations(plan::parse_plan("dp=16")).empty());
    CHECK(both.predictor->violations(plan::parse_plan("dp=8,fill=A100")).empty());
  }
  CHECK_THROWS_AS(OnCluster(cluster_of({kSlow, "dgx1-p100"}), framework, "bf16").closed("dp=8"), Refusal);
}

TEST_CASE("a plan has the kernels of the devices that it uses") {
  const OnCluster alone(cluster_of({kQuick}), "rehearse", "f32");
  for (const auto& names : {std::vector{"xeon-8480-2s", kQuick}, std::vector{kQuick, "xeon-8480-2s"}})
    check_same(OnCluster(cluster_of(names), "rehearse", "f32").closed("dp=8,fill=A100"), alone.closed("dp=8"));
}

TEST_CASE("offloading needs a link to the host of the devices in use alone") {
  for (const auto* framework : {"rehearse", "megatron-core"}) {
    auto cluster = cluster_of({kSlow, kQuick});
    cluster.nodes.front().device.host_bandwidth.reset();
    const OnCluster both(cluster, framework);
    CAPTURE(framework);
    CHECK_NOTHROW(both.closed("dp=8,offload=optimizer,fill=A100"));
    CHECK_THROWS_WITH(both.closed("dp=8,offload=optimizer"), contains("V100-SXM2-16GB") && contains("host"));
  }
}

TEST_CASE("idle devices are said, with the key that takes others, and groups that are not there are refused") {
  for (const auto* framework : {"rehearse", "megatron-core"}) {
    const OnCluster both(cluster_of({kQuick, kSlow}), framework), one(cluster_of({kQuick}), framework);
    CAPTURE(framework);
    CHECK(warns(both.closed("dp=8"), "8 A100-SXM4-80GB, and 8 V100-SXM2-16GB are idle; the plan's key fill"));
    CHECK(warns(both.closed("dp=8,fill=V100"), "8 V100-SXM2-16GB, and 8 A100-SXM4-80GB are idle"));
    CHECK(!warns(both.closed("dp=16"), "idle"));
    CHECK_THROWS_WITH(both.closed("dp=8,fill=H100"), contains("fill: 'H100' is no group of nodes") && contains("V100-SXM2-16GB"));
    CHECK_THROWS_WITH(both.closed("dp=32"), contains("32") && contains("16"));
    CHECK_THROWS_WITH(one.closed("dp=8,fill=V100"), contains("fill: 'V100' is no group of nodes"));
    CHECK(warns(one.closed("dp=8,fill=A100"), "fill is without effect"));
  }
}

TEST_CASE("of a cluster whose plans may use some devices, the plan says which") {
  const auto both = cluster_of({kQuick, kSlow});
  const OnCluster eight(platforms::with_limits(both, {}, 8), "rehearse"), all(both, "rehearse");
  check_same(eight.closed("dp=8,fill=V100"), all.closed("dp=8,fill=V100"));
  check_same(eight.closed("dp=8"), all.closed("dp=8"));
  CHECK_THROWS_WITH(eight.closed("dp=16,fill=V100"), contains("16") && contains("8"));
}
