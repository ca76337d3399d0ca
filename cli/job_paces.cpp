#include "cli/job_paces.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>

#include "base/error.hpp"
#include "cli/short_search.hpp"

namespace rehearsal::cli {
namespace {

/// What a prediction says of a job on so many devices.
struct PredictedPace {
  jobs::Pace pace;
  Bytes checkpoint;
  double tokens_per_step = 0;
};

class PacePredictor {
 public:
  explicit PacePredictor(const PlatformOptions& where) : where_(where), cluster_(load_platform(where)) {}

  /// From the fewest to the most devices, by doubling: parts of a node, or whole ones.
  [[nodiscard]] std::set<int> sizes_of(const jobs::Job& job) const {
    std::set<int> sizes{job.devices};
    const int node = cluster_.nodes.front().devices;
    for (const int most : {job.most, std::min(job.most, platforms::device_count(cluster_))})
      for (int size = job.least; size <= most; size *= 2)
        if (size <= node || size % node == 0) sizes.insert(size);
    return sizes;
  }

  const PredictedPace& of(const jobs::TrainingOfJob& t, int devices) {
    const auto key = std::tuple(t.model, t.batch.value_or(0), t.dtype, t.optimizer, t.framework, t.plan, devices);
    const auto known = known_.find(key);
    return known != known_.end() ? known->second : known_.emplace(key, predicted(t, devices)).first->second;
  }

 private:
  [[nodiscard]] static plan::Plan plan_of(JobSetup& setup, const ModelOptions& model, const PlatformOptions& o, bool any) {
    return any ? best_of_few(setup, "time") : setup.plan(model, o).plan;
  }

  [[nodiscard]] PredictedPace predicted(const jobs::TrainingOfJob& t, int devices) const {
    ModelOptions model;
    model.model = t.model;
    model.batch = t.batch;
    model.dtype = named_arithmetic(t.dtype);
    set_optimizer(t.optimizer, model);
    auto place = where_;
    place.nodes.reset();
    place.devices = devices;
    place.framework = t.framework;
    const bool any = t.plan == "auto";
    place.plan = any ? "" : t.plan;
    JobSetup setup(model, place);
    const auto plan = plan_of(setup, model, place, any);
    if (plan.ranks() != devices) throw of_other_devices(t, setup.predictor().batch(), plan.ranks(), devices);
    const auto a = setup.predictor().closed(plan);
    if (!a.may_fit()) throw Refusal("plan " + plan::to_text(plan) + " " + predict::shortage(a));
    return pace_of(a, setup.platform(), devices, static_cast<double>(setup.predictor().batch()));
  }

  [[nodiscard]] static BadInput of_other_devices(const jobs::TrainingOfJob& t, std::int64_t batch, int ranks, int devices) {
    const auto used = std::to_string(ranks), given = std::to_string(devices);
    if (!t.plan.empty() && t.plan != "auto")
      return {"plan " + t.plan, "is for " + used + (ranks == 1 ? " device" : " devices") + ", the job has " + given};
    return {"devices", "a batch of " + std::to_string(batch) + (t.batch ? "" : " (the model's own)") + " keeps " + used + " of " + given +
                           " busy; use as many devices, a batch that they share evenly, or a plan that splits more than the batch"};
  }

  [[nodiscard]] static PredictedPace pace_of(const predict::Assessment& a, const platforms::Platform& platform, int devices, double batch) {
    const auto& node = platform.nodes.front();
    const int nodes = (devices + node.devices - 1) / node.devices;
    PredictedPace p;
    p.pace.step = a.step;
    if (nodes > 1) p.pace.on_network = std::min(a.breakdown.exposed_communication, a.step);
    const double at_plug = a.cost.energy.value() / platform.pue.value / a.step.value();
    p.pace.power = Watts(std::max(0.0, at_plug - nodes * node.host_power.value.value()));
    p.pace.plan = plan::to_text(a.plan);
    p.pace.framework = a.framework;
    p.checkpoint = a.checkpoint.all;
    p.tokens_per_step = batch * a.tokens_per_sample;
    return p;
  }

  const PlatformOptions& where_;
  platforms::Platform cluster_;
  std::map<std::tuple<std::string, std::int64_t, std::string, std::string, std::string, std::string, int>, PredictedPace> known_;
};

jobs::Job with_pace(const jobs::JobEntry& entry, PacePredictor& predictor, bool all_sizes) {
  auto job = entry.job;
  if (!entry.training) return job;
  const auto& t = *entry.training;
  const bool one_plan = !t.plan.empty() && t.plan != "auto";
  if (all_sizes && one_plan && job.least != job.most)
    throw BadInput("plan " + t.plan, "is of one number of devices, but the job may be resized; write \"plan\": \"auto\", or leave it out");
  for (const int size : all_sizes ? predictor.sizes_of(job) : std::set<int>{job.devices}) job.paces[size] = predictor.of(t, size).pace;
  const auto& asked = predictor.of(t, job.devices);
  if (job.checkpoint.value() == 0) job.checkpoint = asked.checkpoint;
  if (t.tokens) {
    if (asked.tokens_per_step == 0) throw BadInput("tokens", "model " + t.model + " reads no sequence of tokens; give steps");
    job.steps = std::ceil(*t.tokens / asked.tokens_per_step);
  }
  return job;
}

}  // namespace

std::vector<jobs::Job> with_paces(const std::vector<jobs::JobEntry>& entries, const PlatformOptions& where, bool sizes,
                                  Progress& progress) {
  PacePredictor predictor(where);
  std::vector<jobs::Job> all;
  for (const auto& entry : entries) {
    progress.advance("jobs", static_cast<double>(all.size()), static_cast<double>(entries.size()));
    try {
      all.push_back(with_pace(entry, predictor, sizes));
    } catch (const BadInput& error) {
      throw BadInput("job " + entry.job.name, error.what());
    } catch (const Refusal& error) {
      throw Refusal("job " + entry.job.name + ": " + error.what());
    }
  }
  return all;
}

}  // namespace rehearsal::cli
