#include "validation/validate.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <thread>

#include "base/error.hpp"
#include "base/join.hpp"
#include "base/names.hpp"
#include "costmodel/precision.hpp"
#include "predict/frameworks/kind_of_model.hpp"
#include "predict/memory_risk.hpp"
#include "validation/intervals.hpp"

namespace rehearsal::validation {
namespace {

constexpr std::array<std::string_view, 17> kScored{
    "iteration_time_s", "time_us",        "energy_kwh_per_epoch", "energy_kwh",           "activation_memory_gib", "param_opt_memory_gib",
    "memory_gib",       "samples_per_s",  "tokens_per_s",         "tokens_per_s_per_gpu", "samples_per_s_per_gpu", "minutes",
    "busbw_GBps",       "tflops_per_gpu", "algbw_Gbps",           "avg_gpu_power_W",      "avg_node_power_W"};
constexpr std::array<std::string_view, 9> kTimes{
    "iteration_time_s",      "time_us",        "samples_per_s", "tokens_per_s", "tokens_per_s_per_gpu",
    "samples_per_s_per_gpu", "tflops_per_gpu", "busbw_GBps",    "algbw_Gbps"};
/// Measured keys that are context of a question, not its answer.
constexpr std::array<std::string_view, 6> kContext{"epochs", "samples_to_target", "steps", "params", "pue", "gpu_utilisation_pct"};

constexpr double kAssumedMicroBatch = 1.25, kIncomplete = 1.2, kAssumedNetwork = 1.1, kAssumedShape = 1.3;

template <class List>
bool among(const List& list, std::string_view key) {
  return std::find(list.begin(), list.end(), key) != list.end();
}

std::string plan_set_of(const Record& r) {
  const auto part = [](const Fields& f, const char* key) { return f.text(key) + "|"; };
  return r.source.substr(0, 40) + "|" + part(r.model, "name") + part(r.hardware, "gpu") + part(r.hardware, "count") +
         part(r.plan, "global_batch");
}

class Judge {
 public:
  Judge(const costmodel::ConstantsFile& constants, const costmodel::Site& site, std::unique_ptr<predict::StepEvaluator> player)
      : constants_(constants), site_(site), player_(std::move(player)) {}

  Verdict verdict(const Record& r) {
    auto v = unanswered(r);
    try {
      judge(r, v);
    } catch (const Error& error) {
      v.refused = error.what();
    } catch (const std::exception& error) {  // ours to mend, and no reason to lose the answers to all other records
      v.refused = std::string("internal error: ") + error.what();
    }
    return v;
  }

 private:
  void judge(const Record& r, Verdict& v) {
    require_measured(r);
    const auto p = preparer_.prepare(r);
    const auto a = answer(p, r, constants_.values, player_.get());
    v.device = p.job.machine.platform.nodes.front().device.name;
    v.framework = p.job.framework->name;
    v.arithmetic = costmodel::kArithmeticNames[static_cast<std::size_t>(p.job.precision.arithmetic)];
    v.assumed = p.job.assumed;
    v.step = a.step;
    v.played = a.played;
    const auto traits = traits_of(p);
    if (!p.collective) v.new_to_us = constants_.evidence.new_in(traits);
    for (const auto& [key, field] : r.measured.all()) {
      const auto found = a.values.find(key);
      if (found == a.values.end() || among(kContext, key)) continue;
      predict_as(v, r, key,
                 key == "oom" ? running_out(interval(p, traits, a, key), says_recomputation(p, r) && says_degrees(r))
                              : interval(p, traits, a, key));
    }
    if (v.predicted.empty()) throw nothing_predicted(r);
  }

  static Refusal nothing_predicted(const Record& r) {
    const bool whole = r.measured.has("minutes") || r.measured.has("energy_kwh") || r.measured.has("energy_kwh_dc");
    return Refusal(
        "measured: none of " + measured_keys(r) + " can be predicted" +
        (whole ? "; what a whole training takes asks how long it is: steps, samples_to_target, or epochs of a known dataset" : ""));
  }

