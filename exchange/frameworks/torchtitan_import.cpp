// Configurations of torchtitan: the TOML files of its releases up to 0.2, and modules of Python as torchtitan.cpp writes them for 0.3.
// Keys and defaults: torchtitan/config/job_config.py and configs.py (https://github.com/pytorch/torchtitan).
#include <algorithm>
#include <limits>
#include <map>
#include <sstream>

#include "base/error.hpp"
#include "base/join.hpp"
#include "base/parse_number.hpp"
#include "exchange/frameworks/imports.hpp"
#include "exchange/frameworks/torchtitan_names.hpp"
#include "plan/schedules/schedule.hpp"

namespace rehearsal::exchange {
namespace {

constexpr IdleKeys kIdleKeys[] = {
    {"folders and names", "job."},
    {"logs", "profiling. profiler. metrics. model.print_after_conversion"},
    {"logs and time-outs", "comm."},
    {"checkpoints: estimate --checkpoint-every", "checkpoint."},
    {"evaluation", "validation."},
    {"the schedule of the learning rate", "lr_scheduler."},
    {"kernels are the profile's",
     "compile. training.compile training.disable_cuda_graphs training.gc_ training.deterministic optimizer.implementation "
     "parallelism.enable_compiled_autograd"},
    {"how long the training is: estimate --steps", "training.steps"},
    {"data", "training.dataset training.dataloader model.tokenizer_path model.hf_assets_path"},
    {"first values", "training.seed"},
    {"gradients are summed as the profile says", "training.mixed_precision_reduce"},
    {"model.converters says whether it is used; scales and filters are the profile's", "float8. quantize. mx."},
    {"how the loss is split is the profile's", "parallelism.disable_loss_parallel"},
    {"estimate --recipe tensor_overlap=on", "parallelism.enable_async_tensor_parallel"},
    {"None is two parts on each stage where there are several", "parallelism.pipeline_parallel_layers_per_stage"}};

struct TitanReader {
  Flags keys;
  std::string file;
  bool python;
  Found found;
  plan::Plan& into = found.job.plan;

