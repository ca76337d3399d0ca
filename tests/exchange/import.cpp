// Configurations of other frameworks as plans: what export writes comes back, and what users write is understood or refused by its flag.

#include <algorithm>
#include <random>

#include "base/error.hpp"
#include "exchange/frameworks/plan_import.hpp"
#include "plan/plan.hpp"
#include "tests/catch.hpp"

namespace rehearsal::exchange {
namespace {

ImportedJob read(const std::string& text, std::optional<int> ranks = {}) { return imported_megatron(text, "flags.sh", ranks); }

const std::string kModel = "--num-layers 4 --hidden-size 256 --num-attention-heads 8 --seq-length 128 --vocab-size 1000 ";
const std::string kBatch = "--micro-batch-size 2 --global-batch-size 16 ";

std::string reason_of(const ImportedJob& imported, const std::string& flag) {
  const auto found = std::ranges::find(imported.left_out, flag, &LeftOut::key);
  return found == imported.left_out.end() ? "" : found->reason;
}

/// A plan that Megatron-Core can run, every key of which means something in it.
class RandomPlans {
 public:
  plan::Plan next() {
    plan::Plan p;
    p.dp = one_of({1, 2, 4, 8});
    p.tp = one_of({1, 2, 4});
    p.cp = one_of({1, 2});
    p.zero = one_of({0, 1, 2, 3});
    p.pp = p.zero > 1 ? 1 : one_of({1, 2, 4});
    if (p.pp > 1 && one_of({0, 1}) == 1) {
      p.schedule = "interleaved";
      p.interleave = 2;
    }
    if (p.zero == 1 && p.dp == 8) p.zero_group = one_of({0, 2, 4});
    p.sequence_parallel = p.tp > 1 && one_of({0, 1}) == 1;
    if (p.cp > 1) p.attention = static_cast<plan::AttentionForm>(one_of({0, 1, 2}));
    p.recompute.rule = std::array{plan::RecomputeRule::None, plan::RecomputeRule::Selective, plan::RecomputeRule::Full}[pick(3)];
    if (p.recompute.rule == plan::RecomputeRule::Full) p.recompute.blocks = one_of({0, 1, 3});
    p.overlap = p.dp * p.cp == 1 || one_of({0, 1}) == 1;
    if (p.zero == 1 && one_of({0, 1}) == 1) p.offload = plan::Offload::Optimizer;
    if (one_of({0, 1}) == 1) p.compression.rule = plan::CompressionRule::BF16;
    if (p.ranks() > 1 && one_of({0, 1}) == 1) p.order = "tp.cp.ep.pp.dp";
    if (one_of({0, 1}) == 1) p.fuse = plan::Fusion::None;
    if (const int micro = one_of({1, 2, 8}); micro < 64 / p.dp) p.micro_batch = micro;
    return p;
  }