  costmodel::Interval interval(const Prepared& p, const costmodel::RunTraits& traits, const Answer& a, const std::string& key) const {
    const auto group = evidence_group(p, key);
    const auto effect = effect_of(site_, p.job.machine.platform.nodes.front().device.name, group,
                                  group == "memory" ? costmodel::kNoMechanism : site_features(a));
    const double value = a.values.at(key) * std::exp(is_rate(key) ? -effect.log_factor : effect.log_factor);
    const double width = std::exp(effect.half_width(half_width(p, traits, group)));
    return {value, value / width, value * width};
  }

  /// 1 where even the lower end of what is needed is more than there is; in between the answer may be either, and it may be either of a
  /// plan that says nothing of recomputation, with which far less would be needed, or of what the devices are divided into.
  static costmodel::Interval running_out(const costmodel::Interval& share, bool judged) {
    constexpr double kCertain = 1 - predict::kSafe;  // of an interval of 90 %
    const double chance = predict::chance_of_running_out(share.value, share.high / share.value);
    if (!judged) return {std::min(chance, kCertain), 0, 1};
    if (chance > kCertain) return {1, 1, 1};
    return {chance, 0, chance > predict::kSafe ? 1 : chance};
  }

  static bool says_recomputation(const Prepared& p, const Record& r) {
    const auto said = r.plan.text("recompute");
    return (!said.empty() && said.find("fraction") == std::string::npos) || p.parts.time_group() != "transformer";
  }

  /// Into what the devices of a job are divided: of one that leaves all of it out, some division may have had the memory.
  static bool says_degrees(const Record& r) {
    constexpr std::string_view kDegrees[] = {"text", "dp", "tp", "pp", "cp", "ep", "zero", "sharding"};
    return r.hardware.number_or("count", 1) <= 1 || std::ranges::any_of(kDegrees, [&](auto key) { return r.plan.has(key); });
  }

  [[nodiscard]] double half_width(const Prepared& p, const costmodel::RunTraits& traits, const std::string& group) const {
    if (!is_time_group(group)) return constants_.evidence.of(group) * widening_of(p, constants_.evidence);
    return constants_.evidence.half_width(group, traits) * assumed_widening(p);
  }