  /// Of the section that releases before 0.2 had it in, too.
  int degree(const std::string& name) {
    constexpr std::int64_t kMost = 1 << 20;
    for (const char* section : {"parallelism.", "training.", "experimental."})
      if (const auto value = keys.whole(section + name)) {
        if (*value < 1 || *value > kMost) throw BadInput(file + ": " + section + name, "must be from 1 to 1048576");
        return static_cast<int>(*value);
      }
    return 1;
  }
};

/// A value without quotes and without what follows a # outside of them.
std::string bare(const std::string& value) {
  std::string text;
  char open = 0;
  for (const char c : value) {
    if (open == 0 && c == '#') break;
    if (open == 0 && (c == '"' || c == '\''))
      open = c;
    else if (c == open)
      open = 0;
    else
      text += c;
  }
  const auto first = text.find_first_not_of(" \t\r"), last = text.find_last_not_of(" \t\r");
  return first == std::string::npos ? "" : text.substr(first, last - first + 1);
}

/// "[section]" and "key = value"; a list may go on in further lines.
Settings toml_settings(const std::string& text) {
  Settings settings;
  std::istringstream in(text);
  std::string section, line;
  while (std::getline(in, line)) {
    const auto content = bare(line);
    const auto equals = content.find('=');
    if (content.starts_with('[') && content.ends_with(']')) section = content.substr(1, content.size() - 2) + ".";
    if (content.starts_with('[') || equals == std::string::npos) continue;
    auto value = bare(content.substr(equals + 1));
    while (value.starts_with('[') && !value.ends_with(']') && std::getline(in, line)) value += bare(line);
    settings.emplace_back(section + bare(content.substr(0, equals)), value);
  }
  return settings;
}

/// "config.section.key = value" and "config = function()".
Settings python_settings(const std::string& text) {
  constexpr std::string_view kName = "config";
  Settings settings;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    const auto first = line.find_first_not_of(" \t");
    const auto equals = line.find(" = ");
    if (first == std::string::npos || equals == std::string::npos || line.compare(first, kName.size(), kName) != 0) continue;
    const auto key = line.substr(first, equals - first);
    const bool list = key == "config.optimizer.param_groups";  // its quotes are read below
    const auto value = line.substr(equals + 3);
    settings.emplace_back(key == kName ? std::string(kName) : key.substr(kName.size() + 1), list ? value : bare(value));
  }
  return settings;
}

void read_model(TitanReader& r) {
  const auto function = r.keys.text("config").value_or("");
  const auto name = r.keys.text("model.name").value_or(""), flavor = r.keys.text("model.flavor").value_or("");
  const auto* row = std::ranges::find_if(kTitanModels, [&](const TitanModel& m) {
    return r.python ? function == std::string(m.function) + "()" : name == m.module && flavor == m.flavor;
  });
  const auto length = r.keys.whole("training.seq_len");
  if (!length) r.found.refuse("training.seq_len", "is missing", "give it");
  if (row == kTitanModels.end())
    return r.found.refuse(r.python ? "config" : "model.name, model.flavor", r.python ? "is " + function : "are " + name + " and " + flavor,
                          "models whose sizes are known are " + joined(kTitanModels, ", ", &TitanModel::preset));
  auto choice = graph::zoo::parse(row->preset);
  const auto usual = choice.values.at("seq");
  r.found.job.model = "zoo:" + std::string(row->preset) + (length.value_or(usual) == usual ? "" : "?seq=" + std::to_string(*length));
  if (length) static_cast<void>(graph::zoo::parse(r.found.job.model));
}

/// Replicas with copies of their own, times those that parameters are sharded among; -1: all that are left.
void read_degrees(TitanReader& r, std::optional<int> ranks) {
  auto& p = r.into;
  p.tp = r.degree("tensor_parallel_degree");
  p.pp = r.degree("pipeline_parallel_degree");
  p.cp = r.degree("context_parallel_degree");
  p.ep = r.degree("expert_parallel_degree");
  const int copies = r.degree("data_parallel_replicate_degree");
  const auto inner = static_cast<std::int64_t>(p.tp) * p.pp * p.cp;
  const bool rest = r.keys.text("parallelism.data_parallel_shard_degree").value_or("-1") == "-1";
  if (rest && !ranks) throw BadInput(r.file + ": parallelism.data_parallel_shard_degree", "is -1, all ranks that are left; give --ranks");
  const auto among = rest ? *ranks / (inner * copies) : r.degree("data_parallel_shard_degree");
  const auto all = inner * copies * among;
  if (among < 1 || all > std::numeric_limits<int>::max() || all != ranks.value_or(static_cast<int>(all)))
    throw BadInput(r.file, "its degrees do not multiply to " + std::to_string(ranks.value_or(0)) + " ranks, as --ranks says");
  p.dp = static_cast<int>(copies * among);
  const bool split = r.keys.text("parallelism.expert_tensor_parallel_degree").value_or("1") != "1";
  if (p.ep > 1 && (split || (p.tp > 1 && !p.has_whole_experts())))
    r.found.refuse("parallelism.expert_parallel_degree", "experts are spread over tensor parallel ranks, too, where ours are split",
                   "use 1");
  const auto reshard = r.keys.text("parallelism.fsdp_reshard_after_forward").value_or("default");
  if (reshard != "default" && reshard != "always" && reshard != "never")
    return r.found.refuse("parallelism.fsdp_reshard_after_forward", "is " + reshard, "use default, always or never");
  if (among == 1) return;
  p.zero = reshard == "never" || (reshard == "default" && p.pp > 1) ? 2 : 3;
  if (copies > 1) p.zero_group = static_cast<int>(among);
}

void read_batch(TitanReader& r) {
  const auto local =
      r.keys.whole(r.keys.has("training.local_batch_size") ? "training.local_batch_size" : "training.batch_size").value_or(0);
  if (local < 1) throw BadInput(r.file + ": training.local_batch_size", "is missing or 0");
  const auto global = r.keys.text("training.global_batch_size").value_or("-1");
  auto& job = r.found.job;
  job.batch = global == "-1" ? local * r.into.dp : r.keys.whole("training.global_batch_size").value_or(0);
  if (job.batch < 1 || job.batch % (local * r.into.dp) != 0)
    throw BadInput(r.file + ": training.global_batch_size", "is " + global + ", which " + std::to_string(r.into.dp) + " replicas of " +
                                                                std::to_string(local) + " samples do not divide");
  const auto micro = r.into.pp > 1 ? r.keys.whole("parallelism.pipeline_parallel_microbatch_size").value_or(1) : local;
  if (r.into.pp > 1 && (job.replica_batch() != local || micro < 1 || local % micro != 0))
    r.found.refuse("parallelism.pipeline_parallel_microbatch_size", "pipelines are run several times for a step, or their parts are uneven",
                   "make training.local_batch_size a replica's share of the batch");
  if (micro != job.replica_batch()) r.into.micro_batch = micro;
}

void read_schedule(TitanReader& r) {
  const auto name = r.keys.text("parallelism.pipeline_parallel_schedule").value_or("1F1B");
  const auto* row = std::ranges::find(kTitanSchedules, name, &TitanSchedule::theirs);
  if (row == kTitanSchedules.end())
    return r.found.refuse("parallelism.pipeline_parallel_schedule", "is " + name,
                          "use " + joined(kTitanSchedules, ", ", &TitanSchedule::theirs));
  if (r.into.pp == 1) return;
  r.into.schedule = row->ours;
  if (plan::schedule(row->ours).chunks == 0) r.into.interleave = 2;
}

void read_recompute(TitanReader& r) {
  const auto key = r.python ? "activation_checkpoint" : "activation_checkpoint.mode";
  const auto given = r.keys.text(key);
  const auto* row = std::ranges::find(kTitanRecompute, given.value_or(""), r.python ? &TitanRecompute::written : &TitanRecompute::mode);
  if (row == kTitanRecompute.end()) return r.found.refuse(key, given ? "is " + *given : "is missing", "use none, selective or full");
  r.into.recompute.rule = row->rule;
  const auto option = r.keys.text("activation_checkpoint.selective_ac_option").value_or("op");
  if (!r.python && row->mode == "selective" && option != "op")
    r.found.refuse("activation_checkpoint.selective_ac_option", "is " + option,
                   "use op, or write the plan yourself: every second layer is recompute=full:N with half of the layers of a stage");
}

void read_communication(TitanReader& r) {
  r.into.sequence_parallel = !r.keys.denied("parallelism.enable_sequence_parallel") && r.into.tp > 1;
  const auto way = r.keys.text("parallelism.context_parallel_rotate_method").value_or("allgather");
  if (way != "allgather" && way != "alltoall")
    r.found.refuse("parallelism.context_parallel_rotate_method", "is " + way, "use allgather or alltoall");
  if (r.into.cp > 1 && way == "alltoall") r.into.attention = plan::AttentionForm::Ring;
  for (const char* key : {"training.enable_cpu_offload", "optimizer.early_step_in_backward", "memory_estimation.enabled"})
    if (r.keys.has(key)) r.found.refuse(key, "is no key of a plan", "leave it out, or see estimate --recipe");
}

/// Parameters are f32 in either case: bf16 is what products are computed in.
void read_type(TitanReader& r) {
  const auto narrow = r.keys.text("training.mixed_precision_param").value_or("bfloat16"),
             wide = r.keys.text("training.dtype").value_or("float32");
  if (wide != "float32" || (narrow != "bfloat16" && narrow != "float32"))
    return r.found.refuse("training.mixed_precision_param", "is " + narrow + ", with parameters in " + wide,
                          "use bfloat16 or float32 with float32");
  r.found.job.dtype = narrow == "bfloat16" ? "bf16" : "f32";
  auto converters = r.keys.text("model.converters").value_or("");
  std::erase_if(converters, [](char c) { return c == '[' || c == ']'; });
  if (converters.ends_with(',')) converters.pop_back();
  constexpr std::string_view kSection = "quantize.linear.";  // that 0.2 put before the names of earlier releases
  const auto beside = r.keys.text("quantize.linear.float8.recipe_name");
  const auto recipe = beside ? *beside : r.keys.text("float8.recipe_name").value_or("tensorwise");
  if (converters.starts_with(kSection)) converters = converters.substr(kSection.size());
  if (converters == "float8" && (recipe == "tensorwise" || recipe == "rowwise"))
    r.found.job.dtype = recipe == "tensorwise" ? "fp8" : "fp8-rowwise";
  else if (!converters.empty())
    r.found.refuse("model.converters", "is " + converters + " by " + recipe, "use float8, tensorwise or rowwise");
}

/// Numbers that stand behind names in a list of Python: "lr": 0.001, "betas": (0.9, 0.95).
void read_groups(const std::string& text, std::map<std::string, double>& values) {
  struct Name {
    const char *written, *ours;
  };
  for (const auto& [written, ours] :
       {Name{"\"lr\": ", "lr"}, Name{"\"eps\": ", "eps"}, Name{"\"weight_decay\": ", "weight_decay"}, Name{"\"betas\": (", "beta1"}}) {
    const auto at = text.find(written);
    if (at == std::string::npos) continue;
    auto rest = std::string_view(text).substr(at + std::string_view(written).size());
    if (const auto value = take_number<double>(rest)) values[ours] = *value;
    if (std::string_view(ours) != "beta1" || !rest.starts_with(", ")) continue;
    rest.remove_prefix(2);
    if (const auto value = take_number<double>(rest)) values["beta2"] = *value;
  }
}

void read_optimizer(TitanReader& r) {
  auto& optimizer = r.found.job.optimizer;
  const auto groups = r.keys.text("optimizer.param_groups").value_or("");
  const bool adam = groups.find("optimizer_name=\"Adam\"") != std::string::npos;
  const auto name = r.python ? (adam                                            ? "Adam"
                                : groups.find("\"AdamW\"") != std::string::npos ? "AdamW"
                                                                                : groups)
                             : r.keys.text("optimizer.name").value_or("AdamW");
  if (name != "AdamW" && name != "Adam")
    r.found.refuse(r.python ? "optimizer.param_groups" : "optimizer.name", "is " + name, "use Adam or AdamW");
  optimizer.name = name == "Adam" ? "adam" : "adamw";
  for (const char* value : {"lr", "eps", "weight_decay", "beta1", "beta2"})
    if (const auto given = r.keys.number(std::string("optimizer.") + value)) optimizer.values[value] = *given;
  read_groups(groups, optimizer.values);
  const auto norm = r.keys.text("training.max_norm").value_or("1.0");
  r.found.job.clip_norm = norm == "float(inf)" ? 0 : r.keys.number("training.max_norm").value_or(1);
}

void sort_titan_rest(TitanReader& r) { sort_rest(r.keys, kIdleKeys, r.found); }

}  // namespace

bool is_torchtitan(const std::string& text) {
  const bool toml = text.find("[parallelism]") != std::string::npos ||
                    (text.find("[model]") != std::string::npos && text.find("flavor") != std::string::npos);
  return toml || text.find("from torchtitan") != std::string::npos;
}

ImportedJob imported_torchtitan(const std::string& text, const std::string& file, std::optional<int> ranks) {
  const bool python = text.find("from torchtitan") != std::string::npos;
  TitanReader r{Flags(python ? python_settings(text) : toml_settings(text), file), file, python, {}};
  read_model(r);
  read_degrees(r, ranks);
  read_batch(r);
  for (const auto read : {read_schedule, read_recompute, read_communication, read_type, read_optimizer, sort_titan_rest}) read(r);
  require_nothing_refused(r.found, file);
  return {"torchtitan", std::move(r.found.job), std::move(r.found.left_out)};
}

}  // namespace rehearsal::exchange
