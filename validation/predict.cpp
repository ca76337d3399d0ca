#include "validation/predict.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.hpp"
#include "base/names.hpp"
#include "costmodel/power.hpp"
#include "graph/zoo/zoo.hpp"
#include "predict/frameworks/framework_program.hpp"
#include "predict/frameworks/memory.hpp"
#include "validation/known_models.hpp"

namespace rehearsal::validation {
namespace {

using costmodel::CollectiveKind;
using costmodel::Constants;
namespace frameworks = predict::frameworks;
using Values = std::map<std::string, double, std::less<>>;

constexpr double kGigaBytes = 1e9, kTeraFlops = 1e12, kGibi = 1024.0 * 1024.0 * 1024.0, kJoulesPerKwh = 3.6e6;
constexpr std::size_t kModelsKept = 24;
constexpr double kEvaluationShare = 0.06;      // of training time that runs to a target spend on evaluation
constexpr double kDirectCurrentShare = 0.975;  // of a node's power behind its supplies
constexpr double kTokensOfRun = 300e9;         // of the column "days for 300 B tokens"
constexpr double kDefaultCollectiveBytes = 4e9;

double size_in(const std::string& text) {
  double value = 0;
  char unit = 0;
  if (std::sscanf(text.c_str(), "%lf %c", &value, &unit) < 2) return 0;
  const double scale = unit == 'k' ? 1024.0 : unit == 'm' ? 1024.0 * 1024 : unit == 'g' ? kGibi : 0;
  return value * scale;
}

int collective_ranks(const Record& r) {
  constexpr double kMostRanks = 1e7;
  const double ranks = r.plan.number("ranks").value_or(r.hardware.number_or("count", 0));
  if (ranks < 1) throw Refusal("plan.ranks: is missing, and hardware.count does not stand in for it");
  if (ranks < 2 || ranks > kMostRanks || ranks != std::floor(ranks)) throw Refusal("plan.ranks: must be a whole number from 2 to 10000000");
  return static_cast<int>(ranks);
}

/// What is sent: a record's own bytes, or its size in words; where it has neither, what bandwidths are usually quoted for.
double collective_bytes(const Record& r) {
  constexpr double kMostBytes = 1e15;
  const auto stated = r.model.number("bytes");
  const auto size = r.model.text("size");
  if (!stated && size.empty()) return kDefaultCollectiveBytes;
  const double bytes = stated ? *stated : size_in(size);
  if (!(bytes >= 1 && bytes <= kMostBytes))
    throw Refusal(std::string("model.") + (stated ? "bytes: is " + r.model.written("bytes") : "size: is " + size) +
                  "; it must be from 1 byte to 1e15, as 1073741824 or 1GiB");
  return bytes;
}

/// The library chooses, whatever a record says it chose; only what no library has is refused.
void refuse_algorithm(const Record& r) {
  const auto algorithm = dashed(r.plan.text("algorithm"));
  constexpr std::string_view kAlgorithms[] = {"auto",    "default", "ring",      "tree",         "double-tree",      "double-binary-tree",
                                              "collnet", "nvls",    "nvls-tree", "hierarchical", "halving-doubling", "recursive-doubling"};
  if (!algorithm.empty() && std::ranges::find(kAlgorithms, algorithm) == std::end(kAlgorithms))
    throw Refusal("plan.algorithm: '" + algorithm +
                  "' is none of auto, ring, tree, double-binary-tree, collnet, nvls, hierarchical, "
                  "halving-doubling, recursive-doubling");
}

std::optional<RecordedCollective> collective_of(const Record& r) {
  auto name = r.plan.text("collective");
  if (name.empty()) {
    if (r.family != "collective") return std::nullopt;
    name = r.model.text("name");
  }
  name = plain_spelling(name);
  static const std::pair<const char*, CollectiveKind> kKinds[] = {{"allreduce", CollectiveKind::AllReduce},
                                                                  {"allgather", CollectiveKind::AllGather},
                                                                  {"reducescatter", CollectiveKind::ReduceScatter},
                                                                  {"alltoall", CollectiveKind::AllToAll},
                                                                  {"broadcast", CollectiveKind::Broadcast}};
  refuse_algorithm(r);
  for (const auto& [key, kind] : kKinds)
    if (name == key) return RecordedCollective{kind, collective_bytes(r), collective_ranks(r)};
  throw Refusal("plan.collective: '" + name + "' is none of all_reduce, all_gather, reduce_scatter, all_to_all, broadcast");
}

void collective_values(const Prepared& p, const Constants& c, Values& v) {
  const auto& q = *p.collective;
  // Tables of older devices are of older releases too, which the closed form stands for.
  const double seconds = p.links->all().by_table() ? p.links->all().library(q.kind, q.bytes, {q.ranks, 0}, c).seconds
                                                   : p.links->all().seconds(q.kind, q.bytes, {q.ranks, 0}, c);
  const double n = q.ranks;
  // nccl-tests: bus bandwidth is algorithm bandwidth times what a ring moves per byte.
  const double factor = q.kind == CollectiveKind::AllReduce ? 2 * (n - 1) / n : (n - 1) / n;
  v["time_us"] = v["time_inplace_us"] = seconds * 1e6;
  v["algbw_GBps"] = q.bytes / seconds / kGigaBytes;
  v["busbw_GBps"] = factor * v["algbw_GBps"];
  // The script behind this key counts the payload twice.
  v["algbw_Gbps"] = v["algbw_Gbps_max"] = 2 * 8 * v["algbw_GBps"];
}

double model_flops(const Prepared& p) {
  double flops = 0;
  for (const auto& part : p.parts.parts) flops += part.flops * part.repeats;
  return flops * p.job.samples;
}

void rate_values(const Prepared& p, const Record& r, double seconds, Values& v) {
  const double devices = p.job.machine.devices;
  v["iteration_time_s"] = seconds;
  v["samples_per_s"] = v["images_per_s"] = v["sequences_per_s"] = p.job.samples / seconds;
  v["samples_per_s_per_gpu"] = p.job.samples / seconds / devices;
  if (p.job.tokens > 0) {
    v["tokens_per_s"] = p.job.tokens / seconds;
    v["tokens_per_s_per_gpu"] = p.job.tokens / seconds / devices;
    if (const double tokens = r.model.number_or("tokens", 0); tokens > 0) {
      v["days"] = tokens / v["tokens_per_s"] / 86400;
      v["gpu_hours"] = 24 * v["days"] * devices;
    }
    v["days_for_300B_tokens"] = kTokensOfRun / v["tokens_per_s"] / 86400;
  }
  const double again = p.job.plan.recompute.rule == plan::RecomputeRule::Full ? 4.0 / 3 : 1;
  // Publications of Megatron and DeepSpeed count recomputed FLOPs; those that use FSDP or NeMo do not.
  const bool counted = !p.job.framework->checkpoint_stops_early && !p.job.framework->tuned_overlap;
  const double useful = model_flops(p) / seconds / devices / kTeraFlops;
  v["tflops_per_gpu"] = useful * (counted ? again : 1);
  v["aggregate_pflops"] = v["tflops_per_gpu"] * devices / 1e3;
  v["mfu_pct"] = 100 * useful * kTeraFlops / p.job.precision.half_peak;
  v["hfu_pct"] = v["mfu_pct"] * again;
}

/// A step of the record's job on its devices.
class RecordStep {
 public:
  RecordStep(const Prepared& p, const frameworks::ModelParts& parts, const frameworks::FrameworkJob& job, const Constants& c)
      : job_(job), timers_(job_, *p.links, c, [&](std::size_t) -> const frameworks::ModelParts& { return parts; }) {
    step_.emplace(stager_.staged(job_, timers_));
  }
  RecordStep(const RecordStep&) = delete;
  RecordStep& operator=(const RecordStep&) = delete;
  [[nodiscard]] const frameworks::StagedStep& operator*() const { return *step_; }

