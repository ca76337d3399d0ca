// A plan of Megatron-LM's flags. Their meaning and defaults: megatron/training/arguments.py and megatron/core/model_parallel_config.py,
// transformer/transformer_config.py, optimizer/optimizer_config.py (https://github.com/NVIDIA/Megatron-LM, 0.16 to 0.20).
#include <algorithm>
#include <array>
#include <limits>

#include "base/error.hpp"
#include "base/join.hpp"
#include "exchange/frameworks/imports.hpp"

namespace rehearsal::exchange {
namespace {

/// A reason and the beginnings of flags that it is given for. Kernels stand before routing: --moe-router-fusion is theirs.
constexpr IdleKeys kIdleFlags[] = {
    {"data",
     "--tokenizer --vocab-file --merge-file --data- --train-data --valid-data --test-data --split --num-workers --mock-data "
     "--dataloader-type --no-create-attention-mask --reset- --eod-mask-loss --no-mmap-bin-files --tiktoken-"},
    {"--vocab-size is taken as it is", "--make-vocab-size-divisible-by"},
    {"--seq-length says what a sample has", "--max-position-embeddings"},
    {"the schedule of the learning rate", "--lr --min-lr --override-opt --decoupled-"},
    {"the schedule of weight decay", "--start-weight-decay --end-weight-decay --weight-decay-incr-style"},
    {"how long the training is: estimate --steps", "--train-iters --train-samples --exit-"},
    {"checkpoints: estimate --checkpoint-every", "--save"},
    {"checkpoints",
     "--load --ckpt- --dist-ckpt --use-dist-ckpt --async-save --no-load- --no-save- --finetune --auto-detect-ckpt-format "
     "--use-persistent-ckpt-worker --use-checkpoint- --no-ckpt- --verify-integrity"},
    {"evaluation", "--eval-"},
    {"logs",
     "--log- --tensorboard --wandb --timing-log --profile --use-pytorch-profiler --one-logger --enable-one-logger --no-one-logger "
     "--straggler- --logging-level"},
    {"first values", "--seed --init-method --use-cpu-initialization --perform-initialization"},
    {"how ranks are started",
     "--distributed- --rdzv --master- --node-rank --local-ranks-filter --local-rank --tee --redirects --max-restarts"},
    {"the profile says whether recipes drop", "--attention-dropout --hidden-dropout"},
    {"a constant",
     "--norm-epsilon --apply-layernorm-1p --apply-query-key-layer-scaling --calculate-per-token-loss --moe-aux-loss-coeff "
     "--moe-z-loss-coeff --rotary-interleaved --rotary-seq-len-interpolation-factor"},
    {"kernels are the profile's",
     "--deterministic-mode --attention-softmax-in-fp32 --no-masked-softmax-fusion --no-bias- --no-rope-fusion "
     "--no-gradient-accumulation-fusion --cross-entropy- --moe-grouped-gemm --moe-permute-fusion --moe-router-fusion --use-flash-attn "
     "--transformer-impl --use-mcore-models --use-legacy-models --manual-gc"},
    {"checks", "--rerun-mode --check-weight-hash --check-for-nan --no-check-for-nan"},
    {"--position-embedding-type says it", "--no-position-embedding"},
    {"the allocator is the profile's", "--empty-unused-memory-level"},
    {"in what weights are gathered is the profile's", "--fp8-param-gather"},
    {"what is beside computing is the profile's", "--tp-comm-overlap"},
    {"balanced routing is taken; estimate --imbalance", "--moe-router- --moe-pad-expert-input-to-capacity"},
    {"scales of fp8", "--fp8-amax --fp8-margin --fp8-interval"},
    {"loss scaling", "--min-loss-scale --hysteresis"},
    {"stages are cut where they take as long",
     "--decoder-first-pipeline-num-layers --decoder-last-pipeline-num-layers --account-for-embedding-in-pipeline-split "
     "--account-for-loss-in-pipeline-split"}};

struct MegatronReader {
  Flags flags;
  std::string file;
  Found found;
  plan::Plan& into = found.job.plan;

