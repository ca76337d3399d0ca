// Every key of a plan through every evaluator: it changes the answer, or is refused by name. Never is it ignored.
#include <algorithm>

#include "base/error.hpp"
#include "graph/zoo/zoo.hpp"
#include "plan/plan_keys.hpp"
#include "platforms/catalog.hpp"
#include "predict/frameworks/framework_predictor.hpp"
#include "predict/lowered_predictor.hpp"
#include "tests/catch.hpp"

namespace rehearsal::predict::frameworks {
namespace {

constexpr const char* kGpt = "gpt?layers=4&hidden=256&heads=4&seq=64&vocab=512";
constexpr const char* kWide = "gpt?layers=4&hidden=1024&heads=4&seq=64&vocab=512";  // more than a bucket of gradients
constexpr const char* kResnet = "resnet18?image=32&classes=10";
constexpr std::int64_t kBatch = 16;

/// Two plans that differ in one key alone (or in what it needs beside it).
struct Sample {
  std::string_view key;
  const char *before, *after;
  const char* model = kGpt;
  const char* optimizer = "adam";  ///< of our own execution
  const char* behind = nullptr;    ///< nodes behind those of the platform
};
constexpr Sample kSamples[] = {
    {"dp", "dp=1", "dp=2"},
    {"tp", "dp=1", "tp=2"},
    {"pp", "dp=1,micro_batch=2", "pp=2,micro_batch=2"},
    {"cp", "dp=1", "cp=2"},
    {"ep", "dp=2", "dp=2,ep=2"},
    {"spatial", "dp=1", "spatial=1x1x2"},
    {"micro_batch", "dp=1", "dp=1,micro_batch=2"},
    {"schedule", "pp=2,micro_batch=1,schedule=1f1b", "pp=2,micro_batch=1,schedule=gpipe"},
    {"interleave", "pp=2,micro_batch=1", "pp=2,micro_batch=1,schedule=interleaved,interleave=2"},
    {"zero", "dp=4", "dp=4,zero=1"},
    {"zero_group", "dp=4,zero=1", "dp=4,zero=1,zero_group=2"},
    {"recompute", "dp=1", "dp=1,recompute=full"},
    {"sequence_parallel", "tp=2", "tp=2,sequence_parallel=on"},
    {"attention", "cp=2", "cp=2,attention=all-to-all"},
    {"fuse", "dp=1", "dp=1,fuse=none"},
    {"offload", "dp=1", "dp=1,offload=optimizer"},
    {"compression", "dp=2", "dp=2,compression=bf16"},
    {"local_steps", "dp=2", "dp=2,local_steps=4"},
    {"outer", "dp=2", "dp=2,outer=nesterov"},
    {"staleness", "dp=2", "dp=2,staleness=1"},
    {"servers", "dp=2", "dp=2,servers=1"},
    {"decompositions", "dp=2", "dp=2,decompositions=spread", kGpt, "soap"},
    {"exact_steps", "dp=2", "dp=2,exact_steps=100"},
    {"allreduce", "dp=8", "dp=8,allreduce=binomial-tree"},
    {"overlap", "dp=8", "dp=8,overlap=off", kWide},
    {"bn", "dp=2,bn=local", "dp=2,bn=sync", kResnet},
    {"shares", "dp=2", "dp=2,shares=3:1"},
    {"algorithms", "dp=8", "dp=8,algorithms=all-reduce:dp:13228032:binomial-tree"},
    {"order", "dp=8,tp=2", "dp=8,tp=2,order=dp.tp.cp.ep.pp"},
    {"fill", "dp=8", "dp=8,fill=V100", kGpt, "adam", "dgx1-v100"},
    {"cuts", "pp=2,micro_batch=2", "pp=2,micro_batch=2,cuts=h.3.ln_1"},
};

/// A predictor with everything that it refers to.
struct Asked {
  explicit Asked(const char* model, std::string_view framework, const char* optimizer = "adam", const char* behind = nullptr)
      : platform(platform_with(behind)),
        training(graph::build_training_graph(graph::with_initial_values(graph::zoo::build(model, kBatch)), trained_by(optimizer))),
        dims(std::make_shared<const graph::LogicalDims>(training.graph)),
        costs(models_of(platform)) {
    Workload job{training, dims, platform, backend, costs.front(), "f32"};
    for (const auto& model_of_group : costs) job.models.push_back(&model_of_group);
    if (framework == "rehearse")
      predictor = lowered_predictor(job);
    else
      predictor = framework_predictor({graph::zoo::build(model, kBatch), "f32", "adam"}, platform, *costmodel::find_framework(framework));
  }

