// One cluster, two kinds of devices: each is costed as itself, wherever it stands, and gets what it can do.
#include <algorithm>

#include "graph/zoo/zoo.hpp"
#include "plan/batch_shares.hpp"
#include "plan/collectives/collective.hpp"
#include "platforms/catalog.hpp"
#include "predict/collective_times.hpp"
#include "predict/explain.hpp"
#include "predict/lowered_predictor.hpp"
#include "predict/stage_speeds.hpp"
#include "tests/catch.hpp"

using namespace rehearsal;
using namespace rehearsal::predict;

namespace {

platforms::Platform cluster(const std::vector<const char*>& names) {
  auto all = platforms::load(names.front());
  const auto network = platforms::load("dgx-a100");
  auto nodes = all.nodes;
  nodes.clear();
  for (const auto* name : names) {
    nodes.push_back(platforms::load(name).nodes.front());
    nodes.back().count = 1;
  }
  all = network;
  all.nodes = nodes;
  return all;
}

struct Setting {
  explicit Setting(const std::vector<const char*>& names, std::int64_t batch = 64)
      : training(graph::build_training_graph(
            graph::with_initial_values(graph::zoo::build("gpt?layers=8&hidden=1024&heads=16&seq=256&vocab=1000", batch)), {})),
        dims(std::make_shared<const graph::LogicalDims>(training.graph)),
        platform(cluster(names)) {
    for (const auto& group : platform.nodes) models.emplace_back(group.device, costmodel::Calibration{}, "f32");
  }
  [[nodiscard]] Workload job() const {
    // Of the devices that the others wait for, as commands have it.
    const auto slowest = std::ranges::min_element(platform.nodes, {}, [](const auto& group) { return group.device.peak("f32")->value(); });
    Workload job{training, dims, platform, backend, models[static_cast<std::size_t>(slowest - platform.nodes.begin())], "f32"};
    for (const auto& model : models) job.models.push_back(&model);
    return job;
  }
  [[nodiscard]] Assessment closed(const std::string& plan) const { return lowered_predictor(job())->closed(plan::parse_plan(plan)); }

  graph::TrainingGraph training;
  std::shared_ptr<const graph::LogicalDims> dims;
  platforms::Platform platform;
  plan::TableBackend backend;
  std::vector<costmodel::CostModel> models;
};

constexpr const char *kQuick = "dgx-a100", *kSlow = "dgx1-v100";

}  // namespace

TEST_CASE("samples follow speed, whatever the order of the nodes, and the step is that of the devices together") {
  constexpr std::int64_t kBatch = 256;
  const Setting both({kQuick, kSlow}, kBatch), turned({kSlow, kQuick}, kBatch), quick({kQuick}, kBatch), slow({kSlow}, kBatch);
  for (const auto* rest : {"", ",micro_batch=1", ",zero=1", ",micro_batch=1,zero=1"}) {
    INFO(rest);
    const auto plan = std::string("dp=16") + rest;
    const auto a = both.closed(plan), b = turned.closed(plan);
    CHECK(a.step.value() == Approx(b.step.value()).epsilon(0.01));
    const auto shares = plan::samples_of_replicas(kBatch, a.plan), others = plan::samples_of_replicas(kBatch, b.plan);
    CHECK(shares.front() > shares.back());
    CHECK(std::is_permutation(shares.begin(), shares.end(), others.begin()));
    CHECK_THAT(a.shares, contains("A100") && contains("V100") && contains("samples"));
    // 1 / (1 / quick + 1 / slow) is what both at their full speed would take, and half a batch what the slower ones had with equal shares.
    const double alone = quick.closed(std::string("dp=8") + rest).step.value(), late = slow.closed(std::string("dp=8") + rest).step.value();
    CHECK(a.step.value() > 0.97 / (1 / alone + 1 / late));
    CHECK(a.step.value() < both.closed(plan + ",shares=equal").step.value());
  }
}