  const costmodel::ConstantsFile& constants_;
  const costmodel::Site& site_;
  std::unique_ptr<predict::StepEvaluator> player_;
  Preparer preparer_;
};

}  // namespace

void require_measured(const Record& r) {
  require_form(r);
  if (r.measured.all().empty()) throw Refusal("measured: is empty, so nothing is asked");
  for (const auto& [key, field] : r.measured.all())
    if (const auto value = r.measured.number(key); value && *value < 0) throw Refusal("measured." + key + ": must not be below 0");
  for (const auto key : kScored)
    if (r.measured.number(key) == 0.0) throw Refusal("measured." + std::string(key) + ": is 0, which nothing takes");
}

std::string measured_keys(const Record& r) {
  const Names known(kScored.begin(), kScored.end());
  return joined(r.measured.all(), ", ", [&](const auto& entry) {
    const auto& key = entry.first;
    const auto nearest = among(kScored, key) || among(kContext, key) ? std::nullopt : nearest_name(key, known);
    return nearest ? key + " (did you mean \"" + *nearest + "\"?)" : key;
  });
}

std::span<const std::string_view> time_keys() { return kTimes; }

double assumed_widening(const Prepared& p) {
  double factor = 1;
  if (among(p.job.assumed, "micro-batch")) factor *= kAssumedMicroBatch;
  if (among(p.job.assumed, "shape")) factor *= kAssumedShape;
  if (among(p.job.assumed, "record")) factor *= kIncomplete;
  if (among(p.job.assumed, "network")) factor *= kAssumedNetwork;
  return factor;
}

double widening_of(const Prepared& p, const costmodel::FittedEvidence& evidence) {
  using costmodel::FittedEvidence;
  const auto& device = p.job.machine.platform.nodes.front().device;
  double factor = assumed_widening(p) * (among(p.job.assumed, "device") ? FittedEvidence::kUnseenDevice : evidence.widening_of(device));
  if (!p.collective)
    factor *= among(p.job.assumed, "framework") ? FittedEvidence::kUnseenFramework : evidence.widening_of(p.job.framework->name);
  return factor;
}

costmodel::RunTraits traits_of(const Prepared& p) {
  using costmodel::Novelty;
  costmodel::RunTraits traits;
  if (!among(p.job.assumed, "device")) traits[Novelty::Device] = p.job.machine.platform.nodes.front().device.name;
  if (p.collective) return traits;
  traits.framework_assumed = among(p.job.assumed, "framework");
  traits[Novelty::Framework] = p.job.framework->name;
  traits[Novelty::Precision] = costmodel::precision_class(p.job.precision);
  traits[Novelty::Kind] = predict::frameworks::kind_of_model(*p.model);
  traits.devices = p.job.machine.devices;
  traits.parameters = predict::frameworks::parameters_of_model(*p.model);
  return traits;
}

bool is_rate(std::string_view key) {
  return key.find("_per_s") != std::string_view::npos || key.find("flops") != std::string_view::npos ||
         key.find("bw_") != std::string_view::npos || key.find("fu_pct") != std::string_view::npos;
}

std::string evidence_group(const Prepared& p, std::string_view key) {
  if (key.find("memory") != std::string_view::npos || key.find("activation") != std::string_view::npos || key == "oom") return "memory";
  if (key.find("energy") != std::string_view::npos || key.find("power") != std::string_view::npos) return "energy";
  if (p.collective) return "collective";
  return std::string(p.parts.time_group());
}

std::string scored_key(const Verdict& v) {
  for (const auto key : kScored)
    if (v.predicted.contains(key)) return std::string(key);
  return v.predicted.empty() ? "" : v.predicted.begin()->first;
}

std::string time_key(const Record& r) {
  for (const auto key : kTimes)
    if (const auto value = r.measured.number(key); value && *value > 0) return std::string(key);
  return "";
}

Verdict unanswered(const Record& r) {
  Verdict v;
  v.id = r.id;
  v.family = r.family;
  v.source = r.source;
  v.plan_set = plan_set_of(r);
  return v;
}

void predict_as(Verdict& v, const Record& r, const std::string& key, const costmodel::Interval& interval) {
  v.predicted[key] = interval;
  if (const auto measured = r.measured.number(key); measured && *measured > 0) v.errors[key] = interval.value / *measured - 1;
}

std::vector<Verdict> validate(std::span<const Record> records, const costmodel::ConstantsFile& constants, const costmodel::Site& site,
                              Progress& progress, const PlayerOf& player) {
  constexpr std::size_t kRun = 16;  // records that a worker takes at once: neighbours share a model
  std::vector<Verdict> verdicts(records.size());
  std::atomic<std::size_t> next{0};
  const auto work = [&](bool reports) {
    Judge judge(constants, site, player ? player() : nullptr);
    for (std::size_t at = next.fetch_add(kRun); at < records.size() && !progress.stop_requested(); at = next.fetch_add(kRun)) {
      for (std::size_t i = at; i < std::min(at + kRun, records.size()); ++i) verdicts[i] = judge.verdict(records[i]);
      if (reports) progress.advance("records", static_cast<double>(at), static_cast<double>(records.size()));
    }
  };
  std::vector<std::jthread> others;
  for (unsigned i = 1; i < std::thread::hardware_concurrency() && i * kRun < records.size(); ++i) others.emplace_back(work, false);
  work(true);
  others.clear();
  return verdicts;
}

}  // namespace rehearsal::validation
