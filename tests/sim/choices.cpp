// What `auto` takes for a collective, against what every algorithm takes when all messages are played.
#include <functional>
#include <set>
#include <string>

#include "graph/training.hpp"
#include "graph/zoo/zoo.hpp"
#include "plan/collectives/collective.hpp"
#include "plan/lowering/algorithms.hpp"
#include "platforms/catalog.hpp"
#include "predict/assessment.hpp"
#include "sim/evaluator.hpp"
#include "tests/catch.hpp"

using namespace rehearsal;

namespace {

struct Question {
  const char *model, *platform;
  int devices;
  std::string plan;
};

/// A step's seconds, and the algorithms of its sums.
struct Played {
  double seconds = 0;
  std::set<std::string> algorithms;
};

using Use = std::function<void(const predict::Workload&)>;

void with_job(const Question& q, const Use& use) {
  const auto training = graph::build_training_graph(graph::with_initial_values(graph::zoo::build(q.model, 16)), {});
  const auto dims = std::make_shared<const graph::LogicalDims>(training.graph);
  const auto platform = platforms::with_devices(platforms::load(q.platform), q.devices);
  const plan::TableBackend backend;
  const costmodel::CostModel model(platforms::device_of(platform, 0), {}, "f32");
  use({training, dims, platform, backend, model, "f32"});
}

Played played(const predict::Workload& job, const Question& q, const std::string& all_reduce) {
  const auto program = predict::lower_for(job, plan::parse_plan(q.plan + ",allreduce=" + all_reduce));
  Played result;
  const auto simulator = sim::full_evaluator();
  result.seconds = predict::assess(job, program, *simulator, false, nullptr).step.value();
  for (const auto& c : program.role(0).collectives)
    if (c.kind == plan::CollectiveKind::AllReduce) result.algorithms.insert(c.algorithm);
  return result;
}

}  // namespace

TEST_CASE("auto takes the algorithms with which a played step is quickest, on every axis and kind of device") {
  const char* gpt = "gpt?layers=2&hidden=256&heads=4&seq=64&vocab=1000";
  std::set<std::string> taken;
  // Two sockets behind one card, slow and quick; GPUs with a card each, and several groups on a node.
  for (const auto& q : {Question{gpt, "xeon-2s-10gbe", 8, "dp=8"}, Question{gpt, "xeon-2s-100gbe", 8, "dp=8"},
                        Question{gpt, "xeon-2s-100gbe", 8, "dp=4,tp=2,order=dp.tp.cp.ep.pp"}, Question{gpt, "dgx-a100", 16, "dp=16"},
                        Question{gpt, "dgx-a100", 16, "tp=4,dp=4"}, Question{gpt, "v100-pcie-4x-10gbe", 12, "dp=12"},
                        Question{"vgg11?image=32&classes=10", "epyc-7742-2s", 6, "dp=6"}}) {
    INFO(q.platform << " x" << q.devices << ", " << q.plan);
    with_job(q, [&](const predict::Workload& job) {
      const auto best = played(job, q, "auto");
      taken.insert(best.algorithms.begin(), best.algorithms.end());
      for (const auto& row : plan::collective_table()) {
        if (row.kind != plan::CollectiveKind::AllReduce) continue;
        INFO(row.name);
        CHECK(best.seconds <= played(job, q, std::string(row.name)).seconds * 1.01);
      }
    });
  }
  CHECK(taken.size() > 2);
}

TEST_CASE("a plan that names the algorithms of its messages gives the predicted Program to ranks that do not know their links") {
  const char* gpt = "gpt?layers=2&hidden=256&heads=4&seq=64&vocab=1000";
  for (const auto& q : {Question{gpt, "xeon-2s-10gbe", 8, "dp=8"}, Question{gpt, "xeon-2s-100gbe", 8, "dp=4,tp=2,zero=1"},
                        Question{gpt, "xeon-2s-100gbe", 8, "dp=8,zero=3,micro_batch=1"}})
    with_job(q, [&](const predict::Workload& job) {
      CAPTURE(q.platform, q.plan);
      const auto predicted = predict::lower_for(job, plan::parse_plan(q.plan));
      auto written = predicted.plan;
      written.algorithms = plan::algorithms_of(predicted);
      plan::LoweringOptions options;
      options.threads = predict::threads_per_rank(job.platform, predicted.ranks);
      const auto algorithms = [](const plan::Program& program) {
        std::vector<std::string> all;
        for (const auto& role : program.roles)
          for (const auto& c : role.collectives) all.push_back(c.algorithm);
        return all;
      };
      const auto unaware = plan::lower(job.training, predicted.plan, job.backend, options);
      const auto run = plan::lower(job.training, plan::parse_plan(to_text(written)), job.backend, options);
      CHECK(algorithms(unaware) != algorithms(predicted));
      CHECK(algorithms(run) == algorithms(predicted));
      CHECK(run.warnings == unaware.warnings);
      written.algorithms.push_back("all-reduce:dp:1:ring");
      CHECK_THAT(plan::lower(job.training, written, job.backend, options).warnings.back(),
                 contains("for messages that this plan does not send"));
    });
}
