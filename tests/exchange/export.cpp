// Plans as configurations of other frameworks: every key is written or refused.

#include <algorithm>

#include "base/error.hpp"
#include "exchange/frameworks/plan_export.hpp"
#include "plan/plan_keys.hpp"
#include "tests/catch.hpp"

namespace rehearsal::exchange {
namespace {

TrainingJob job_of(const std::string& plan, std::int64_t batch = 64, const std::string& model = "zoo:llama3-8b") {
  TrainingJob job;
  job.plan = plan::parse_plan(plan);
  job.model = model;
  job.batch = batch;
  job.dtype = "bf16";
  job.optimizer = graph::completed({"adamw", {}});
  return job;
}

TEST_CASE("every framework has one rule for every key of a plan and of a training") {
  for (const auto& row : framework_rows()) {
    CAPTURE(row.name);
    const auto rules_of = [&](std::string_view key) { return std::ranges::count(row.rules, key, &ExportRule::key); };
    for (const auto& key : plan::plan_keys()) {
      CAPTURE(key.key);
      CHECK(rules_of(key.key) == 1);
    }
    for (const auto key : kTrainingKeys) {
      CAPTURE(key);
      CHECK(rules_of(key) == 1);
    }
    CHECK(row.rules.size() == plan::plan_keys().size() + kTrainingKeys.size());
  }
}

TEST_CASE("some blocks are computed again where the framework has a word for it") {
  const auto flags = exported("megatron-core", job_of("dp=8,micro_batch=1,recompute=full:5"));
  CHECK_THAT(flags, contains("--recompute-granularity full\n") && contains("--recompute-method block\n") &&
                        contains("--recompute-num-layers 5\n"));
  CHECK_THAT(exported("megatron-core", job_of("dp=8,micro_batch=1,recompute=full")),
             contains("--recompute-method uniform\n") && contains("--recompute-num-layers 1\n"));
  CHECK_THROWS_WITH(exported("torchtitan", job_of("dp=8,zero=3,recompute=full:5")), contains("it has no full:5"));
  CHECK_THROWS_WITH(exported("fsdp2", job_of("dp=8,zero=3,recompute=full:5", 64, "")), contains("it has no full:5"));
}

TEST_CASE("what Megatron-Core asserts of degrees is known before it starts") {
  // 32 layers, 32 heads of attention, 4096 tokens
  const auto refused = [](const std::string& plan, const std::string& words, const std::string& model = "zoo:llama3-8b?seq=4096") {
    CAPTURE(plan, model);
    CHECK_THROWS_WITH(exported("megatron-core", job_of(plan, 192, model)), contains(words));
  };
  refused("dp=8,tp=3,zero=1", "tp: 3 does not divide 32 heads of attention");
  refused("dp=8,tp=64,zero=1", "tp: 64 does not divide 32 heads");
  refused("dp=8,cp=3,zero=1", "cp: 6 does not divide 4096 tokens");
  refused("dp=2,pp=8,micro_batch=1,schedule=interleaved,interleave=3", "interleave: 32 layers are not shared out evenly among 24 chunks");
  refused("dp=2,pp=64,micro_batch=1", "pp: the model has 32 layers");
  refused("dp=8,ep=8,zero=1", "ep: the model has no experts");
  const std::string mixture = "zoo:mixtral-8x7b";
  refused("dp=48,ep=3,zero=1", "ep: 3 does not divide 8 experts", mixture);
  refused("dp=12,ep=8,zero=1", "ep: 8 does not divide 12 replicas", mixture);
  refused("dp=8,tp=8,zero=1", "sequence_parallel: mixtures of experts need it beside tp", mixture);
  CHECK_THAT(exported("megatron-core", job_of("dp=8,tp=8,ep=8,zero=1,sequence_parallel=on", 64, mixture)),
             contains("--expert-model-parallel-size 8\n") && !contains("--expert-tensor-parallel-size"));
  // 4 replicas are too few for 8 ranks of experts; with those of tp there are 8, which have whole experts.
  CHECK_THAT(exported("megatron-core", job_of("dp=4,tp=2,ep=8,zero=1,sequence_parallel=on", 64, mixture)),
             contains("--expert-model-parallel-size 8\n") && contains("--expert-tensor-parallel-size 1\n"));
}

TEST_CASE("stages of unequal layers are said to Megatron-Core") {
  const auto flags = [](const std::string& model, const std::string& plan) { return exported("megatron-core", job_of(plan, 64, model)); };
  // 126 layers, embedding and loss are 128 for 16 stages, or 64 chunks
  for (const char* plan : {"tp=8,pp=16,micro_batch=1", "tp=8,pp=8,micro_batch=1,schedule=interleaved,interleave=8"}) {
    const auto large = flags("zoo:llama3.1-405b", plan);
    CHECK_THAT(large, contains("--account-for-embedding-in-pipeline-split\n") && contains("--account-for-loss-in-pipeline-split\n"));
    CHECK(large.find("--decoder-first") == std::string::npos);
  }
  // 32 of 3: eleven, and 21 on the ends
  const auto three = flags("zoo:llama3-8b", "pp=3,micro_batch=1");
  CHECK_THAT(three, contains("--decoder-first-pipeline-num-layers 11\n") && contains("--decoder-last-pipeline-num-layers 10\n"));
  const auto even = flags("zoo:llama3-8b", "pp=4,micro_batch=1");
  CHECK(even.find("--decoder-first") == std::string::npos);
}

TEST_CASE("flags of Megatron-Core say model, degrees, sharding and optimizer") {
  // 2 replicas of 8 ranks in each of 2 stages: 64 samples are 32 of a replica
  const auto text = exported("megatron-core", job_of("dp=2,tp=8,pp=2,micro_batch=1,zero=1,sequence_parallel=on,recompute=selective"));
  for (const char* flag : {"--tensor-model-parallel-size 8\n",
                           "--pipeline-model-parallel-size 2\n",
                           "--context-parallel-size 1\n",
                           "--micro-batch-size 1\n",
                           "--global-batch-size 64\n",
                           "--use-distributed-optimizer\n",
                           "--sequence-parallel\n",
                           "--recompute-granularity selective\n",
                           "--overlap-grad-reduce\n",
                           "--overlap-param-gather\n",
                           "--bf16\n",
                           "--optimizer adam\n",
                           "--adam-beta2 0.999\n",
                           "--weight-decay 0.01\n",
                           "--clip-grad 0\n",
                           "--num-layers 32\n",
                           "--ffn-hidden-size 14336\n",
                           "--num-query-groups 8\n",
                           "--rotary-base 500000\n",
                           "--swiglu\n",
                           "--untie-embeddings-and-output-weights\n"})
    CHECK_THAT(text, contains(flag));
}

TEST_CASE("1-bit Adam is an optimizer of DeepSpeed, and replicas that part are nobody's") {
  const auto text = exported("deepspeed", job_of("dp=8,compression=1bit-adam,exact_steps=400"));
  for (const char* part : {"\"type\": \"OneBitAdam\"", "\"freeze_step\": 400", "\"comm_backend_name\": \"nccl\""})
    CHECK_THAT(text, contains(part));
  CHECK_THROWS_WITH(exported("deepspeed", job_of("dp=8,zero=1,compression=1bit-adam,exact_steps=400")), contains("compression: "));
  for (const auto* framework : {"megatron-core", "torchtitan", "deepspeed", "fsdp2"})
    CHECK_THROWS_WITH(exported(framework, job_of("dp=8,local_steps=50,exact_steps=100,outer=nesterov")),
                      contains("local_steps: ") && contains("exact_steps: ") && contains("outer: "));
}

TEST_CASE("what Megatron-Core cannot do is refused by key, all keys at once") {
  auto job = job_of("dp=2,pp=2,schedule=gpipe,recompute=4GiB,spatial=1x1x2,allreduce=ring,micro_batch=1");
  job.optimizer = graph::completed({"lamb", {}});
  try {
    (void)exported("megatron-core", job);
    FAIL("nothing was refused");
  } catch (const Refusal& refusal) {
    for (const char* key : {"\nspatial: ", "\nschedule: ", "\nrecompute: ", "\nallreduce: ", "\noptimizer: "})
      CHECK_THAT(refusal.what(), contains(key));
  }
  CHECK_THROWS_WITH(exported("megatron-core", job_of("dp=2", 64, "zoo:resnet50")), contains("model: zoo:resnet50 is no decoder"));
  CHECK_THROWS_WITH(exported("megatron-core", job_of("dp=2", 64, "zoo:gemma2-9b")), contains("score_cap=50"));
}

TEST_CASE("torchtitan gets the function of the model with the plan's values") {
  // 8 replicas in groups of 4: 2 copies, each sharded among 4
  const auto text = exported("torchtitan", job_of("dp=8,tp=2,zero=3,zero_group=4,micro_batch=2,recompute=selective-op"));
  for (const char* line :
       {"config = llama3_8b()\n", "data_parallel_replicate_degree = 2\n", "data_parallel_shard_degree = 4\n",
        "tensor_parallel_degree = 2\n", "local_batch_size = 2\n", "global_batch_size = 64\n",
        "config.activation_checkpoint = SelectiveAC.Config()\n", "config.training.mixed_precision_param = \"bfloat16\"\n",
        "optimizer_name=\"AdamW\"", "config.training.seq_len = 8192\n"})
    CHECK_THAT(text, contains(line));
  // with a pipeline the local batch is what its micro-batches are cut from: 64 / 2 replicas
  const auto staged = exported("torchtitan", job_of("dp=2,pp=4,zero=3,micro_batch=1"));
  CHECK_THAT(staged, contains("local_batch_size = 32\n"));
  CHECK_THAT(staged, contains("pipeline_parallel_microbatch_size = 1\n"));
  CHECK_THROWS_WITH(exported("torchtitan", job_of("dp=2,zero=1")), contains("zero: it does not share optimizer states alone"));
  CHECK_THROWS_WITH(exported("torchtitan", job_of("dp=2", 64, "zoo:llama3-8b?layers=31")), contains("model: "));
}

TEST_CASE("DeepSpeed's file has the batch three ways and the optimizer") {
  // 64 samples / 4 replicas / 2 a micro-batch = 8 micro-batches
  auto job = job_of("dp=4,zero=2,micro_batch=2,offload=optimizer", 64, "");
  job.clip_norm = 1;
  const auto text = exported("deepspeed", job);
  for (const char* line :
       {"\"train_batch_size\": 64", "\"train_micro_batch_size_per_gpu\": 2", "\"gradient_accumulation_steps\": 8", "\"stage\": 2",
        "\"device\": \"cpu\"", "\"type\": \"AdamW\"", "\"gradient_clipping\": 1", "\"bf16\": {\n    \"enabled\": true"})
    CHECK_THAT(text, contains(line));
  // One replica shares nothing out, and offloads by a stage that moves nothing.
  CHECK_THAT(exported("deepspeed", job_of("dp=1,offload=optimizer", 64, "")), contains("\"stage\": 1") && contains("\"device\": \"cpu\""));
  CHECK_THAT(exported("megatron-core", job_of("dp=1,offload=optimizer")),
             contains("--use-distributed-optimizer") && contains("--optimizer-cpu-offload"));
  CHECK_THROWS_WITH(exported("deepspeed", job_of("dp=2,offload=optimizer", 64, "")), contains("use zero=1, 2 or 3"));
  CHECK_THROWS_WITH(exported("deepspeed", job_of("dp=2,pp=2,micro_batch=1")), contains("pp: its stages are made by the program"));
  CHECK_THROWS_WITH(exported("deepspeed", job_of("dp=2,cp=2")), contains("cp: it splits sequences by all-to-all"));
  CHECK_THAT(exported("deepspeed", job_of("dp=2,cp=2,attention=all-to-all")), contains("\"sequence_parallel_size\": 2"));
}

TEST_CASE("FSDP2 gets Accelerate's file, and as remarks what the program says itself") {
  // 16 replicas sharded among 8: 2 copies; 64 / 16 / 2 = 2 micro-batches
  const auto text = exported("fsdp2", job_of("dp=16,zero=3,zero_group=8,micro_batch=2,recompute=full", 64, ""));
  for (const char* line : {"fsdp_version: 2\n", "fsdp_reshard_after_forward: true\n", "parallelism_config_dp_replicate_size: 2\n",
                           "num_processes: 16\n", "parallelism_config_dp_shard_size: 8\n", "gradient_accumulation_steps=2)\n",
                           "fsdp_activation_checkpointing: true\n", "mixed_precision: bf16\n", "#   optimizer: adamw"})
    CHECK_THAT(text, contains(line));
  CHECK_THROWS_WITH(exported("fsdp2", job_of("dp=16,zero=1")), contains("zero: it always shares out parameters"));
}

TEST_CASE("a framework's rules say of a plan what it cannot do, and what is left to the program") {
  const auto refused = [](const PlanRules& rules, const std::string& plan) {
    std::vector<std::string> keys;
    for (const auto& v : rules(plan::parse_plan(plan)).impossible) keys.push_back(v.key);
    return keys;
  };
  using Keys = std::vector<std::string>;
  const PlanRules megatron("megatron-core", job_of("dp=1"));
  CHECK(refused(megatron, "dp=2,tp=2,pp=2,micro_batch=1,zero=1").empty());
  CHECK(refused(megatron, "dp=2,pp=2,micro_batch=1,zero=2") == Keys{"zero"});
  CHECK(refused(megatron, "pp=2,micro_batch=1,schedule=dualpipe,offload=activations") == Keys{"schedule", "offload"});
  CHECK(refused(PlanRules("nemo", job_of("dp=1")), "dp=2,pp=2,micro_batch=1,zero=2") == Keys{"zero"});  // runs Megatron-Core
  const PlanRules deepspeed("deepspeed", job_of("dp=1"));
  const auto staged = deepspeed(plan::parse_plan("pp=2,micro_batch=1,recompute=full"));
  CHECK(staged.impossible.empty());
  REQUIRE(staged.left_to_program.size() == 2);
  CHECK(staged.left_to_program[0].key == "pp");
  CHECK(staged.left_to_program[1].key == "recompute");
  for (const auto* framework : {"megatron-core", "torchtitan", "deepspeed"}) {
    const auto placed = PlanRules(framework, job_of("dp=1"))(plan::parse_plan("dp=2,fill=V100"));
    REQUIRE(placed.left_to_program.size() == 1);
    CHECK(placed.left_to_program[0].key == "fill");
    CHECK_THAT(placed.left_to_program[0].remedy, contains("list the hosts of V100 first"));
  }
  CHECK(refused(deepspeed, "dp=128").empty());  // more replicas than samples: for others to refuse
  CHECK(refused(PlanRules("torchtitan", job_of("dp=1")), "dp=2,zero=3,pp=2,micro_batch=1,schedule=interleaved,interleave=4") ==
        Keys{"interleave"});
  CHECK(PlanRules("pytorch", job_of("dp=1")).empty());
  CHECK(refused(PlanRules("pytorch", job_of("dp=1")), "pp=2,schedule=dualpipe").empty());
}

TEST_CASE("what is refused for every plan is no rule about plans") {
  auto job = job_of("dp=1");
  const PlanRules bf16("torchtitan", job);
  CHECK(bf16(plan::parse_plan("tp=2")).impossible.size() == 1);  // bf16 where nothing is shared out
  CHECK(bf16(plan::parse_plan("tp=2,dp=2,zero=3")).impossible.empty());
  job.dtype = "f16";
  job.model = "model.onnx";
  job.optimizer = graph::completed({"sgd", {}});
  CHECK(PlanRules("torchtitan", job)(plan::parse_plan("tp=2")).impossible.empty());
}

TEST_CASE("what is wrong with a job is said before any framework is asked") {
  CHECK_THROWS_WITH(exported("deepsped", job_of("dp=2")), contains("did you mean \"deepspeed\"?"));
  CHECK_THROWS_WITH(exported("deepspeed", job_of("dp=2", 0)), contains("--batch"));
  CHECK_THROWS_WITH(exported("deepspeed", job_of("dp=3")), contains("dp: 3 replicas do not divide a batch of 64"));
  CHECK_THROWS_WITH(exported("deepspeed", job_of("dp=2,micro_batch=5")), contains("micro_batch: 5 samples do not divide the 32"));
  CHECK_THROWS_WITH(exported("deepspeed", job_of("dp=2,zero=auto")), contains("zero=auto: is still to be searched"));
}

}  // namespace
}  // namespace rehearsal::exchange