TEST_CASE("equal shares take as long as the slower devices do, and devices that are alike share equally") {
  const Setting both({kQuick, kSlow}), alike({kSlow, kSlow});
  CHECK(both.closed("dp=16,shares=equal").step.value() == Approx(alike.closed("dp=16").step.value()).epsilon(0.02));
  CHECK(alike.closed("dp=16").shares.empty());
  CHECK_FALSE(plan::has_uneven_shares(64, alike.closed("dp=16").plan));
  CHECK_FALSE(plan::has_uneven_shares(64, both.closed("dp=8").plan));  // they fit on one node
}

TEST_CASE("replicas that meet in every micro-batch share equally, and are told why") {
  const Setting both({kQuick, kSlow}, 256);
  const auto a = both.closed("dp=16,zero=2,micro_batch=1");
  CHECK_FALSE(plan::has_uneven_shares(64, a.plan));
  CHECK(std::ranges::any_of(a.warnings, [](const std::string& w) { return w.find("as many samples as the others") != std::string::npos; }));
  CHECK_THROWS_WITH(both.closed("dp=2,shares=3:1,zero=2,micro_batch=1"), contains("zero=2") && contains("shares=equal"));
  CHECK_THROWS_WITH(both.closed("dp=2,shares=3:1:1"), contains("shares: names 3 replicas, and dp=2 has 2"));
  CHECK_THROWS_WITH(both.closed("dp=2,shares=1000:1"), contains("none of the 256 samples"));
}

TEST_CASE("what cannot have uneven shares shares equally by itself, and is refused when the plan asks for them") {
  const Setting both({kQuick, kSlow});
  const auto equal = both.closed("dp=16,shares=equal,bn=local"), left = both.closed("dp=16,bn=local");
  CHECK(left.step == equal.step);
  REQUIRE(!left.warnings.empty());
  CHECK_THAT(left.warnings.back(), contains("as many samples as the others: bn: local"));
  CHECK_THROWS_WITH(both.closed("dp=2,shares=3:1,bn=local"), contains("bn: local takes statistics"));
}

TEST_CASE("stages are cut by the speed of their devices") {
  for (const bool quick_first : {true, false}) {
    const Setting s(quick_first ? std::vector{kQuick, kSlow} : std::vector{kSlow, kQuick});
    const auto program = lower_for(s.job(), plan::parse_plan("dp=8,pp=2,micro_batch=1"));
    const auto costs = cost_of(s.job(), program);
    std::vector<double> busy(2), nodes(2);
    for (std::size_t r = 0; r < program.roles.size(); ++r) {
      const auto stage = static_cast<std::size_t>(program.roles[r].stage);
      busy[stage] = busy_seconds(program, program.roles[r], costs.roles[r]).all();
      for (const auto& body : program.roles[r].bodies) nodes[stage] += static_cast<double>(body.instructions.size());
    }
    INFO(quick_first);
    CHECK(std::max(busy[0], busy[1]) < 1.35 * std::min(busy[0], busy[1]));
    CHECK((nodes[quick_first ? 0 : 1] > nodes[quick_first ? 1 : 0]));
  }
}

TEST_CASE("where groups of ranks have other links, what they sum by suits the slowest of them, whatever the order of the nodes") {
  // Ranks of tp are those of one node: behind the A100's switch all are equally near, the V100's wires reach some others alone.
  const Setting both({kQuick, kSlow}), turned({kSlow, kQuick});
  const std::string plan = "dp=2,tp=8,shares=equal";
  const double chosen = both.closed(plan).step.value();
  CHECK(chosen == Approx(turned.closed(plan).step.value()).epsilon(0.001));
  for (const auto& row : plan::collective_table()) {
    if (row.kind != plan::CollectiveKind::AllReduce || row.one_sided) continue;
    INFO(row.name);
    CHECK(chosen <= 1.001 * both.closed(plan + ",allreduce=" + std::string(row.name)).step.value());
  }
}