  static platforms::Platform platform_with(const char* behind) {
    auto all = platforms::load("dgx-a100");
    if (behind != nullptr) all.nodes.push_back(platforms::load(behind).nodes.front());
    return all;
  }

  static std::vector<costmodel::CostModel> models_of(const platforms::Platform& platform) {
    std::vector<costmodel::CostModel> models;
    for (const auto& group : platform.nodes) models.emplace_back(group.device, costmodel::Calibration{}, "f32");
    return models;
  }

  static graph::TrainingOptions trained_by(const char* optimizer) {
    graph::TrainingOptions options;
    options.optimizer = {optimizer, {}};
    return options;
  }

  platforms::Platform platform;
  graph::TrainingGraph training;
  std::shared_ptr<const graph::LogicalDims> dims;
  plan::TableBackend backend;
  std::vector<costmodel::CostModel> costs;  ///< by group of nodes
  std::unique_ptr<Predictor> predictor;
};

bool same(const Assessment& a, const Assessment& b) {
  return a.step == b.step && a.memory_bytes == b.memory_bytes && a.host_bytes == b.host_bytes && a.ranks == b.ranks &&
         a.breakdown.exposed_communication == b.breakdown.exposed_communication && a.breakdown.recompute == b.breakdown.recompute;
}

using Evaluate = Assessment (*)(Predictor&, const plan::Plan&);

Assessment by_closed_forms(Predictor& predictor, const plan::Plan& plan) { return predictor.closed(plan); }
Assessment by_playing(Predictor& predictor, const plan::Plan& plan) {
  const auto player = closed_form_evaluator();
  return predictor.played(predictor.playable(plan), *player, nullptr);
}

}  // namespace

TEST_CASE("a key of a plan changes the answer of every evaluator, or is refused by name") {
  for (const auto& row : plan::plan_keys()) {
    const auto* sample = std::ranges::find(kSamples, row.key, &Sample::key);
    CAPTURE(row.key);
    REQUIRE(sample != std::end(kSamples));  // a new key needs a row here
    for (const auto* framework : {"rehearse", "megatron-core", "torchtitan", "pytorch", "jax"}) {
      const Asked asked(sample->model, framework, sample->optimizer, sample->behind);
      for (const Evaluate evaluate : {&by_closed_forms, &by_playing}) {
        CAPTURE(framework, sample->after, evaluate == &by_playing);
        const auto before = evaluate(*asked.predictor, plan::parse_plan(sample->before));
        std::string refused;
        bool ignored = false;
        try {
          ignored = same(before, evaluate(*asked.predictor, plan::parse_plan(sample->after)));
        } catch (const Error& refusal) {
          refused = refusal.what();
        }
        const bool nothing_to_fuse = row.key == "fuse" && framework == std::string_view("rehearse");  // TableBackend has no such kernel
        CHECK(ignored == nothing_to_fuse);
        if (!refused.empty()) CHECK_THAT(refused, contains(std::string(row.key)));
      }
    }
  }
}

TEST_CASE("ZeRO-2 and ZeRO-3 are for plans without stages where a framework has them for no other, and those that have are named") {
  for (const auto* framework : {"megatron-core", "nemo", "deepspeed", "megatron-deepspeed"}) {
    const Asked asked(kGpt, framework);
    CAPTURE(framework);
    for (const auto* fine : {"dp=2,zero=2", "dp=2,zero=3", "dp=2,pp=2,micro_batch=1,zero=1", "dp=2,pp=2,micro_batch=1"})
      CHECK_NOTHROW(asked.predictor->closed(plan::parse_plan(fine)));
    for (const auto* zero : {"2", "3"})
      CHECK_THROWS_WITH(
          asked.predictor->closed(plan::parse_plan(std::string("dp=2,pp=2,micro_batch=1,zero=") + zero)),
          contains(std::string("zero: ") + framework + " does not have " + zero + " beside pp=2 (use 0 or 1, pp=1, or --framework ") &&
              contains("pytorch)"));
  }
  CHECK_NOTHROW(Asked(kGpt, "torchtitan").predictor->closed(plan::parse_plan("dp=2,pp=2,micro_batch=1,zero=3")));
  CHECK_THROWS_WITH(Asked(kGpt, "nemo").predictor->closed(plan::parse_plan("pp=2,micro_batch=1,schedule=zb-v")),
                    contains("or --framework pytorch)"));
}

TEST_CASE("a key of an axis that the plan does not have is said to be without effect, under every framework") {
  for (const auto* framework : {"rehearse", "megatron-core"}) {
    const Asked asked(kGpt, framework);
    for (const auto* text : {"dp=2,sequence_parallel=on", "tp=2,zero=1", "dp=2,attention=ring", "dp=2,schedule=gpipe"}) {
      CAPTURE(framework, text);
      const auto answer = asked.predictor->closed(plan::parse_plan(text));
      CHECK(std::ranges::any_of(answer.warnings, [](const std::string& w) { return w.find("is without effect") != std::string::npos; }));
    }
  }
}

TEST_CASE("Megatron-Core trains no experts under tp without sequence parallelism, PyTorch does") {
  constexpr const char* kMoe = "moe?layers=2&hidden=64&heads=4&kv_heads=4&ffn=128&seq=32&vocab=100&experts=4";
  const auto with = plan::parse_plan("dp=2,tp=2,ep=2,sequence_parallel=on"), without = plan::parse_plan("dp=2,tp=2,ep=2");
  for (const auto* framework : {"megatron-core", "nemo", "nemo-26.06"}) {
    const Asked experts(kMoe, framework), dense(kGpt, framework);
    CAPTURE(framework);
    CHECK_NOTHROW(experts.predictor->closed(with));
    CHECK_THROWS_WITH(experts.predictor->closed(without), contains("sequence_parallel") && contains("use sequence_parallel=on"));
    CHECK_NOTHROW(dense.predictor->closed(plan::parse_plan("dp=2,tp=2")));
  }
  CHECK_NOTHROW(Asked(kMoe, "pytorch").predictor->closed(without));
  // Four ranks of experts where there are two replicas: those of tp are some of them. Of three no ranks are left.
  const auto over_tp = plan::parse_plan("dp=2,tp=2,ep=4,sequence_parallel=on");
  for (const auto* framework : {"megatron-core", "nemo", "torchtitan"}) CHECK_NOTHROW(Asked(kMoe, framework).predictor->closed(over_tp));
  CHECK_THROWS_WITH(Asked(kMoe, "nemo").predictor->closed(plan::parse_plan("dp=2,ep=4")),
                    contains("4 ranks are no part of dp=2,cp=1,tp=1"));
}

TEST_CASE("frameworks spread experts that a router sends tokens to, and neither groups of convolutions nor heads") {
  // 32 groups in each convolution of three by three; in Transformer-XL each of 2 heads has biases of its own.
  for (const auto* model : {"resnext50_32x4d?image=32&classes=10", "transformer-xl?layers=2&hidden=64&heads=2&ffn=128&seq=32&vocab=100"}) {
    CAPTURE(model);
    for (const auto* framework : {"pytorch", "megatron-core", "nemo"}) {
      const Asked asked(model, framework);
      CHECK(asked.predictor->limits().experts == 1);  // a search tries no ep
      CHECK_THROWS_WITH(asked.predictor->closed(plan::parse_plan("dp=2,ep=2")), contains("ep: ") && contains("use ep=1"));
    }
    CHECK_NOTHROW(Asked(model, "rehearse").predictor->closed(plan::parse_plan("dp=2,ep=2")));  // it splits whatever can be split
  }
  CHECK(Asked("moe?layers=2&hidden=64&heads=4&kv_heads=4&ffn=128&seq=32&vocab=100&experts=4", "pytorch").predictor->limits().experts == 4);
}

}  // namespace rehearsal::predict::frameworks
