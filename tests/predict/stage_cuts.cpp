// Pipelines that are cut by themselves against all cuts between two blocks: what a step takes says which is right.
#include <algorithm>
#include <limits>

#include "graph/zoo/zoo.hpp"
#include "platforms/catalog.hpp"
#include "predict/lowered_predictor.hpp"
#include "tests/catch.hpp"

using namespace rehearsal;
using namespace rehearsal::predict;

namespace {

/// Two nodes, each of one kind.
platforms::Platform two_nodes(const char* first, const char* second) {
  auto platform = platforms::load(first);
  platform.nodes = {platform.nodes.front(), platforms::load(second).nodes.front()};
  for (auto& group : platform.nodes) group.count = 1;
  return platform;
}

class CutSetting {
 public:
  CutSetting(const std::string& model, DType type, const char* first, const char* second)
      : training_(graph::build_training_graph(graph::with_initial_values(graph::with_float_type(graph::zoo::build(model, 64), type)), {})),
        dims_(std::make_shared<const graph::LogicalDims>(training_.graph)),
        platform_(two_nodes(first, second)),
        backend_(true) {
    for (const auto& group : platform_.nodes) models_.emplace_back(group.device, costmodel::Calibration{}, std::string(name(type)));
  }

  [[nodiscard]] double step(const std::string& plan) const { return predictor()->closed(plan::parse_plan(plan)).step.value(); }
  [[nodiscard]] std::vector<plan::Violation> violations(const std::string& plan) const {
    return predictor()->violations(plan::parse_plan(plan));
  }

 private:
  [[nodiscard]] std::unique_ptr<Predictor> predictor() const {
    Workload job{training_, dims_, platform_, backend_, models_.front(), std::string(name(type()))};
    if (platform_.nodes.front().device.name != platform_.nodes.back().device.name)
      for (const auto& model : models_) job.models.push_back(&model);
    return lowered_predictor(job);
  }
  [[nodiscard]] DType type() const { return training_.graph[training_.parameters.front().value].type.dtype; }

  graph::TrainingGraph training_;
  std::shared_ptr<const graph::LogicalDims> dims_;
  platforms::Platform platform_;
  plan::TableBackend backend_;
  std::vector<costmodel::CostModel> models_;
};

constexpr int kBlocks = 8;

/// Of the quickest cut between two blocks, over the one that is made by itself.
double best_over_own(const CutSetting& setting, const std::string& plan, const std::string& block, const std::string& first_node) {
  double best = std::numeric_limits<double>::infinity();
  for (int n = 1; n < kBlocks; ++n) best = std::min(best, setting.step(plan + ",cuts=" + block + std::to_string(n) + first_node));
  return best / setting.step(plan);
}

constexpr double kWithin = 0.98;

}  // namespace

TEST_CASE("on devices that are alike the automatic cut is as good as the best one between blocks") {
  const std::string gpt = "gpt?layers=8&hidden=1024&heads=16&seq=512&vocab=30000", llama = "llama3.2-1b?layers=8&seq=1024";
  for (const auto* device : {"dgx-h100", "dgx-a100"}) {
    INFO(device);
    CHECK(best_over_own({gpt, DType::BF16, device, device}, "dp=8,pp=2,micro_batch=1", "h.", ".ln_1") > kWithin);
    CHECK(best_over_own({llama, DType::BF16, device, device}, "dp=4,tp=2,pp=2,micro_batch=1,zero=1", "layers.", ".norm_1") > kWithin);
  }
  CHECK(best_over_own({gpt, DType::F32, "xeon-8480-2s", "xeon-8480-2s"}, "dp=2,pp=2,micro_batch=2", "h.", ".ln_1") > kWithin);
}

TEST_CASE("on devices of two kinds, too") {
  const std::string gpt = "gpt?layers=8&hidden=2048&heads=16&seq=1024&vocab=30000";
  CHECK(best_over_own({gpt, DType::F16, "dgx-a100", "dgx1-v100"}, "dp=8,pp=2,micro_batch=1", "h.", ".ln_1") > kWithin);
  CHECK(best_over_own({gpt, DType::F16, "dgx1-v100", "dgx-a100"}, "dp=8,pp=2,micro_batch=1", "h.", ".ln_1") > kWithin);
}

TEST_CASE("equal blocks with a small vocabulary are cut in the middle") {
  const CutSetting setting("gpt?layers=8&hidden=1024&heads=16&seq=512&vocab=256", DType::BF16, "dgx-h100", "dgx-h100");
  const std::string plan = "dp=8,pp=2,micro_batch=1";
  CHECK(setting.step(plan) == setting.step(plan + ",cuts=h.4.ln_1"));
}

TEST_CASE("beside what keeps a plan from being looked at further, the number of its cuts is not said") {
  const CutSetting setting("gpt?layers=8&hidden=64&heads=4&seq=32&vocab=96", DType::F32, "dgx-h100", "dgx-h100");
  for (const auto& [plan, key] : std::vector<std::pair<std::string, std::string>>{{"pp=3,cuts=h.1.ln_1", "cuts"},
                                                                                  {"pp=3,cuts=h.1.ln_1,schedule=dualpipe", "schedule"},
                                                                                  {"dp=2,pp=3,cuts=h.1.ln_1,shares=3:1:1", "shares"}}) {
    INFO(plan);
    const auto found = setting.violations(plan);
    REQUIRE(found.size() == 1);
    CHECK(found.front().key == key);
  }
}
