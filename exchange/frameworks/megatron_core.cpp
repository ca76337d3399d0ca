// Flags of Megatron-LM's pretrain_gpt.py on Megatron-Core, as megatron/training/arguments.py and the configuration classes of
// megatron/core define them (0.16 to 0.20; https://github.com/NVIDIA/Megatron-LM).
#include <algorithm>
#include <array>

#include "base/join.hpp"
#include "base/short_number.hpp"
#include "exchange/frameworks/export_rules.hpp"
#include "exchange/frameworks/megatron_model.hpp"
#include "plan/schedules/model_chunks.hpp"
#include "plan/schedules/schedule.hpp"

namespace rehearsal::exchange {
namespace {

template <int plan::Plan::*member>
std::string number(const TrainingJob& job) {
  return std::to_string(job.plan.*member);
}

void megatron_tp(const TrainingJob& job, Sheet& sheet) { sheet.set("--tensor-model-parallel-size", number<&plan::Plan::tp>(job)); }
void megatron_pp(const TrainingJob& job, Sheet& sheet) { sheet.set("--pipeline-model-parallel-size", number<&plan::Plan::pp>(job)); }
void megatron_cp(const TrainingJob& job, Sheet& sheet) { sheet.set("--context-parallel-size", number<&plan::Plan::cp>(job)); }
void megatron_ep(const TrainingJob& job, Sheet& sheet) {
  if (job.plan.ep > 1) sheet.set("--expert-model-parallel-size", number<&plan::Plan::ep>(job));
}

void megatron_batch(const TrainingJob& job, Sheet& sheet) {
  sheet.set("--micro-batch-size", std::to_string(job.micro_batch()));
  sheet.set("--global-batch-size", std::to_string(job.batch));
}

void megatron_schedule(const TrainingJob& job, Sheet& sheet) {
  if (job.plan.pp == 1) return;
  const auto name = plan::schedule_of(job.plan).name;
  if (name == "interleaved")
    sheet.set("--num-virtual-stages-per-pipeline-rank", number<&plan::Plan::interleave>(job));
  else if (name != "1f1b")
    sheet.refuse("schedule", "it has no " + std::string(name), "use 1f1b or interleaved");
}

/// Stage 1 is its distributed optimizer, beyond it Megatron-FSDP.
void megatron_zero(const TrainingJob& job, Sheet& sheet) {
  constexpr std::array<const char*, 4> kStrategies{"", "", "optim_grads", "optim_grads_params"};
  if (job.plan.zero == 0) return;
  sheet.set("--use-distributed-optimizer", "");
  if (job.plan.zero == 1) return;
  sheet.set("--use-megatron-fsdp", "");
  sheet.set("--data-parallel-sharding-strategy", kStrategies[static_cast<std::size_t>(job.plan.zero)]);
  sheet.set("--ckpt-format", "fsdp_dtensor");
  if (job.plan.pp > 1) sheet.refuse("zero", "its stages above 1 (Megatron-FSDP) are not for pipelines", "use zero=1 or pp=1");
}

void megatron_zero_group(const TrainingJob& job, Sheet& sheet) {
  if (!job.plan.has_shard_groups()) return;
  if (job.plan.zero > 1)
    sheet.refuse("zero_group", "Megatron-FSDP shards over all replicas here", "use zero_group=all or zero=1");
  else
    sheet.set("--num-distributed-optimizer-instances", std::to_string(job.plan.dp / job.plan.shard_ranks()));
}

void megatron_recompute(const TrainingJob& job, Sheet& sheet) {
  const auto& recompute = job.plan.recompute;
  if (recompute.rule == plan::RecomputeRule::None) return;
  if (recompute.rule != plan::RecomputeRule::Selective && recompute.rule != plan::RecomputeRule::Full)
    return sheet.refuse("recompute", "it has no " + to_text(recompute), "use none, selective, full or full:N");
  sheet.set("--recompute-granularity", std::string(name(recompute.rule)));
  if (recompute.rule == plan::RecomputeRule::Full) {
    sheet.set("--recompute-method", recompute.blocks > 0 ? "block" : "uniform");
    sheet.set("--recompute-num-layers", std::to_string(std::max(1, recompute.blocks)));
  }
}

void megatron_sequence(const TrainingJob& job, Sheet& sheet) {
  if (job.plan.tp > 1 && job.plan.sequence_parallel) sheet.set("--sequence-parallel", "");
}

void megatron_attention(const TrainingJob& job, Sheet& sheet) {
  // Its own way, which predictions have, is a ring; plans that say nothing have `gather`, which is our own way.
  if (job.plan.cp == 1 || job.plan.attention == plan::AttentionForm::Gather) return;
  sheet.set("--cp-comm-type", job.plan.attention == plan::AttentionForm::Ring ? "p2p" : "a2a");
}

void megatron_fuse(const TrainingJob& job, Sheet& sheet) {
  if (job.plan.fuse == plan::Fusion::None) sheet.set("--attention-backend", "unfused");
}

void megatron_offload(const TrainingJob& job, Sheet& sheet) {
  if (job.plan.offload == plan::Offload::None) return;
  if (job.plan.offload == plan::Offload::Activations)
    return sheet.refuse("offload", "what it offloads of activations is chosen module by module", "use none, optimizer, or recompute");
  if (job.optimizer.name != "adam" && job.optimizer.name != "adamw")
    return sheet.refuse("offload", "it offloads the state of adam alone", "use offload=none or --optimizer adamw");
  if (job.plan.zero != 1 && !offloads_alone(job))
    return sheet.refuse("offload", "it offloads what its distributed optimizer keeps", "use zero=1");
  if (job.plan.zero == 0) sheet.set("--use-distributed-optimizer", "");
  sheet.set("--optimizer-cpu-offload", "");
  sheet.set("--use-precision-aware-optimizer", "");
}

/// Sums of gradients in bf16 are Megatron's own; the others are none of its.
void megatron_compression(const TrainingJob& job, Sheet& sheet) {
  if (job.plan.compression.rule == plan::CompressionRule::BF16)
    sheet.set("--grad-reduce-in-bf16", "");
  else
    no_compression(job, sheet);
}

void megatron_overlap(const TrainingJob& job, Sheet& sheet) {
  if (!job.plan.overlap || job.plan.dp * job.plan.cp == 1) return;
  sheet.set("--overlap-grad-reduce", "");
  if (job.plan.zero > 0) sheet.set("--overlap-param-gather", "");
}

/// What is outermost of its ranks: pipelines, or with the flag replicas.
void megatron_order(const TrainingJob& job, Sheet& sheet) {
  if (job.plan.order == "tp.cp.ep.pp.dp")
    sheet.set("--use-tp-pp-dp-mapping", "");
  else
    usual_order(job, sheet);
}

struct MegatronType {
  std::string_view dtype, flags;
};
constexpr std::array kMegatronTypes{MegatronType{"f32", ""},
                                    MegatronType{"bf16", "--bf16"},
                                    MegatronType{"f16", "--fp16"},
                                    MegatronType{"fp8", "--bf16 --fp8-format=hybrid --fp8-recipe=tensorwise"},
                                    MegatronType{"fp8-block", "--bf16 --fp8-format=e4m3 --fp8-recipe=blockwise"},
                                    MegatronType{"mxfp8", "--bf16 --fp8-format=e4m3 --fp8-recipe=mxfp8"},
                                    MegatronType{"nvfp4", "--bf16 --fp4-format=e2m1 --fp4-recipe=nvfp4"}};

void megatron_dtype(const TrainingJob& job, Sheet& sheet) {
  const auto* row = std::ranges::find(kMegatronTypes, job.dtype, &MegatronType::dtype);
  if (row == kMegatronTypes.end())
    return sheet.refuse("dtype", "it has no " + job.dtype, "use " + joined(kMegatronTypes, ", ", &MegatronType::dtype));
  for (std::string_view rest = row->flags; !rest.empty();) {
    const auto flag = rest.substr(0, rest.find(' '));
    rest.remove_prefix(std::min(rest.size(), flag.size() + 1));
    const auto equals = flag.find('=');
    sheet.set(std::string(flag.substr(0, equals)), equals == flag.npos ? "" : std::string(flag.substr(equals + 1)));
  }
}

void megatron_optimizer(const TrainingJob& job, Sheet& sheet) {
  const auto& name = job.optimizer.name;
  if (name == "adam" && job.optimizer_value("weight_decay") != 0)
    return sheet.refuse("optimizer", "its adam decays weights apart from gradients, as adamw does", "use --optimizer adamw");
  if (name == "sgd" && job.optimizer_value("nesterov") != 0)
    return sheet.refuse("optimizer", "its sgd has no nesterov", "use --nesterov off");
  if (name != "adam" && name != "adamw" && name != "sgd") return sheet.refuse("optimizer", "it has no " + name, "use adam, adamw or sgd");
  sheet.set("--optimizer", name == "sgd" ? "sgd" : "adam");
  sheet.set("--lr", shortest_number(job.optimizer_value("lr")));
  sheet.set("--weight-decay", shortest_number(job.optimizer_value("weight_decay")));
  if (name == "sgd") return sheet.set("--sgd-momentum", shortest_number(job.optimizer_value("momentum")));
  sheet.set("--adam-beta1", shortest_number(job.optimizer_value("beta1")));
  sheet.set("--adam-beta2", shortest_number(job.optimizer_value("beta2")));
  sheet.set("--adam-eps", shortest_number(job.optimizer_value("eps")));
}

void megatron_clip(const TrainingJob& job, Sheet& sheet) { sheet.set("--clip-grad", shortest_number(job.clip_norm)); }

void megatron_scale(const TrainingJob& job, Sheet& sheet) {
  if (job.loss_scale.empty()) return;
  if (job.dtype != "f16") return sheet.refuse("loss_scale", "it scales the loss of f16 alone", "leave --loss-scale out");
  if (job.loss_scale != "dynamic") return sheet.set("--loss-scale", job.loss_scale);
  sheet.set("--initial-loss-scale", "1024");  // as graph/loss_scaling.hpp has it
  sheet.set("--loss-scale-window", "2000");
}

constexpr std::array kOwnMegatronRules{ExportRule{"model", megatron_model},
                                       ExportRule{"tp", megatron_tp},
                                       ExportRule{"pp", megatron_pp},
                                       ExportRule{"cp", megatron_cp},
                                       ExportRule{"ep", megatron_ep},
                                       ExportRule{"dp", nothing},  // what the started ranks leave
                                       ExportRule{"micro_batch", megatron_batch},
                                       ExportRule{"schedule", megatron_schedule},
                                       ExportRule{"interleave", nothing},  // with the schedule
                                       ExportRule{"zero", megatron_zero},
                                       ExportRule{"zero_group", megatron_zero_group},
                                       ExportRule{"recompute", megatron_recompute},
                                       ExportRule{"sequence_parallel", megatron_sequence},
                                       ExportRule{"attention", megatron_attention},
                                       ExportRule{"fuse", megatron_fuse},
                                       ExportRule{"offload", megatron_offload},
                                       ExportRule{"compression", megatron_compression},
                                       kNoExactSteps,
                                       ExportRule{"overlap", megatron_overlap},
                                       ExportRule{"order", megatron_order},
                                       kEvenCuts,
                                       ExportRule{"loss", cross_entropy},
                                       ExportRule{"dtype", megatron_dtype},
                                       ExportRule{"optimizer", megatron_optimizer},
                                       ExportRule{"clip_norm", megatron_clip},
                                       ExportRule{"loss_scale", megatron_scale}};
constexpr auto kMegatronRules = with_rules_of_all(kOwnMegatronRules);

std::string flag_lines(const Sheet& sheet) {
  return joined(sheet.settings(), "\n", [](const auto& s) { return s.second.empty() ? s.first : s.first + " " + s.second; }) + "\n";
}

}  // namespace

FrameworkRow megatron_core_row() {
  return {"megatron-core",
          "Megatron-LM on Megatron-Core 0.16 to 0.20",
          "flags of pretrain_gpt.py, one a line",
          kMegatronRules,
          flag_lines,
          {"megatron-core", "nemo"}};
}

}  // namespace rehearsal::exchange