 private:
  frameworks::FrameworkJob job_;
  frameworks::Timers timers_;
  frameworks::Stager stager_;
  std::optional<frameworks::StagedStep> step_;
};

/// Activations under the same degrees with neither recomputation nor sequence parallelism (Korthikanti et al. 2022, figure 7).
double plain_activations(const Prepared& p, const Constants& c) {
  auto job = p.framework_job();
  job.plan.sequence_parallel = false;
  job.plan.recompute = {};
  return frameworks::memory_of(*RecordStep(p, *p.plain_parts, job, c)).activations;
}

/// Of a device's memory. What recipes of the framework set is taken where the record does not say it and the rest would not fit: nobody
/// names the distributed optimizer.
double needed_share(const Prepared& p, const Record& r, const frameworks::RankMemory& memory, const Constants& c) {
  auto job = p.framework_job();
  const double capacity = job.device().memory.value.value();
  const auto share = [&](const frameworks::RankMemory& m) {
    return frameworks::device_memory(m, job.profile, c, capacity).needed / capacity;
  };
  const auto usual = job.profile.usual_keys.find("zero");
  if (share(memory) <= 1 || usual == job.profile.usual_keys.end() || r.plan.has("zero") || r.plan.has("sharding")) return share(memory);
  job.plan.zero = std::stoi(usual->second);
  return share(frameworks::memory_of(*RecordStep(p, p.parts, job, c)));
}

/// Whose bytes a record's figures are: the fullest rank's, or those of all stages together.
std::vector<frameworks::RankMemory> counted_ranks(const Prepared& p, const frameworks::StagedStep& step) {
  if (!p.sums_over_devices) return {frameworks::memory_of(step)};
  std::vector<frameworks::RankMemory> ranks;
  for (int stage = 0; stage < step.shape.stages; ++stage) ranks.push_back(frameworks::memory_of_stage(step, stage));
  return ranks;
}

void memory_values(const Prepared& p, const Record& r, const frameworks::StagedStep& step, const Constants& c, Values& v) {
  const auto job = p.framework_job();
  const double capacity = job.device().memory.value.value();
  const auto ranks = counted_ranks(p, step);
  const double all = capacity * static_cast<double>(ranks.size()), most = all * frameworks::kMemoryInUse;
  const auto sum = [&](auto&& bytes) {
    return std::accumulate(ranks.begin(), ranks.end(), 0.0, [&](double before, const auto& m) { return before + bytes(m); });
  };
  const auto device = [&](const frameworks::RankMemory& m) { return frameworks::device_memory(m, job.profile, c, capacity); };
  v["param_opt_memory_gib"] = sum([](const auto& m) { return m.states(); }) / kGibi;
  v["activation_memory_gib"] = sum([](const auto& m) { return m.activations; }) / kGibi;
  v["memory_gib"] = v["memory_reserved_gib"] = std::min(most, sum([&](const auto& m) { return device(m).reading; })) / kGibi;
  // Where the device's own reading stands beside it, the other figure is what the allocator has handed out.
  if (r.measured.has("memory_reserved_gib")) v["memory_gib"] = std::min(most, sum([](const auto& m) { return m.all(); })) / kGibi;
  // Stages of such a record are cut by its `balance`, which counts layers of its own: an even share of what all need.
  v["oom"] = p.sums_over_devices ? sum([&](const auto& m) { return device(m).needed; }) / all : needed_share(p, r, ranks.front(), c);
  if (p.plain_parts) v["activation_pct_of_tp_baseline"] = 100 * ranks.front().activations / plain_activations(p, c);
}

void energy_values(const Prepared& p, const Record& r, const Constants& c, double watts, Values& v) {
  v["avg_gpu_power_W"] = watts;
  v["energy_j"] = watts * p.job.machine.devices * v["iteration_time_s"];
  const int per_node = p.job.machine.platform.nodes.front().devices;
  v["avg_node_power_W"] = costmodel::node_power(watts, per_node, c);
  const double epoch = p.job.model.epoch_samples;
  if (epoch > 0) {
    v["seconds_per_epoch"] = epoch / v["samples_per_s"];
    v["energy_kwh_per_epoch"] = v["seconds_per_epoch"] * watts * p.job.machine.devices / kJoulesPerKwh;
  }
  const auto epochs = r.measured.number("epochs");
  const double samples = epochs && epoch > 0 ? *epochs * epoch : r.measured.number_or("samples_to_target", 0);
  if (samples > 0)
    v["minutes"] = samples / v["samples_per_s"] * (1 + kEvaluationShare) / 60;
  else if (const auto steps = r.measured.number("steps"); steps && *steps > 0)  // of which nothing is evaluation
    v["minutes"] = *steps * v["iteration_time_s"] / 60;
  const auto minutes = v.contains("minutes") ? std::optional(v["minutes"]) : r.measured.number("minutes");
  if (!minutes) return;
  const double nodes = std::max(1.0, static_cast<double>(p.job.machine.devices) / per_node);
  v["energy_kwh"] = v["avg_node_power_W"] * nodes * *minutes * 60 / kJoulesPerKwh;
  v["energy_kwh_dc"] = v["energy_kwh"] * kDirectCurrentShare;
}

/// The repeated block alone: nothing before or behind it, and no update.
void keep_block(frameworks::ModelParts& model) {
  std::erase_if(model.parts, [](const auto& part) { return part.repeats < 2; });
  for (auto& part : model.parts) {
    part.repeats = 1;
    part.repeated = true;
  }
  model.logits = 0;
}

}  // namespace

frameworks::FrameworkJob Prepared::framework_job() const {
  return {job.machine.platform, *job.framework, job.plan, job.arithmetic, job.samples, job.micro_batch, job.micro_batches, job.recipe};
}

Preparer::Folded Preparer::folded(const RecordModel& model, std::int64_t batch, frameworks::Grain grain) {
  const auto reference = zoo_reference(model);
  auto key = reference + "#" + std::to_string(batch) + (grain == frameworks::Grain::Nodes ? "/nodes" : "");
  if (model.adapters) key += "/lora" + std::to_string(model.adapters->rank) + (model.adapters->targets.empty() ? "" : "/attention");
  for (const auto& [known, folded] : models_)
    if (known == key) return folded;
  if (models_.size() == kModelsKept) models_.erase(models_.begin());
  auto graph = graph::zoo::build(reference, batch);
  if (model.adapters) graph = graph::with_adapters(graph, *model.adapters).graph;
  models_.emplace_back(key, std::make_shared<const frameworks::FoldedModel>(std::move(graph), grain));
  return models_.back().second;
}

Prepared Preparer::prepare(const Record& r) {
  require_form(r);
  Prepared p;
  p.collective = collective_of(r);
  if (p.collective) {
    p.job.machine = machine_of(r);
    p.job.framework = std::make_shared<costmodel::FrameworkProfile>(*framework_of(r, p.job.machine.platform.nodes.front().device).profile);
    p.job.plan.dp = p.collective->ranks;
    p.links.emplace(p.job.machine.platform);
    return p;
  }
  p.job = job_of(r);
  p.links.emplace(p.job.machine.platform);
  // The ranks that share experts have a micro-batch each.
  const auto batch = static_cast<std::int64_t>(std::max(1.0, std::round(p.job.micro_batch))) * p.job.plan.ep;
  const auto parts = [&](const frameworks::FrameworkJob& job) {
    const auto grain = frameworks::grain_of(*folded(p.job.model, batch, frameworks::Grain::Blocks), job);
    p.model = folded(p.job.model, batch, grain);
    auto model = frameworks::parts_of(*p.model, job, 0);
    if (p.job.model.block_alone) keep_block(model);
    return model;
  };
  try {
    auto job = p.framework_job();
    job.micro_batch = std::min(1.0, job.micro_batch) * static_cast<double>(batch / job.plan.ep);
    p.parts = parts(job);
    job.plan.sequence_parallel = false;
    if (r.measured.has("activation_pct_of_tp_baseline")) p.plain_parts = parts(job);
  } catch (const BadInput& error) {
    throw Refusal(std::string("model: ") + error.what());
  }
  p.sums_over_devices = p.job.framework->reports_total_memory;
  return p;
}

namespace {

/// How tables of embeddings are spread over devices decides the time of a recommender, and no record says it.
void forget_times(Values& values) {
  constexpr std::string_view kOthers[] = {"power", "energy_kwh", "memory"};
  std::erase_if(values, [&](const auto& entry) {
    return std::none_of(std::begin(kOthers), std::end(kOthers), [&](auto part) { return entry.first.find(part) != std::string::npos; });
  });
  values.erase("energy_kwh_per_epoch");
}

/// The step as it is played, in place of its closed form; false where it has no Program.
bool play(const Prepared& p, const frameworks::StagedStep& step, predict::StepEvaluator& player, frameworks::StepTime& time) {
  if (p.job.model.block_alone || step.job.micro_batch < 1) return false;
  const auto priced = frameworks::program_of(step, *p.model);
  const costmodel::CostModel links(step.job.device(), {}, "f32");
  const auto cost = player.evaluate({priced.program, priced.costs, step.job.platform, links, false});
  const double ratio = time.seconds / cost.step.value();
  time.matrix_share = std::min(1.0, time.matrix_share * ratio);
  time.memory_share = std::min(1.0, time.memory_share * ratio);
  time.seconds = cost.step.value();
  time.bubble = cost.breakdown.bubble.value();
  time.exposed = cost.breakdown.exposed_communication.value();
  return true;
}

}  // namespace

Answer answer(const Prepared& p, const Record& r, const Constants& c, predict::StepEvaluator* player) {
  Answer a;
  if (p.collective) {
    collective_values(p, c, a.values);
    return a;
  }
  const auto job = p.framework_job();
  const RecordStep step(p, p.parts, job, c);
  a.step = frameworks::closed_step(*step);
  a.played = player != nullptr && play(p, *step, *player, a.step);
  if (!(a.step.seconds > 0) || !std::isfinite(a.step.seconds)) throw Refusal("plan: no finite time");
  const auto power = costmodel::device_power(job.device(), {a.step.matrix_share, a.step.memory_share}, job.recipe.power_limit, c);
  const double seconds = a.step.seconds * power.slowdown;
  rate_values(p, r, seconds, a.values);
  a.values["forward_s"] = a.step.forward;
  a.values["backward_s"] = a.step.backward;
  memory_values(p, r, *step, c, a.values);
  energy_values(p, r, c, power.watts, a.values);
  if (p.job.model.zoo == "dlrm") forget_times(a.values);
  return a;
}

}  // namespace rehearsal::validation