TEST_CASE("a collective takes as long as the slowest links of its ranks, whatever the order of the nodes") {
  const char *fast = "dgx-h100", *slow = "dgx-a100";
  const auto evaluator = closed_form_evaluator();
  const auto times = [&](const std::vector<const char*>& names, plan::CollectiveKind kind, int ranks = 16) {
    const auto platform = cluster(names);
    const auto adding = slowest_adding(platform, ranks);
    const costmodel::CostModel model(platform.nodes[adding].device, {}, "f32");
    return collective_times({platform, model, kind, ranks, Bytes(64e6)}, *evaluator);
  };
  for (const auto kind : {plan::CollectiveKind::AllReduce, plan::CollectiveKind::AllGather, plan::CollectiveKind::AllToAll,
                          plan::CollectiveKind::Broadcast}) {
    const auto one = times({fast, slow}, kind), other = times({slow, fast}, kind), alike = times({slow, slow}, kind);
    REQUIRE(one.size() == other.size());
    for (std::size_t n = 0; n < one.size(); ++n) {
      INFO(one[n].algorithm);
      CHECK(one[n].algorithm == other[n].algorithm);
      CHECK(one[n].chosen == other[n].chosen);
      CHECK(one[n].seconds.value() == Approx(other[n].seconds.value()));
      if (!one[n].library) CHECK(one[n].seconds.value() == Approx(alike[n].seconds.value()).epsilon(0.05));
    }
  }
  // Sixteen ranks pass on blocks of 4 MB in 30 steps: 160 us each at the 25 GB/s that an A100 has of its node's cards.
  CHECK(times({fast, slow}, plan::CollectiveKind::AllReduce).front().algorithm == "ring");
  CHECK(times({fast, slow}, plan::CollectiveKind::AllReduce).front().seconds.value() > 4.8e-3);
  // Eight ranks are on the H100s alone.
  CHECK(slowest_adding(cluster({fast, slow}), 16) == 1);
  CHECK(slowest_adding(cluster({fast, slow}), 8) == 0);
  const auto inside = times({fast, slow}, plan::CollectiveKind::AllReduce, 8),
             same = times({fast, fast}, plan::CollectiveKind::AllReduce, 8);
  CHECK(inside.back().library);
  CHECK(inside.back().seconds.value() == Approx(same.back().seconds.value()));
}

TEST_CASE("kernels of equal layers cost what the cost model says of each, on either kind of device") {
  const Setting both({kQuick, kSlow});
  const auto job = both.job();
  const auto program = lower_for(job, plan::parse_plan("dp=4,tp=2,pp=2,micro_batch=3,shares=equal"));  // 16 = 5 x 3 + 1: of two sizes
  const auto costs = cost_of(job, program);
  REQUIRE(program.roles.size() >= 2);
  int looked = 0;
  for (int rank = 0; rank < program.ranks; ++rank) {
    const auto& role = program.role(rank);
    const auto& own = costs.roles[program.role_of[static_cast<std::size_t>(rank)]];
    for (std::size_t b = 0; b < role.bodies.size(); ++b)
      for (std::size_t n = 0; n < role.bodies[b].instructions.size(); ++n) {
        const auto& i = role.bodies[b].instructions[n];
        if (i.kind != plan::InstructionKind::Kernel) continue;
        for (std::size_t v = 0; v < own.seconds[b][n].size(); ++v) {
          const auto alone = job.model_of(rank).kernel(kernel_case(program, job.training.graph, {role, i, v, 1}));
          if (own.seconds[b][n][v].seconds != alone.seconds) FAIL_CHECK(job.training.graph[i.node].name);
          ++looked;
        }
      }
  }
  CHECK(looked > 1000);
}

TEST_CASE("speeds of devices are found with the first pipeline, and once") {
  const Setting both({kQuick, kSlow});
  const auto job = both.job();
  static_cast<void>(lower_for(job, plan::parse_plan("dp=16")));
  CHECK(job.facts->speeds.empty());
  static_cast<void>(lower_for(job, plan::parse_plan("dp=8,pp=2,micro_batch=2")));
  REQUIRE(job.facts->speeds.size() == 2);
  CHECK(job.facts->speeds[0].flops > job.facts->speeds[1].flops);
  // Who is asked later does not find out anew.
  job.facts->speeds[0].flops = FlopsPerSecond(1);
  CHECK(stage_speeds(job, plan::parse_plan("dp=8,pp=2")).front().flops.value() == 1);
}