 private:
  std::size_t pick(std::size_t count) { return std::uniform_int_distribution<std::size_t>(0, count - 1)(generator_); }
  int one_of(std::initializer_list<int> values) { return values.begin()[pick(values.size())]; }
  std::mt19937 generator_{7};
};

TEST_CASE("a plan that was exported to Megatron-Core comes back") {
  RandomPlans plans;
  constexpr std::array kModels{"zoo:llama3-8b", "zoo:gpt?layers=16", "zoo:gpt?layers=24&hidden=1024&heads=16&ffn=3000", "zoo:mixtral-8x7b"};
  constexpr std::array kTypes{"f32", "bf16", "f16", "fp8", "fp8-block", "mxfp8", "nvfp4"};
  for (std::size_t n = 0; n < 500; ++n) {
    TrainingJob job;
    job.plan = plans.next();
    job.model = kModels[n % kModels.size()];
    if (job.model == "zoo:mixtral-8x7b" && job.plan.tp > 1) job.plan.sequence_parallel = true;  // which Megatron-Core asks of mixtures
    job.batch = 64;
    job.dtype = kTypes[n % kTypes.size()];
    job.optimizer = graph::completed({n % 5 == 0 && job.plan.offload == plan::Offload::None ? "sgd" : "adamw", {}});
    job.clip_norm = n % 3 == 0 ? 1 : 0;
    const auto text = exported("megatron-core", job);
    CAPTURE(plan::to_text(job.plan), text);
    const auto imported = read(text, job.plan.ranks());
    // What predictions for it do not have is left out: attention in parts, and other ways than a ring.
    auto predicted = job.plan;
    predicted.fuse = plan::Fusion::Attention;
    if (predicted.attention == plan::AttentionForm::AllToAll) predicted.attention = plan::AttentionForm::Gather;
    CHECK(plan::to_text(imported.job.plan) == plan::to_text(predicted));
    CHECK(reason_of(imported, "--cp-comm-type").empty() == (job.plan.attention != plan::AttentionForm::AllToAll));
    CHECK(reason_of(imported, "--attention-backend").empty() == (job.plan.fuse != plan::Fusion::None));
    CHECK(imported.job.dtype == job.dtype);
    CHECK(imported.job.batch == 64);
    CHECK(imported.job.optimizer.name == job.optimizer.name);
    CHECK(imported.job.clip_norm == job.clip_norm);
    // The model is the same when its flags are.
    auto again = job;
    again.model = imported.job.model;
    CHECK(exported("megatron-core", again) == text);
  }
}

TEST_CASE("plans with stages of unequal layers come back, and what is said of those is left out") {
  TrainingJob job;
  job.batch = 64;
  job.optimizer = graph::completed({"adamw", {}});
  for (const auto& [model, plan, flag] :
       {std::array{"zoo:llama3.1-405b", "dp=1,tp=8,pp=16,micro_batch=1", "--account-for-loss-in-pipeline-split"},
        std::array{"zoo:llama3-8b", "dp=1,pp=3,micro_batch=1", "--decoder-last-pipeline-num-layers"}}) {
    job.model = model;
    job.plan = plan::parse_plan(plan);
    const auto imported = read(exported("megatron-core", job), job.plan.ranks());
    CHECK(plan::to_text(imported.job.plan) == plan);
    CHECK_THAT(reason_of(imported, flag), contains("stages are cut where they take as long"));
  }
}

TEST_CASE("experts come back") {
  TrainingJob job;
  job.plan = plan::parse_plan("dp=16,ep=8,tp=2,sequence_parallel=on,micro_batch=1,zero=1");
  job.batch = 64;
  job.optimizer = graph::completed({"adamw", {}});
  for (const std::string model :
       {"zoo:mixtral-8x7b", "zoo:qwen3-30b-a3b", "zoo:moe?shared_experts=2&moe_ffn=1024&dense_layers=3&capacity=100"}) {
    CAPTURE(model);
    job.model = model;
    const auto text = exported("megatron-core", job);
    const auto imported = read(text, 32);
    CHECK(imported.job.plan.ep == 8);
    job.model = imported.job.model;
    CHECK(exported("megatron-core", job) == text);
  }
  // Experts that tensor parallelism does not split are spread over its ranks, too.
  job.plan = plan::parse_plan("dp=4,ep=8,tp=2,sequence_parallel=on,micro_batch=1,zero=1");
  job.model = "zoo:mixtral-8x7b";
  CHECK(plan::to_text(read(exported("megatron-core", job), 8).job.plan) == plan::to_text(job.plan));
  job.plan = plan::parse_plan("dp=16,ep=8,tp=2,sequence_parallel=on,micro_batch=1,zero=1");
  // Without a factor no token is dropped, and that stays so.
  job.model = "zoo:mixtral-8x7b";
  auto flags = exported("megatron-core", job);
  const std::string factor = "--moe-expert-capacity-factor 1.25\n";
  REQUIRE(flags.find(factor) != std::string::npos);
  flags.erase(flags.find(factor), factor.size());
  const auto dropless = read(flags, 32);
  CHECK_THAT(dropless.job.model, contains("capacity=400"));  // 8 experts of 2 choices
  job.model = dropless.job.model;
  CHECK(exported("megatron-core", job) == flags);
}

TEST_CASE("shell scripts are read with their arrays, variables and torchrun") {
  const auto imported = read(R"(#!/bin/bash
export CUDA_DEVICE_MAX_CONNECTIONS=1
GPUS_PER_NODE=8
NUM_NODES=${NNODES:-2}   # two of them
LAYERS=24
DISTRIBUTED_ARGS=(
    --nproc_per_node $GPUS_PER_NODE
    --nnodes $NUM_NODES
    --master_addr "localhost"
)
GPT_MODEL_ARGS=(
    --num-layers ${LAYERS}
    --hidden-size 1024 --num-attention-heads 16
    --seq-length 2048
    --vocab-size 51200
    --untie-embeddings-and-output-weights
)
MODEL_PARALLEL_ARGS="
	--tensor-model-parallel-size 2 \
	--pipeline-model-parallel-size=2
"
torchrun ${DISTRIBUTED_ARGS[@]} pretrain_gpt.py ${GPT_MODEL_ARGS[@]} $MODEL_PARALLEL_ARGS \
    --micro-batch-size 1 --global-batch-size 64 --bf16 --use-distributed-optimizer \
    --overlap-grad-reduce --overlap-param-gather --lr 1e-4 --lr-decay-style cosine --data-path my/data
)");
  // 16 ranks of replicas of 4
  CHECK(plan::to_text(imported.job.plan) == "dp=4,tp=2,pp=2,micro_batch=1,zero=1");
  CHECK(imported.job.model == "zoo:gpt?layers=24&hidden=1024&heads=16&seq=2048&vocab=51200&tied=0");
  CHECK(imported.job.optimizer.values.at("lr") == 1e-4);
  CHECK(imported.job.clip_norm == 1);  // Megatron's own
  CHECK(reason_of(imported, "--lr-decay-style") == "the schedule of the learning rate");
  CHECK(reason_of(imported, "--data-path") == "data");
  const std::string without = "--num-layers 4 --hidden-size 256 --num-attention-heads 8 --seq-length 128 " + kBatch;
  CHECK_THAT(read(without + "--vocab-file a --merge-file b", 8).job.model,
             contains("seq=128") && !contains("vocab"));      // the zoo's own 50257
  CHECK(read(kModel + kBatch, 8).job.plan.overlap == false);  // not unless it is asked for
}

TEST_CASE("YAML with a flag a line is read, and what is false is not there") {
  const auto imported = read(
      "MODEL_ARGS:\n  --num-layers: 4\n  --hidden-size: 256\n  --num-attention-heads: 8\n  --seq-length: 128\n"
      "  --vocab-size: 1000\n  --micro-batch-size: 2\n  --global-batch-size: 16\n  --bf16: true\n"
      "  --sequence-parallel: false\n  --tensor-model-parallel-size: 2\n",
      8);
  CHECK(imported.job.dtype == "bf16");
  CHECK(imported.job.plan.tp == 2);
  CHECK_FALSE(imported.job.plan.sequence_parallel);
}

TEST_CASE("what flags leave out is Megatron's default") {
  // gated: two thirds of 4 * 256 in whole 64s: 682 is 640
  const auto imported = read(kModel + kBatch + "--swiglu --normalization RMSNorm --disable-bias-linear --position-embedding-type rope", 8);
  CHECK(imported.job.model == "zoo:llama?layers=4&hidden=256&heads=8&ffn=640&seq=128&vocab=1000&tied=1");
  const auto with_mean = read(kModel + kBatch + "--swiglu --disable-bias-linear --position-embedding-type rope", 8);
  CHECK(with_mean.job.model == imported.job.model);
  CHECK_THAT(reason_of(with_mean, "--normalization"), contains("LayerNorm is taken as the other one"));
  CHECK(read(kModel + "--micro-batch-size 2", 8).job.batch == 16);  // 2 of 8 replicas
  CHECK(read(kModel + kBatch + "--pipeline-model-parallel-size 2 --num-layers-per-virtual-pipeline-stage 1", 8).job.plan.interleave == 2);
  CHECK(read(kModel + kBatch + "--recompute-activations", 8).job.plan.recompute.rule == plan::RecomputeRule::Selective);
  const auto some = read(kModel + kBatch + "--recompute-granularity full --recompute-method block --recompute-num-layers 2", 8);
  CHECK(plan::to_text(some.job.plan.recompute) == "full:2");
}

TEST_CASE("flags that no plan or model says are refused, all at once") {
  const auto refused = [](const std::string& flags, const std::string& words) {
    CAPTURE(flags);
    CHECK_THROWS_WITH(read(kModel + kBatch + flags, 8), contains(words));
  };
  refused("--multi-latent-attention", "--multi-latent-attention: is not known here");
  refused("--swiglu", "--position-embedding-type: rope, --swiglu and --disable-bias-linear are only built together");
  refused("--recompute-granularity full --recompute-method uniform --recompute-num-layers 2",
          "--recompute-method: uniform with --recompute-num-layers 2");
  refused("--recompute-granularity full --recompute-method block --recompute-num-layers 0", "--recompute-num-layers 0");
  refused("--recompute-granularity selective --recompute-modules mlp", "--recompute-modules: is mlp");
  refused("--optimizer muon", "--optimizer: is muon");
  refused("--cp-comm-type a2a+p2p", "--cp-comm-type: is a2a+p2p");
  refused("--rampup-batch-size 16 16 1000", "--rampup-batch-size: steps differ");
  refused("--use-distributed-optimizer --overlap-grad-reduce", "--overlap-grad-reduce: is without --overlap-param-gather");
  refused("--fp8-format hybrid --fp8-recipe custom", "--fp8-recipe: is custom");
  refused("--use-torch-fsdp2", "--use-torch-fsdp2");
  refused("--num-experts 4 --tensor-model-parallel-size 2 --expert-tensor-parallel-size 1", "--expert-tensor-parallel-size: is 1");
  refused("--swiglu --normalization RMSNorm --disable-bias-linear --position-embedding-type rope --window-size 10,10",
          "--window-size: is 10,10");
  try {
    (void)read(kBatch + "--num-layers 4 --optimizer muon --swiglu", 8);
    FAIL("nothing was refused");
  } catch (const Refusal& refusal) {
    for (const char* flag :
         {"\n--hidden-size: is missing", "\n--vocab-size: is missing", "\n--optimizer: ", "\n--position-embedding-type: "})
      CHECK_THAT(refusal.what(), contains(flag));
  }
}

TEST_CASE("what is wrong with flags is said with file and flag") {
  CHECK_THROWS_WITH(read(kModel + kBatch), contains("flags.sh: does not say how many ranks there are"));
  CHECK_THROWS_WITH(read(kModel + "--global-batch-size 16", 8), contains("flags.sh: --micro-batch-size: is missing or 0"));
  CHECK_THROWS_WITH(read(kModel + "--micro-batch-size two", 8), contains("flags.sh: --micro-batch-size: is 'two'"));
  CHECK_THROWS_WITH(read(kModel + "--micro-batch-size $MBS", 8), contains("is $MBS, which nothing in the file sets"));
  CHECK_THROWS_WITH(read(kModel + "--micro-batch-size 1 2", 8), contains("must have one value, and has 2"));
  CHECK_THROWS_WITH(read(kModel + "--micro-batch-size 3 --global-batch-size 16", 8),
                    contains("--global-batch-size: is 16, which 8 replicas"));
  CHECK_THROWS_WITH(read(kModel + kBatch + "--tensor-model-parallel-size 3", 8), contains("a replica has 3 ranks"));
  CHECK_THROWS_WITH(read(kModel + kBatch + "--tensor-model-parallel-size 0", 8), contains("--tensor-model-parallel-size: is 0"));
  CHECK_THROWS_WITH(read(kModel + kBatch + "--tensor-model-parallel-size 2 --context-parallel-size 1048577", 8),
                    contains("from 1 to 1048576"));
  CHECK_THROWS_WITH(read(kModel + kBatch + "--expert-model-parallel-size 4", 8), contains("is 4 without --num-experts"));
  CHECK_THROWS_WITH(read(kModel + kBatch + "--num-virtual-stages-per-pipeline-rank 2", 8), contains("parts each") && contains("one stage"));
  CHECK_FALSE(is_megatron("nothing of it"));
}

ImportedJob titan(const std::string& text, std::optional<int> ranks = {}) { return imported_torchtitan(text, "job.toml", ranks); }

/// A plan that torchtitan can run, every key of which means something in it.
plan::Plan titan_plan(std::mt19937& generator, bool experts) {
  const auto one_of = [&](std::initializer_list<int> values) {
    return values.begin()[std::uniform_int_distribution<std::size_t>(0, values.size() - 1)(generator)];
  };
  plan::Plan p;
  p.dp = one_of({1, 2, 4, 8});
  p.zero = p.dp > 1 ? one_of({0, 2, 3}) : 0;
  if (p.zero > 0 && p.dp == 8) p.zero_group = one_of({0, 2, 4});
  p.tp = experts || p.zero == 0 ? 1 : one_of({1, 2, 4});
  p.cp = one_of({1, 2});
  p.pp = p.zero == 0 ? 1 : one_of({1, 2, 4});
  if (experts && p.zero > 0 && p.zero_group == 0) p.ep = one_of({1, 2});
  if (p.pp > 1) p.schedule = std::array{"1f1b", "gpipe", "interleaved"}[static_cast<std::size_t>(one_of({0, 1, 2}))];
  if (p.schedule == "interleaved") p.interleave = 2;
  p.sequence_parallel = p.tp > 1 && one_of({0, 1}) == 1;
  p.recompute.rule = std::array{plan::RecomputeRule::None, plan::RecomputeRule::SelectiveOps,
                                plan::RecomputeRule::Full}[static_cast<std::size_t>(one_of({0, 1, 2}))];
  if (const int micro = one_of({1, 2, 8}); micro < 64 / p.dp) p.micro_batch = micro;
  return p;
}

TEST_CASE("a plan that was exported to torchtitan comes back") {
  std::mt19937 generator(11);
  constexpr std::array kModels{"zoo:llama3-8b", "zoo:llama3-70b?seq=4096", "zoo:qwen3-0.6b", "zoo:qwen3-30b-a3b"};
  for (std::size_t n = 0; n < 500; ++n) {
    TrainingJob job;
    job.model = kModels[n % kModels.size()];
    job.plan = titan_plan(generator, n % kModels.size() == 3);
    job.batch = 64;
    job.dtype = n % 2 == 0 ? "bf16" : "f32";
    job.optimizer = graph::completed({n % 5 == 0 ? "adam" : "adamw", {}});
    job.clip_norm = n % 3 == 0 ? 1 : 0;
    const auto text = exported("torchtitan", job);
    CAPTURE(text);
    const auto imported = titan(text, job.plan.ranks());
    CHECK(plan::to_text(imported.job.plan) == plan::to_text(job.plan));
    CHECK(imported.job.dtype == job.dtype);
    CHECK(imported.job.batch == 64);
    CHECK(imported.job.clip_norm == job.clip_norm);
    CHECK(imported.job.optimizer.name == job.optimizer.name);
    for (const auto& [name, value] : imported.job.optimizer.values) CHECK(job.optimizer.values.at(name) == value);
    CHECK(imported.job.optimizer.values.size() == 5);
    auto again = job;
    again.model = imported.job.model;
    CHECK(exported("torchtitan", again) == text);
  }
}

const std::string kTitan = R"(# a comment
[job]
description = "Llama 3 8B training"   # with = in it
[model]
name = "llama3"
flavor = "8B"
converters = [
  "float8",
]
[optimizer]
name = "AdamW"
lr = 3e-4
[training]
local_batch_size = 2
seq_len = 4096
max_norm = 0.5
steps = 1000
[activation_checkpoint]
mode = 'selective'
selective_ac_option = 'op'
[float8]
recipe_name = "rowwise"
[parallelism]
data_parallel_replicate_degree = 2
data_parallel_shard_degree = -1
tensor_parallel_degree = 2
)";

TEST_CASE("TOML of torchtitan is read with its defaults") {
  const auto imported = titan(kTitan, 32);
  // 32 ranks / 2 of tensor parallelism = 16 replicas: 2 copies sharded among 8; a batch of 2 each
  CHECK(plan::to_text(imported.job.plan) == "dp=16,tp=2,zero=3,zero_group=8,recompute=selective-op,sequence_parallel=on");
  CHECK(imported.job.model == "zoo:llama3-8b?seq=4096");
  CHECK(imported.job.batch == 32);
  CHECK(imported.job.dtype == "fp8-rowwise");
  CHECK(imported.job.optimizer.values.at("lr") == 3e-4);
  CHECK(imported.job.clip_norm == 0.5);
  CHECK(reason_of(imported, "job.description") == "folders and names");
  const auto staged = titan(kTitan + "pipeline_parallel_degree = 2\npipeline_parallel_schedule = \"GPipe\"\n", 32);
  CHECK(staged.job.plan.zero == 2);  // pipelines keep parameters between micro-batches
  CHECK(staged.job.plan.micro_batch == 1);
  CHECK(staged.job.plan.schedule == "gpipe");
}

TEST_CASE("what of torchtitan no plan says is refused by key") {
  const auto refused = [](const std::string& from, const std::string& to, const std::string& words) {
    auto text = kTitan;
    const auto at = text.find(from);
    REQUIRE(at != text.npos);
    text.replace(at, from.size(), to);
    CHECK_THROWS_WITH(titan(text, 32), contains(words));
  };
  refused("\"8B\"", "\"405B\"", "model.name, model.flavor: are llama3 and 405B");
  refused("'op'", "'2'", "activation_checkpoint.selective_ac_option: is 2");
  refused("mode = 'selective'", "", "activation_checkpoint.mode: is missing");
  refused("\"rowwise\"", "\"rowwise_with_gw_hp\"", "model.converters: is float8 by rowwise_with_gw_hp");
  refused("steps = 1000", "enable_cpu_offload = true", "training.enable_cpu_offload: is no key of a plan");
  refused("steps = 1000", "mixed_precision_param = \"float16\"", "training.mixed_precision_param: is float16");
  refused("steps = 1000", "colour = 3", "training.colour: is not known here");
  refused("name = \"AdamW\"", "name = \"Muon\"", "optimizer.name: is Muon");
  refused("seq_len = 4096", "", "training.seq_len: is missing");
  refused("local_batch_size = 2", "", "job.toml: training.local_batch_size: is missing or 0");
  refused("local_batch_size = 2", "local_batch_size = 2\nglobal_batch_size = 40",
          "training.global_batch_size: is 40, which 16 replicas of 2");
  refused("shard_degree = -1", "shard_degree = 4", "do not multiply to 32 ranks");
  CHECK_THROWS_WITH(titan(kTitan), contains("parallelism.data_parallel_shard_degree: is -1, all ranks that are left; give --ranks"));
  CHECK(is_torchtitan(kTitan));
  CHECK_FALSE(is_torchtitan(kModel));
}

}  // namespace
}  // namespace rehearsal::exchange