  int degree(const char* flag) {
    constexpr std::int64_t kMost = 1 << 20;
    const auto value = flags.whole(flag).value_or(1);
    if (value < 1 || value > kMost) throw BadInput(file + ": " + flag, "is " + std::to_string(value) + ", and must be from 1 to 1048576");
    return static_cast<int>(value);
  }
};

/// Ranks that torchrun starts, or that the user says.
int ranks_of(MegatronReader& r, std::optional<int> given) {
  const auto per_node = r.flags.whole("--nproc-per-node"), nodes = r.flags.whole("--nnodes");
  if (given) return *given;
  const auto ranks = per_node.value_or(0) * nodes.value_or(1);
  if (ranks < 1 || ranks > std::numeric_limits<int>::max())
    throw BadInput(r.file, "does not say how many ranks there are (no torchrun --nproc-per-node); give --ranks");
  return static_cast<int>(ranks);
}

void read_degrees(MegatronReader& r, std::optional<int> ranks) {
  auto& p = r.into;
  p.tp = r.degree("--tensor-model-parallel-size");
  p.pp = r.degree("--pipeline-model-parallel-size");
  p.cp = r.degree("--context-parallel-size");
  p.ep = r.degree("--expert-model-parallel-size");
  if (p.ep > 1 && !r.flags.has("--num-experts"))
    throw BadInput(r.file + ": --expert-model-parallel-size",
                   "is " + std::to_string(p.ep) + " without --num-experts; the model has no experts");
  const auto all = ranks_of(r, ranks);
  const auto of_replica = static_cast<std::int64_t>(p.tp) * p.pp * p.cp;
  if (all % of_replica != 0)
    throw BadInput(r.file, "a replica has " + std::to_string(of_replica) + " ranks (tensor, pipeline and context), which do not divide " +
                               std::to_string(all) + "; --ranks says how many there are");
  p.dp = static_cast<int>(all / of_replica);
  const auto inner = r.flags.whole("--expert-tensor-parallel-size").value_or(p.tp);
  if (inner != p.tp && r.flags.has("--num-experts") && !(inner == 1 && p.has_whole_experts()))
    r.found.refuse("--expert-tensor-parallel-size", "is " + std::to_string(inner) + ", and experts are split as the rest",
                   "use " + std::to_string(p.tp));
}

void read_batch(MegatronReader& r) {
  const auto micro = r.flags.whole("--micro-batch-size").value_or(0);
  if (micro < 1) throw BadInput(r.file + ": --micro-batch-size", "is missing or 0");
  r.found.job.batch = r.flags.whole("--global-batch-size").value_or(micro * r.into.dp);
  if (r.flags.has("--rampup-batch-size"))
    r.found.refuse("--rampup-batch-size", "steps differ in their batch", "leave it out, and ask for each batch");
  if (r.found.job.batch % (micro * r.into.dp) != 0)
    throw BadInput(r.file + ": --global-batch-size", "is " + std::to_string(r.found.job.batch) + ", which " + std::to_string(r.into.dp) +
                                                         " replicas with micro-batches of " + std::to_string(micro) + " do not divide");
  if (micro != r.found.job.replica_batch()) r.into.micro_batch = micro;
}

void read_pipeline(MegatronReader& r) {
  auto chunks = r.flags.whole("--num-virtual-stages-per-pipeline-rank").value_or(1);
  if (const auto layers = r.flags.whole("--num-layers-per-virtual-pipeline-stage"); layers && *layers > 0)
    chunks = r.flags.whole("--num-layers").value_or(0) / r.into.pp / *layers;
  if (chunks < 2) return;
  if (r.into.pp == 1)
    throw BadInput(r.file, "cuts stages into " + std::to_string(chunks) +
                               " parts each (virtual pipeline stages), and there is one stage; give --pipeline-model-parallel-size");
  r.into.schedule = "interleaved";
  r.into.interleave = static_cast<int>(chunks);
}

void read_sharding(MegatronReader& r) {
  const bool shared = r.flags.has("--use-distributed-optimizer"), fsdp = r.flags.has("--use-megatron-fsdp");
  const auto strategy = r.flags.text("--data-parallel-sharding-strategy").value_or("no_shard");
  constexpr std::array<std::string_view, 4> kStrategies{"no_shard", "optim", "optim_grads", "optim_grads_params"};
  const auto* stage = std::ranges::find(kStrategies, strategy);
  if (fsdp && stage == kStrategies.end())
    r.found.refuse("--data-parallel-sharding-strategy", "is " + strategy, "use " + joined(kStrategies));
  r.into.zero = fsdp ? static_cast<int>(stage - kStrategies.begin()) : shared ? 1 : 0;
  if (r.flags.has("--use-torch-fsdp2"))
    r.found.refuse("--use-torch-fsdp2", "is PyTorch's", "write the plan as zero=3 with --framework torchtitan");
  const auto instances = r.degree("--num-distributed-optimizer-instances");
  if (instances == 1 || r.into.zero == 0) return;
  if (r.into.dp % instances != 0)
    throw BadInput(r.file + ": --num-distributed-optimizer-instances", "does not divide the " + std::to_string(r.into.dp) + " replicas");
  r.into.zero_group = r.into.dp / instances;
}

/// Every layer, or what attention keeps.
void read_recompute(MegatronReader& r) {
  const auto kind = r.flags.text("--recompute-granularity").value_or(r.flags.has("--recompute-activations") ? "selective" : "none");
  const auto method = r.flags.text("--recompute-method").value_or("uniform");
  const auto layers = r.flags.whole("--recompute-num-layers").value_or(1);
  const auto modules = r.flags.text("--recompute-modules").value_or("core_attn");
  const bool some = method == "block";
  if (kind == "full" && (some ? layers < 1 : method != "uniform" || layers != 1))
    r.found.refuse("--recompute-method", method + " with --recompute-num-layers " + std::to_string(layers) + " keeps what no plan does",
                   "use uniform with 1, or block with the layers of a stage that are computed again");
  if (kind == "selective" && modules != "core_attn") r.found.refuse("--recompute-modules", "is " + modules, "use core_attn");
  if (kind == "full") r.into.recompute = {plan::RecomputeRule::Full, 0, some ? static_cast<int>(layers) : 0};
  if (kind == "selective") r.into.recompute.rule = plan::RecomputeRule::Selective;
}

void read_attention(MegatronReader& r) {
  r.into.sequence_parallel = r.flags.has("--sequence-parallel") && r.into.tp > 1;
  constexpr std::array<std::string_view, 3> kWays{"all_gather", "a2a", "p2p"};
  if (const auto way = r.flags.text("--cp-comm-type")) {
    if (std::ranges::find(kWays, *way) == kWays.end()) return r.found.refuse("--cp-comm-type", "is " + *way, "use " + joined(kWays));
    if (r.into.cp > 1 && *way == "p2p") r.into.attention = plan::AttentionForm::Ring;
    if (r.into.cp > 1 && *way != "p2p") r.found.left_out.push_back({"--cp-comm-type", "predictions have keys and values go round a ring"});
  }
  if (r.flags.text("--attention-backend").value_or("auto") == "unfused")
    r.found.left_out.push_back({"--attention-backend", "the profile says which kernels compute attention"});
}

void read_communication(MegatronReader& r) {
  const bool beside = r.flags.has("--overlap-grad-reduce"), gathers = r.flags.has("--overlap-param-gather");
  r.into.overlap = beside || r.into.dp * r.into.cp == 1;
  if (beside && r.into.zero > 0 && !gathers)
    r.found.refuse("--overlap-grad-reduce", "is without --overlap-param-gather, and plans have both or none", "give both, or none");
  if (r.flags.has("--grad-reduce-in-bf16")) r.into.compression.rule = plan::CompressionRule::BF16;
  if (r.flags.has("--use-tp-pp-dp-mapping")) r.into.order = "tp.cp.ep.pp.dp";
  if (r.flags.has("--optimizer-cpu-offload")) r.into.offload = plan::Offload::Optimizer;
  static_cast<void>(r.flags.has("--use-precision-aware-optimizer"));
}

struct NarrowType {
  std::string_view format, recipe, dtype;
};

void read_type(MegatronReader& r) {
  constexpr std::array kNarrow{NarrowType{"fp8", "delayed", "fp8"}, NarrowType{"fp8", "tensorwise", "fp8"},
                               NarrowType{"fp8", "blockwise", "fp8-block"}, NarrowType{"fp8", "mxfp8", "mxfp8"},
                               NarrowType{"fp4", "nvfp4", "nvfp4"}};
  auto& type = r.found.job.dtype;
  type = r.flags.has("--bf16") ? "bf16" : r.flags.has("--fp16") ? "f16" : "f32";
  for (const auto& [format, usual] : {std::pair<std::string, std::string>{"fp8", "delayed"}, {"fp4", "nvfp4"}}) {
    const auto recipe = r.flags.text("--" + format + "-recipe").value_or(usual);
    if (!r.flags.text("--" + format + "-format")) continue;
    const auto* row = std::ranges::find_if(kNarrow, [&](const NarrowType& n) { return n.format == format && n.recipe == recipe; });
    if (row == kNarrow.end())
      return r.found.refuse("--" + format + "-recipe", "is " + recipe, "use delayed, tensorwise, blockwise, mxfp8 or nvfp4");
    type = row->dtype;
  }
}

void read_optimizer(MegatronReader& r) {
  const auto name = r.flags.text("--optimizer").value_or("adam");
  auto& optimizer = r.found.job.optimizer;
  const double decay = r.flags.number("--weight-decay").value_or(0.01);
  optimizer.name = name == "adam" && decay != 0 ? "adamw" : name;
  if (name != "adam" && name != "sgd") r.found.refuse("--optimizer", "is " + name, "use adam or sgd");
  optimizer.values["weight_decay"] = decay;
  const bool adam = name == "adam";
  for (const auto& [flag, ours, of_adam] : {std::tuple{"--adam-beta1", "beta1", true},
                                            {"--adam-beta2", "beta2", true},
                                            {"--adam-eps", "eps", true},
                                            {"--sgd-momentum", "momentum", false}})
    if (const auto value = r.flags.number(flag); value && of_adam == adam) optimizer.values[ours] = *value;
  if (!adam) optimizer.values.try_emplace("momentum", 0.9);
  if (const auto rate = r.flags.number("--lr")) optimizer.values["lr"] = *rate;
  r.found.job.clip_norm = r.flags.number("--clip-grad").value_or(1);
  const auto scale = r.flags.text("--loss-scale"), first = r.flags.text("--initial-loss-scale"),
             window = r.flags.text("--loss-scale-window");
  if (r.found.job.dtype == "f16") r.found.job.loss_scale = scale.value_or("dynamic");
}

void sort_flags(MegatronReader& r) { sort_rest(r.flags, kIdleFlags, r.found); }

}  // namespace

bool is_megatron(const std::string& text) {
  return std::ranges::any_of(std::array{"--num-layers", "--micro-batch-size", "--tensor-model-parallel-size"},
                             [&](const char* flag) { return text.find(flag) != std::string::npos; });
}

ImportedJob imported_megatron(const std::string& text, const std::string& file, std::optional<int> ranks) {
  MegatronReader r{Flags(text, file), file, {}};
  read_megatron_model(r.flags, r.found);
  read_degrees(r, ranks);
  read_batch(r);
  for (const auto read :
       {read_pipeline, read_sharding, read_recompute, read_attention, read_communication, read_type, read_optimizer, sort_flags})
    read(r);
  require_nothing_refused(r.found, file);
  return {"megatron-core", std::move(r.found.job), std::move(r.found.left_out)};
}

}  // namespace rehearsal::exchange
