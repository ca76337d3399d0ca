#include "validation/predict.hpp"

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "costmodel/power.hpp"
#include "graph/zoo/zoo.hpp"
#include "predict/frameworks/lower.hpp"

namespace rehearsal::validation {
namespace {

using costmodel::CollectiveKind;
using costmodel::Constants;
using Values = std::map<std::string, double, std::less<>>;

constexpr double kGiga = 1e9, kTera = 1e12, kGibi = 1024.0 * 1024.0 * 1024.0, kJoulesPerKwh = 3.6e6;
constexpr std::size_t kGraphsKept = 24;
constexpr double kEvaluationShare = 0.06;      // of training time that runs to a target spend on evaluation
constexpr double kDirectCurrentShare = 0.975;  // of a node's power behind its supplies
constexpr double kMemoryInUse = 0.97;          // of a device: an allocator never hands out more
constexpr double kTokensOfRun = 300e9;         // of the column "days for 300 B tokens"
constexpr double kDefaultCollectiveBytes = 4e9;

double size_in(const std::string& text) {
  double value = 0;
  char unit = 0;
  if (std::sscanf(text.c_str(), "%lf %c", &value, &unit) < 2) return 0;
  const double scale = unit == 'k' ? 1024.0 : unit == 'm' ? 1024.0 * 1024 : unit == 'g' ? kGibi : 0;
  return value * scale;
}

std::optional<CollectiveQuestion> collective_of(const Record& r) {
  auto name = r.plan.text("collective");
  if (name.empty()) {
    if (r.family != "collective") return std::nullopt;
    name = r.model.text("name");
  }
  name.erase(std::remove_if(name.begin(), name.end(), [](char c) { return c == '_' || c == '-' || c == ' '; }), name.end());
  static const std::pair<const char*, CollectiveKind> kKinds[] = {{"allreduce", CollectiveKind::AllReduce},
                                                                  {"allgather", CollectiveKind::AllGather},
                                                                  {"reducescatter", CollectiveKind::ReduceScatter},
                                                                  {"alltoall", CollectiveKind::AllToAll},
                                                                  {"broadcast", CollectiveKind::Broadcast}};
  for (const auto& [key, kind] : kKinds)
    if (name == key) {
      const double ranks = r.plan.number("ranks").value_or(r.hardware.number_or("count", 0));
      if (ranks < 1 || ranks > 1e7) throw Refusal("plan.ranks: is missing, and hardware.count does not stand in for it");
      double bytes = r.model.number("bytes").value_or(size_in(r.model.text("size")));
      return CollectiveQuestion{kind, bytes > 0 ? bytes : kDefaultCollectiveBytes, static_cast<int>(ranks)};
    }
  throw Refusal("plan.collective: '" + name + "' is none of all_reduce, all_gather, reduce_scatter, all_to_all, broadcast");
}

void collective_values(const Prepared& p, const Constants& c, Values& v) {
  const auto& q = *p.collective;
  const double seconds = p.network->seconds(q.kind, q.bytes, {q.ranks, 0}, c), n = q.ranks;
  // nccl-tests: bus bandwidth is algorithm bandwidth times what a ring moves per byte.
  const double factor = q.kind == CollectiveKind::AllReduce ? 2 * (n - 1) / n : (n - 1) / n;
  v["time_us"] = v["time_inplace_us"] = seconds * 1e6;
  v["algbw_GBps"] = q.bytes / seconds / kGiga;
  v["busbw_GBps"] = factor * v["algbw_GBps"];
  // The script behind this key counts the payload twice.
  v["algbw_Gbps"] = v["algbw_Gbps_max"] = 2 * 8 * v["algbw_GBps"];
}

double model_flops(const Prepared& p) {
  double flops = 0;
  for (const auto& part : p.rows.parts) flops += part.flops * part.span.repeats;
  return 3 * flops * p.job.plan.micro_batches * p.job.plan.dp * p.job.plan.cp;
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
  using predict::frameworks::Recompute;
  const double again = p.job.plan.recompute == Recompute::Full ? 4.0 / 3 : 1;
  // Publications of Megatron and DeepSpeed count recomputed FLOPs; those that use FSDP or NeMo do not.
  const bool counted = !p.job.framework->checkpoint_stops_early && !p.job.framework->tuned_overlap;
  const double useful = model_flops(p) / seconds / devices / kTera;
  v["tflops_per_gpu"] = useful * (counted ? again : 1);
  v["aggregate_pflops"] = v["tflops_per_gpu"] * devices / 1e3;
  v["mfu_pct"] = 100 * useful * kTera / p.job.precision.half_peak;
  v["hfu_pct"] = v["mfu_pct"] * again;
}

void memory_values(const Prepared& p, const Constants& c, Values& v) {
  const auto job = p.analytic();
  const double devices = p.sums_over_devices ? p.job.plan.pp : 1, capacity = job.device().memory.value.value() * kMemoryInUse;
  v["param_opt_memory_gib"] = devices * p.memory.states / kGibi;
  v["activation_memory_gib"] = devices * p.memory.activations / kGibi;
  const double reading = predict::frameworks::device_reading(p.memory, job, c);
  v["memory_gib"] = devices * std::min(capacity, reading) / kGibi;
  v["oom"] = reading > capacity ? 1 : 0;
  v["activation_pct_of_tp_baseline"] = 100 * p.memory.activations / p.plain_activations;
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
  if (samples > 0) v["minutes"] = samples / v["samples_per_s"] * (1 + kEvaluationShare) / 60;
  const auto minutes = v.contains("minutes") ? std::optional(v["minutes"]) : r.measured.number("minutes");
  if (!minutes) return;
  const double nodes = std::max(1.0, static_cast<double>(p.job.machine.devices) / per_node);
  v["energy_kwh"] = v["avg_node_power_W"] * nodes * *minutes * 60 / kJoulesPerKwh;
  v["energy_kwh_dc"] = v["energy_kwh"] * kDirectCurrentShare;
}

/// The repeated block alone: nothing before or behind it, and no update.
void keep_block(Prepared& p) {
  std::erase_if(p.rows.parts, [](const auto& part) { return part.span.repeats < 2; });
  for (auto& part : p.rows.parts) {
    part.span.repeats = 1;
    part.repeated = true;
  }
  p.rows.logits = 0;
}

/// Activations under the same degrees without sequence parallelism and recomputation (Korthikanti et al. 2022, figure 7).
double plain_activations(Prepared p) {
  p.job.plan.sequence_parallel = false;
  p.job.plan.recompute = predict::frameworks::Recompute::None;
  return predict::frameworks::memory_of(p.rows, p.analytic()).activations;
}

}  // namespace

predict::frameworks::AnalyticJob Prepared::analytic() const {
  return {job.machine.platform, *job.framework, job.precision, job.plan, job.power_limit};
}

std::shared_ptr<const graph::Graph> Preparer::built(const std::string& reference, std::int64_t batch) {
  const auto key = reference + "#" + std::to_string(batch);
  for (const auto& [known, model] : graphs_)
    if (known == key) return model;
  if (graphs_.size() == kGraphsKept) graphs_.erase(graphs_.begin());
  graphs_.emplace_back(key, std::make_shared<const graph::Graph>(graph::zoo::build(reference, batch)));
  return graphs_.back().second;
}

Prepared Preparer::prepare(const Record& r) {
  Prepared p;
  p.collective = collective_of(r);
  if (p.collective) {
    p.job.machine = machine_of(r);
    p.job.framework = std::make_shared<costmodel::FrameworkProfile>(*framework_of(r, p.job.machine.platform.nodes.front().device).profile);
    p.job.plan.dp = p.collective->ranks;
    p.network.emplace(p.job.machine.platform);
    return p;
  }
  p.job = job_of(r);
  p.network.emplace(p.job.machine.platform);
  const auto batch = static_cast<std::int64_t>(std::max(1.0, std::round(p.job.plan.micro_batch)));
  try {
    p.rows = predict::frameworks::lower_to_rows(*built(zoo_reference(p.job.model), batch), p.analytic());
  } catch (const BadInput& error) {
    throw Refusal(std::string("model: ") + error.what());
  }
  if (p.job.model.block_alone) keep_block(p);
  p.memory = predict::frameworks::memory_of(p.rows, p.analytic());
  p.plain_activations = plain_activations(p);
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

}  // namespace

Answer answer(const Prepared& p, const Record& r, const Constants& c) {
  Answer a;
  if (p.collective) {
    collective_values(p, c, a.values);
    return a;
  }
  const auto job = p.analytic();
  a.step = predict::frameworks::compose(p.rows, job, *p.network, c);
  if (!(a.step.seconds > 0) || !std::isfinite(a.step.seconds)) throw Refusal("plan: no finite time");
  const auto power = costmodel::device_power(job.device(), {a.step.matrix_share, a.step.memory_share}, job.power_limit, c);
  const double seconds = a.step.seconds * power.slowdown;
  rate_values(p, r, seconds, a.values);
  a.values["forward_s"] = a.step.forward;
  a.values["backward_s"] = a.step.backward;
  memory_values(p, c, a.values);
  energy_values(p, r, c, power.watts, a.values);
  if (p.job.model.zoo == "dlrm") forget_times(a.values);
  return a;
}

}  // namespace rehearsal::validation
