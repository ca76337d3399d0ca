// A configuration function of torchtitan 0.3.0, whose configurations are Python (torchtitan/config/configs.py, models/*/config_registry.py;
// https://github.com/pytorch/torchtitan): the function of the model, with what the plan says in place of its own values.
#include <algorithm>
#include <array>

#include "base/join.hpp"
#include "base/short_number.hpp"
#include "exchange/frameworks/export_rules.hpp"
#include "exchange/frameworks/torchtitan_names.hpp"
#include "exchange/frameworks/zoo_reference.hpp"
#include "plan/schedules/model_chunks.hpp"
#include "plan/schedules/schedule.hpp"

namespace rehearsal::exchange {
namespace {

/// What the two differ in is how long samples are, and how many of them the graph has.
bool same_shape(const graph::zoo::ZooChoice& a, const graph::zoo::ZooChoice& b) {
  return a.row == b.row && std::ranges::all_of(a.values, [&](const auto& v) {
           return v.first == "seq" || v.first == "batch" || v.first == "capacity" || b.values.at(v.first) == v.second;
         });
}

void titan_model(const TrainingJob& job, Sheet& sheet) {
  const auto choice = zoo_choice(job.model);
  const auto* known = std::ranges::find_if(
      kTitanModels, [&](const auto& m) { return choice && same_shape(*choice, graph::zoo::parse("zoo:" + std::string(m.preset))); });
  if (known == kTitanModels.end())
    return sheet.refuse("model", job.model.empty() ? "nobody said which" : job.model + " is none of its models whose sizes are known",
                        "give --model zoo:" + joined(kTitanModels, ", zoo:", &TitanModel::preset) + ", or hf:FOLDER of the same sizes");
  sheet.note("from torchtitan.models." + std::string(known->module) + ".config_registry import " + std::string(known->function));
  sheet.set("config", std::string(known->function) + "()");
  sheet.set("config.training.seq_len", std::to_string(choice->values.at("seq")));
}

/// Replicas that hold copies, and those among which parameters are sharded.
void titan_dp(const TrainingJob& job, Sheet& sheet) {
  const int among = job.plan.zero > 1 ? (job.plan.zero_group == 0 ? job.plan.dp : job.plan.zero_group) : 1;
  sheet.set("config.parallelism.data_parallel_replicate_degree", std::to_string(job.plan.dp / among));
  sheet.set("config.parallelism.data_parallel_shard_degree", std::to_string(among));
}

void titan_tp(const TrainingJob& job, Sheet& sheet) { sheet.set("config.parallelism.tensor_parallel_degree", std::to_string(job.plan.tp)); }
void titan_cp(const TrainingJob& job, Sheet& sheet) {
  sheet.set("config.parallelism.context_parallel_degree", std::to_string(job.plan.cp));
}

void titan_pp(const TrainingJob& job, Sheet& sheet) {
  sheet.set("config.parallelism.pipeline_parallel_degree", std::to_string(job.plan.pp));
  if (job.plan.pp > 1 || job.plan.ep > 1) sheet.set("config.training.disable_cuda_graphs", "True");  // it refuses graphs there
}

void titan_ep(const TrainingJob& job, Sheet& sheet) {
  if (job.plan.ep == 1) return;
  const auto& p = job.plan;
  if (p.tp > 1 && !(p.has_whole_experts() && p.ep % (p.tp * p.cp) == 0))
    return sheet.refuse("ep", "it spreads experts over tp and cp first, where ours are split by tp", "use ep=1 or tp=1");
  if (job.plan.zero < 2) return sheet.refuse("ep", "it takes the ranks of experts from those that share parameters", "use zero=3");
  sheet.set("config.parallelism.expert_parallel_degree", std::to_string(job.plan.ep));
}

/// Without a pipeline its micro-batches are steps of accumulation, of one local batch each.
void titan_batch(const TrainingJob& job, Sheet& sheet) {
  const bool pipeline = job.plan.pp > 1;
  sheet.set("config.training.local_batch_size", std::to_string(pipeline ? job.replica_batch() : job.micro_batch()));
  sheet.set("config.training.global_batch_size", std::to_string(job.batch));
  if (pipeline) sheet.set("config.parallelism.pipeline_parallel_microbatch_size", std::to_string(job.micro_batch()));
}

void titan_schedule(const TrainingJob& job, Sheet& sheet) {
  if (job.plan.pp == 1) return;
  const auto& schedule = plan::schedule_of(job.plan);
  const auto* row = std::ranges::find(kTitanSchedules, schedule.name, &TitanSchedule::ours);
  if (row == kTitanSchedules.end())
    return sheet.refuse("schedule", "it has no " + std::string(schedule.name),
                        "use " + joined(kTitanSchedules, ", ", &TitanSchedule::ours));
  sheet.set("config.parallelism.pipeline_parallel_schedule", "\"" + std::string(row->theirs) + "\"");
  sheet.set("config.parallelism.pipeline_parallel_layers_per_stage", "None");
  if (schedule.chunks == 0 && job.plan.interleave != 2)
    sheet.refuse("interleave", "it puts two parts on a stage unless layers of each are counted", "use interleave=2");
}

void titan_zero(const TrainingJob& job, Sheet& sheet) {
  if (job.plan.dp == 1) return;
  if (job.plan.zero == 1)
    sheet.refuse("zero", "it does not share optimizer states alone", "use zero=0, 2 or 3");
  else if (job.plan.zero > 1)
    sheet.set("config.parallelism.fsdp_reshard_after_forward", job.plan.zero == 3 ? "\"always\"" : "\"never\"");
}

void titan_recompute(const TrainingJob& job, Sheet& sheet) {
  const auto* row = std::ranges::find(kTitanRecompute, job.plan.recompute.rule, &TitanRecompute::rule);
  if (row == kTitanRecompute.end() || job.plan.recompute.blocks > 0)
    return sheet.refuse("recompute", "it has no " + to_text(job.plan.recompute), "use none, selective-op or full");
  sheet.set("config.activation_checkpoint", std::string(row->written));
}

void titan_sequence(const TrainingJob& job, Sheet& sheet) {
  if (job.plan.tp > 1) sheet.set("config.parallelism.enable_sequence_parallel", job.plan.sequence_parallel ? "True" : "False");
}

void titan_attention(const TrainingJob& job, Sheet& sheet) {
  if (job.plan.cp > 1 && job.plan.attention == plan::AttentionForm::AllToAll)
    sheet.refuse("attention", "it passes keys and values on, and does not change what is split", "use gather or ring");
}

void titan_fuse(const TrainingJob& job, Sheet& sheet) {
  if (job.plan.fuse != plan::Fusion::Attention) sheet.refuse("fuse", "its attention is one kernel", "leave it out");
}

/// f32 parameters, products in bf16: our bf16 with f32 masters.
void titan_dtype(const TrainingJob& job, Sheet& sheet) {
  if (job.dtype != "f32" && job.dtype != "bf16")
    return sheet.refuse("dtype", "its configuration has no " + job.dtype, "use f32 or bf16; 8 bits are functions of its registry");
  const bool sharded = (job.plan.zero > 1 && job.plan.dp > 1) || job.plan.cp > 1;
  if (job.dtype == "bf16" && !sharded && job.plan.tp * job.plan.pp > 1)
    sheet.refuse("dtype", "it computes in bf16 where parameters are shared out, or under data parallelism alone", "use zero=3");
  sheet.set("config.training.dtype", "\"float32\"");
  sheet.set("config.training.mixed_precision_param", job.dtype == "bf16" ? "\"bfloat16\"" : "\"float32\"");
}

void titan_optimizer(const TrainingJob& job, Sheet& sheet) {
  const bool decoupled = job.optimizer.name == "adamw";
  if (!decoupled && job.optimizer.name != "adam") return sheet.refuse("optimizer", "it has no " + job.optimizer.name, "use adam or adamw");
  const auto value = [&](std::string_view name) { return shortest_number(job.optimizer_value(name)); };
  sheet.set("config.optimizer.param_groups", std::string("[ParamGroupConfig(pattern=\".*\", optimizer_name=\"") +
                                                 (decoupled ? "AdamW" : "Adam") + "\", optimizer_kwargs={\"lr\": " + value("lr") +
                                                 ", \"betas\": (" + value("beta1") + ", " + value("beta2") + "), \"eps\": " + value("eps") +
                                                 ", \"weight_decay\": " + value("weight_decay") + "})]");
}

/// It always clips: by a norm that none exceeds where the training does not.
void titan_clip(const TrainingJob& job, Sheet& sheet) {
  sheet.set("config.training.max_norm", job.clip_norm > 0 ? shortest_number(job.clip_norm) : "float(\"inf\")");
}

void titan_scale(const TrainingJob& job, Sheet& sheet) {
  if (!job.loss_scale.empty()) sheet.refuse("loss_scale", "it does not scale the loss", "leave --loss-scale out");
}

constexpr std::array kOwnTitanRules{ExportRule{"model", titan_model},
                                    ExportRule{"dp", titan_dp},
                                    ExportRule{"tp", titan_tp},
                                    ExportRule{"pp", titan_pp},
                                    ExportRule{"cp", titan_cp},
                                    ExportRule{"ep", titan_ep},
                                    ExportRule{"micro_batch", titan_batch},
                                    ExportRule{"schedule", titan_schedule},
                                    ExportRule{"interleave", nothing},  // with the schedule
                                    ExportRule{"zero", titan_zero},
                                    ExportRule{"zero_group", nothing},  // with dp
                                    ExportRule{"recompute", titan_recompute},
                                    ExportRule{"sequence_parallel", titan_sequence},
                                    ExportRule{"attention", titan_attention},
                                    ExportRule{"fuse", titan_fuse},
                                    kWholeOffload,
                                    ExportRule{"compression", no_compression},
                                    kNoExactSteps,
                                    ExportRule{"overlap", always_overlaps},
                                    ExportRule{"order", usual_order},
                                    kEvenCuts,
                                    ExportRule{"loss", cross_entropy},
                                    ExportRule{"dtype", titan_dtype},
                                    ExportRule{"optimizer", titan_optimizer},
                                    ExportRule{"clip_norm", titan_clip},
                                    ExportRule{"loss_scale", titan_scale}};
constexpr auto kTitanRules = with_rules_of_all(kOwnTitanRules);

std::string python_module(const Sheet& sheet) {
  std::string text =
      "# For torchtitan 0.3.0: torchrun ... -m torchtitan.train --module NAME_OF_THIS_FILE --config rehearsed\n"
      "from torchtitan.components.optimizer import ParamGroupConfig\n"
      "from torchtitan.distributed.activation_checkpoint import FullAC, SelectiveAC\n";
  for (const auto& line : sheet.notes()) text += line + "\n";
  text += "\n\ndef rehearsed():\n";
  for (const auto& [key, value] : sheet.settings()) text += "    " + key + " = " + value + "\n";
  return text + "    return config\n";
}

}  // namespace

FrameworkRow torchtitan_row() {
  return {"torchtitan", "torchtitan 0.3.0", "a Python module with a configuration function, for --module and --config",
          kTitanRules,  python_module,      {"torchtitan"}};
}

}  // namespace rehearsal::exchange
