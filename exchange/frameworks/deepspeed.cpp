// DeepSpeed's configuration file, as deepspeed/runtime/config.py and the classes it reads define it (0.19.8;
// https://github.com/deepspeedai/DeepSpeed).
#include <algorithm>
#include <array>

#include <nlohmann/json.hpp>

#include "base/join.hpp"
#include "base/short_number.hpp"
#include "exchange/frameworks/export_rules.hpp"

namespace rehearsal::exchange {
namespace {

std::string quoted(const std::string& text) { return "\"" + text + "\""; }

void deepspeed_batch(const TrainingJob& job, Sheet& sheet) {
  sheet.set("train_batch_size", std::to_string(job.batch));
  sheet.set("train_micro_batch_size_per_gpu", std::to_string(job.micro_batch()));
  sheet.set("gradient_accumulation_steps", std::to_string(job.replica_batch() / job.micro_batch()));
}

void deepspeed_tp(const TrainingJob& job, Sheet& sheet) {
  if (job.plan.tp == 1) return;
  sheet.set("tensor_parallel.autotp_size", std::to_string(job.plan.tp));
  if (job.plan.zero == 3) sheet.refuse("tp", "its tensor parallelism (AutoTP) is for ZeRO stages below 3", "use tp=1 or zero=2");
}

void deepspeed_pp(const TrainingJob& job, Sheet& sheet) {
  if (job.plan.pp > 1)
    sheet.leave_to_program("pp", "its stages are made by the program (PipelineModule), not by the configuration", "use pp=1");
}

void deepspeed_cp(const TrainingJob& job, Sheet& sheet) {
  if (job.plan.cp == 1) return;
  if (job.plan.attention == plan::AttentionForm::AllToAll)
    sheet.set("sequence_parallel_size", std::to_string(job.plan.cp));
  else
    sheet.refuse("cp", "it splits sequences by all-to-all (Ulysses) alone", "use attention=all-to-all or cp=1");
}

void deepspeed_ep(const TrainingJob& job, Sheet& sheet) {
  if (job.plan.ep == 1) return;
  if (job.plan.has_whole_experts())
    return sheet.refuse("ep", "AutoEP takes the ranks of experts from those of dp", "use a degree that divides dp");
  sheet.set("expert_parallel.enabled", "true");
  sheet.set("expert_parallel.autoep_size", std::to_string(job.plan.ep));
}

void deepspeed_zero(const TrainingJob& job, Sheet& sheet) {
  sheet.set("zero_optimization.stage", std::to_string(offloads_alone(job) ? 1 : job.plan.zero));
  if (job.plan.zero > 0) sheet.set("zero_optimization.overlap_comm", job.plan.overlap ? "true" : "false");
}

void deepspeed_zero_group(const TrainingJob& job, Sheet& sheet) {
  if (job.plan.has_shard_groups()) sheet.refuse("zero_group", "it shards over all replicas since MiCS was removed", "use zero_group=all");
}

void deepspeed_recompute(const TrainingJob& job, Sheet& sheet) {
  if (job.plan.recompute.rule != plan::RecomputeRule::None)
    sheet.leave_to_program("recompute", "what is computed again is said by the program, not by the configuration",
                           "use recompute=none here, and checkpoint the model's blocks in the program");
}

void deepspeed_sequence(const TrainingJob& job, Sheet& sheet) {
  if (job.plan.tp > 1 && job.plan.sequence_parallel) sheet.refuse("sequence_parallel", "its tensor parallelism has none", "leave it out");
}

void deepspeed_offload(const TrainingJob& job, Sheet& sheet) {
  if (job.plan.offload == plan::Offload::None) return;
  if (job.plan.offload == plan::Offload::Activations)
    return sheet.refuse("offload", "it offloads activations of blocks that are computed again alone", "use none or optimizer");
  if (job.plan.zero == 0 && !offloads_alone(job))
    return sheet.refuse("offload", "it offloads states that ZeRO shares out", "use zero=1, 2 or 3");
  sheet.set("zero_optimization.offload_optimizer.device", quoted("cpu"));
}

bool is_one_bit_adam(const TrainingJob& job) { return job.plan.compression.rule == plan::CompressionRule::OneBitAdam; }

/// Its optimizer does what ours does with gradients, and sums them whole until freeze_step.
void deepspeed_exact_steps(const TrainingJob& job, Sheet& sheet) {
  if (!is_one_bit_adam(job)) return kNoExactSteps.apply(job, sheet);
  sheet.set("optimizer.params.freeze_step", std::to_string(job.plan.exact_steps));
  sheet.set("optimizer.params.comm_backend_name", quoted("nccl"));
}

void deepspeed_compression(const TrainingJob& job, Sheet& sheet) {
  if (is_one_bit_adam(job)) {
    if (job.plan.zero > 0) sheet.refuse("compression", "its 1-bit Adam keeps whole moments", "use zero=0");
    return;
  }
  if (const auto type = job.plan.compression.type_on_the_way())
    sheet.set("communication_data_type", quoted(*type == DType::BF16 ? "bf16" : "fp16"));
  else
    no_compression(job, sheet);
}

void deepspeed_dtype(const TrainingJob& job, Sheet& sheet) {
  if (job.dtype == "bf16") return sheet.set("bf16.enabled", "true");
  if (job.dtype == "f16") return sheet.set("fp16.enabled", "true");
  if (job.dtype != "f32") sheet.refuse("dtype", "its configuration has no " + job.dtype, "use f32, bf16 or f16");
}

struct DeepSpeedOptimizer {
  std::string_view ours, type;
  bool known_to_zero;  ///< others want to be allowed by name
};
constexpr std::array kDeepSpeedOptimizers{DeepSpeedOptimizer{"adam", "Adam", true}, DeepSpeedOptimizer{"adamw", "AdamW", true},
                                          DeepSpeedOptimizer{"sgd", "SGD", false}};

void deepspeed_optimizer(const TrainingJob& job, Sheet& sheet) {
  const auto* row = std::ranges::find(kDeepSpeedOptimizers, job.optimizer.name, &DeepSpeedOptimizer::ours);
  if (row == kDeepSpeedOptimizers.end())
    return sheet.refuse("optimizer", "ours of the name " + job.optimizer.name + " is none of its optimizers",
                        "use " + joined(kDeepSpeedOptimizers, ", ", &DeepSpeedOptimizer::ours));
  const auto param = [&](const std::string& name, const std::string& value) { sheet.set("optimizer.params." + name, value); };
  const auto value = [&](std::string_view name) { return shortest_number(job.optimizer_value(name)); };
  if (is_one_bit_adam(job) && row->ours != "adamw")
    return sheet.refuse("optimizer", "its 1-bit Adam takes weight decay apart from gradients, as adamw does", "use --optimizer adamw");
  sheet.set("optimizer.type", quoted(is_one_bit_adam(job) ? "OneBitAdam" : std::string(row->type)));
  param("lr", value("lr"));
  param("weight_decay", value("weight_decay"));
  if (!row->known_to_zero && job.plan.zero > 0) sheet.set("zero_allow_untested_optimizer", "true");
  if (row->ours == "sgd") {
    param("momentum", value("momentum"));
    return param("nesterov", job.optimizer_value("nesterov") != 0 ? "true" : "false");
  }
  param("betas", "[" + value("beta1") + ", " + value("beta2") + "]");
  param("eps", value("eps"));
  if (row->ours == "adam") param("adam_w_mode", "false");
}

void deepspeed_clip(const TrainingJob& job, Sheet& sheet) { sheet.set("gradient_clipping", shortest_number(job.clip_norm)); }

void deepspeed_scale(const TrainingJob& job, Sheet& sheet) {
  if (job.loss_scale.empty()) return;
  if (job.dtype != "f16") return sheet.refuse("loss_scale", "it scales the loss of f16 alone", "leave --loss-scale out");
  if (job.loss_scale != "dynamic") return sheet.set("fp16.loss_scale", job.loss_scale);
  sheet.set("fp16.loss_scale", "0");
  sheet.set("fp16.initial_scale_power", "10");  // 1024, as graph/loss_scaling.hpp has it
  sheet.set("fp16.loss_scale_window", "2000");
}

constexpr std::array kOwnDeepSpeedRules{ExportRule{"model", nothing},  // the program builds it
                                        ExportRule{"dp", deepspeed_batch},
                                        ExportRule{"micro_batch", nothing},  // with dp
                                        ExportRule{"tp", deepspeed_tp},
                                        ExportRule{"pp", deepspeed_pp},
                                        ExportRule{"cp", deepspeed_cp},
                                        ExportRule{"ep", deepspeed_ep},
                                        ExportRule{"schedule", nothing},    // of pp
                                        ExportRule{"interleave", nothing},  // of pp
                                        ExportRule{"zero", deepspeed_zero},
                                        ExportRule{"zero_group", deepspeed_zero_group},
                                        ExportRule{"recompute", deepspeed_recompute},
                                        ExportRule{"sequence_parallel", deepspeed_sequence},
                                        ExportRule{"attention", nothing},  // with cp
                                        ExportRule{"fuse", fusion_of_program},
                                        ExportRule{"offload", deepspeed_offload},
                                        ExportRule{"compression", deepspeed_compression},
                                        ExportRule{"exact_steps", deepspeed_exact_steps},
                                        ExportRule{"overlap", nothing},  // with zero
                                        ExportRule{"order", usual_order},
                                        ExportRule{"cuts", nothing},  // of pp
                                        ExportRule{"loss", nothing},  // the program computes it
                                        ExportRule{"dtype", deepspeed_dtype},
                                        ExportRule{"optimizer", deepspeed_optimizer},
                                        ExportRule{"clip_norm", deepspeed_clip},
                                        ExportRule{"loss_scale", deepspeed_scale}};
constexpr auto kDeepSpeedRules = with_rules_of_all(kOwnDeepSpeedRules);

}  // namespace

FrameworkRow deepspeed_row() {
  return {"deepspeed",     "DeepSpeed 0.19", "its JSON configuration; the program builds the model",
          kDeepSpeedRules, nested_json,      {"deepspeed"}};
}

}  // namespace rehearsal::exchange
