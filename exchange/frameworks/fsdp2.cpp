// PyTorch's fully_shard (FSDP2), which has no configuration of its own, by the file that Hugging Face Accelerate reads for it (1.15:
// commands/launch.py, parallelism_config.py; https://github.com/huggingface/accelerate).
#include <array>

#include "base/short_number.hpp"
#include "exchange/frameworks/export_rules.hpp"

namespace rehearsal::exchange {
namespace {

/// Replicas that hold copies, and those among which parameters are sharded.
void fsdp2_dp(const TrainingJob& job, Sheet& sheet) {
  const int among = job.plan.zero_group == 0 ? job.plan.dp : job.plan.zero_group;
  sheet.set("num_processes", std::to_string(job.plan.ranks()));
  sheet.set("parallelism_config.parallelism_config_dp_replicate_size", std::to_string(job.plan.dp / among));
  sheet.set("parallelism_config.parallelism_config_dp_shard_size", std::to_string(among));
  if (among == 1 && job.plan.dp > 1) sheet.refuse("zero_group", "copies of everything are DistributedDataParallel's", "use zero_group=all");
}

void fsdp2_zero(const TrainingJob& job, Sheet& sheet) {
  if (job.plan.zero < 2 && job.plan.dp > 1)
    return sheet.refuse("zero", "it always shares out parameters, gradients and optimizer states",
                        "use zero=3, or 2: gathered until the backward pass ends");
  sheet.set("fsdp_config.fsdp_version", "2");
  sheet.set("fsdp_config.fsdp_reshard_after_forward", job.plan.zero == 2 ? "false" : "true");
  sheet.set("fsdp_config.fsdp_auto_wrap_policy", "TRANSFORMER_BASED_WRAP");
  sheet.set("fsdp_config.fsdp_state_dict_type", "SHARDED_STATE_DICT");
  sheet.set("fsdp_config.fsdp_offload_params", "false");
}

void fsdp2_tp(const TrainingJob& job, Sheet& sheet) {
  sheet.set("parallelism_config.parallelism_config_tp_size", std::to_string(job.plan.tp));
}

void fsdp2_cp(const TrainingJob& job, Sheet& sheet) {
  sheet.set("parallelism_config.parallelism_config_cp_size", std::to_string(job.plan.cp));
  if (job.plan.cp == 1) return;
  if (job.plan.attention == plan::AttentionForm::AllToAll)
    return sheet.refuse("attention", "it gathers keys and values or passes them on", "use gather or ring");
  // PyTorch's ring goes round by all-to-all of each turn's block
  sheet.set("parallelism_config.parallelism_config_cp_comm_strategy",
            job.plan.attention == plan::AttentionForm::Gather ? "allgather" : "alltoall");
}

void fsdp2_pp(const TrainingJob& job, Sheet& sheet) {
  if (job.plan.pp > 1)
    sheet.leave_to_program("pp", "stages are torch.distributed.pipelining's, which programs call themselves", "use pp=1");
}

void fsdp2_ep(const TrainingJob& job, Sheet& sheet) {
  if (job.plan.ep > 1) sheet.refuse("ep", "it shares out experts as every other parameter", "use ep=1");
}

void fsdp2_batch(const TrainingJob& job, Sheet& sheet) {
  sheet.note("batch of each process: " + std::to_string(job.micro_batch()));
  sheet.note("Accelerator(gradient_accumulation_steps=" + std::to_string(job.replica_batch() / job.micro_batch()) + ")");
}

void fsdp2_recompute(const TrainingJob& job, Sheet& sheet) {
  const auto rule = job.plan.recompute.rule;
  if ((rule != plan::RecomputeRule::None && rule != plan::RecomputeRule::Full) || job.plan.recompute.blocks > 0)
    return sheet.refuse("recompute", "it has no " + to_text(job.plan.recompute), "use none or full");
  sheet.set("fsdp_config.fsdp_activation_checkpointing", rule == plan::RecomputeRule::Full ? "true" : "false");
}

void fsdp2_sequence(const TrainingJob& job, Sheet& sheet) {
  if (job.plan.tp > 1 && job.plan.sequence_parallel)
    sheet.leave_to_program("sequence_parallel", "the model's own tensor parallel plan says what is split", "leave it out");
}

void fsdp2_dtype(const TrainingJob& job, Sheet& sheet) {
  const bool known = job.dtype == "f32" || job.dtype == "bf16" || job.dtype == "f16";
  if (!known) return sheet.refuse("dtype", "its configuration has no " + job.dtype, "use f32, bf16 or f16");
  sheet.set("mixed_precision", job.dtype == "f32" ? "'no'" : job.dtype == "bf16" ? "bf16" : "fp16");
}

void fsdp2_optimizer(const TrainingJob& job, Sheet& sheet) {
  std::string line = "optimizer: " + job.optimizer.name;
  for (const auto& [name, value] : job.optimizer.values) line += " " + name + "=" + shortest_number(value);
  sheet.note(line);
}

void fsdp2_clip(const TrainingJob& job, Sheet& sheet) {
  if (job.clip_norm > 0) sheet.note("accelerator.clip_grad_norm_: " + shortest_number(job.clip_norm));
}

void fsdp2_scale(const TrainingJob& job, Sheet& sheet) {
  if (!job.loss_scale.empty()) sheet.refuse("loss_scale", "PyTorch's scaler has its own beginning and growth", "leave --loss-scale out");
}

constexpr std::array kOwnFsdp2Rules{ExportRule{"model", nothing},  // the program builds it
                                    ExportRule{"dtype", fsdp2_dtype},
                                    ExportRule{"dp", fsdp2_dp},
                                    ExportRule{"tp", fsdp2_tp},
                                    ExportRule{"cp", fsdp2_cp},
                                    ExportRule{"pp", fsdp2_pp},
                                    ExportRule{"ep", fsdp2_ep},
                                    ExportRule{"micro_batch", fsdp2_batch},
                                    ExportRule{"schedule", nothing},    // of pp
                                    ExportRule{"interleave", nothing},  // of pp
                                    ExportRule{"zero", fsdp2_zero},
                                    ExportRule{"zero_group", nothing},  // with dp
                                    ExportRule{"recompute", fsdp2_recompute},
                                    ExportRule{"sequence_parallel", fsdp2_sequence},
                                    ExportRule{"attention", nothing},  // with cp
                                    ExportRule{"fuse", fusion_of_program},
                                    kWholeOffload,
                                    ExportRule{"compression", no_compression},
                                    kNoExactSteps,
                                    ExportRule{"overlap", always_overlaps},
                                    ExportRule{"order", usual_order},
                                    ExportRule{"cuts", nothing},  // of pp
                                    ExportRule{"loss", nothing},  // the program computes it
                                    ExportRule{"optimizer", fsdp2_optimizer},
                                    ExportRule{"clip_norm", fsdp2_clip},
                                    ExportRule{"loss_scale", fsdp2_scale}};
constexpr auto kFsdp2Rules = with_rules_of_all(kOwnFsdp2Rules);

/// Sections of "SECTION.key" together, whatever the order of the rules.
std::string yaml(const Sheet& sheet) {
  std::string top = "compute_environment: LOCAL_MACHINE\ndistributed_type: FSDP\n", text;
  for (const auto& [key, value] : sheet.settings())
    if (key.find('.') == key.npos) top += key + ": " + value + "\n";
  for (const std::string section : {"fsdp_config", "parallelism_config"}) {
    text += section + ":\n";
    for (const auto& [key, value] : sheet.settings())
      if (key.starts_with(section + ".")) text += "  " + key.substr(section.size() + 1) + ": " + value + "\n";
  }
  std::string notes = "# For accelerate launch --config_file. The program itself says:\n";
  for (const auto& line : sheet.notes()) notes += "#   " + line + "\n";
  return notes + top + text;
}

}  // namespace

FrameworkRow fsdp2_row() {
  return {"fsdp2", "FSDP2 by Accelerate 1.15", "the file of accelerate launch --config_file; the program builds the model", kFsdp2Rules,
          yaml};
}

}  // namespace rehearsal::exchange
