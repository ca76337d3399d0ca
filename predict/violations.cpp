#include "predict/violations.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/join.hpp"
#include "plan/schedules/model_chunks.hpp"
#include "plan/schedules/stages.hpp"

namespace rehearsal::predict {
namespace {

constexpr int kNeutral = 1;

/// A degree of the plan, by its key.
struct Degree {
  std::string key;
  int value;
  std::function<void(plan::Plan&, int)> set;
};

std::vector<Degree> degrees_of(const plan::Plan& p) {
  std::vector<Degree> all{{"dp", p.dp, [](plan::Plan& q, int n) { q.dp = n; }},
                          {"tp", p.tp, [](plan::Plan& q, int n) { q.tp = n; }},
                          {"cp", p.cp, [](plan::Plan& q, int n) { q.cp = n; }},
                          {"ep", p.ep, [](plan::Plan& q, int n) { q.dp = q.ep = n; }}};
  const char* names[] = {"spatial (depth)", "spatial (height)", "spatial (width)"};
  for (std::size_t i = 0; i < p.spatial.size(); ++i)
    all.push_back({names[i], p.spatial[i], [i](plan::Plan& q, int n) { q.spatial[i] = n; }});
  return all;
}

/// A refusal's reason without the words that a list of violations begins with itself.
std::string reason_of(const Refusal& refusal, const std::string& subject = {}) {
  std::string text = refusal.what();
  for (const auto& known : {std::string("plan: "), subject + ": "})
    if (text.starts_with(known)) text.erase(0, known.size());
  return text;
}

/// Why no operator can use one degree by itself; empty when some can.
std::string obstacle_to(const PlannedModel& model, const Degree& degree, int value) {
  plan::Plan alone;
  degree.set(alone, value);
  try {
    static_cast<void>(shard(model.training, model.dims, plan::sharding_axes(model.training, model.dims, alone, 1, *model.rules)));
  } catch (const Refusal& refusal) {
    return reason_of(refusal, degree.key.substr(0, degree.key.find(' ')) + "=" + std::to_string(value));
  }
  return {};
}

/// The largest divisor that works, or leaving it out.
std::string remedy_for(const PlannedModel& model, const Degree& degree) {
  const auto key = degree.key.substr(0, degree.key.find(' '));
  for (int smaller = degree.value / 2; smaller > kNeutral; --smaller)
    if (degree.value % smaller == 0 && obstacle_to(model, degree, smaller).empty())
      return "use " + key + "=" + std::to_string(smaller) + " there, and other axes for the rest";
  return "leave " + key + " out, and use other axes";
}

void add_unusable_degrees(const PlannedModel& model, const plan::Plan& plan, std::vector<plan::Violation>& violations) {
  for (const auto& degree : degrees_of(plan)) {
    const bool named = std::any_of(violations.begin(), violations.end(), [&](const plan::Violation& v) { return v.key == degree.key; });
    if (degree.value == kNeutral || named) continue;
    if (const auto problem = obstacle_to(model, degree, degree.value); !problem.empty())
      violations.push_back({degree.key, problem, remedy_for(model, degree)});
  }
}

void add_missing_operators(const graph::TrainingGraph& training, const plan::Plan& plan, std::vector<plan::Violation>& violations) {
  auto parts = plan;
  parts.pp = plan::parts(plan::schedule_of(plan).placement, plan::pipeline_shape(plan, 1));
  const bool cuts_of_others = !plan.cuts.empty() && static_cast<int>(plan.cuts.size()) != parts.pp - 1;
  if (plan.pp == 1 || cuts_of_others) return;
  try {
    static_cast<void>(plan::assign_stages(training, parts, {}));
  } catch (const Refusal& refusal) {
    violations.push_back({"pp", reason_of(refusal), "use fewer stages"});
  } catch (const BadInput& problem) {
    violations.push_back({"cuts", problem.what(), "leave cuts out to have stages balanced by cost"});
  }
}

}  // namespace

std::vector<plan::Violation> model_violations(const PlannedModel& model, const plan::Plan& plan) {
  auto violations = validate(model.training, plan);
  add_missing_operators(model.training, plan, violations);
  add_unusable_degrees(model, plan, violations);
  return violations;
}

std::vector<plan::Violation> all_violations(const Workload& job, const plan::Plan& plan) {
  auto violations = model_violations({job.training, job.dims, job.rules}, plan);
  add_missing_devices(job.platform, plan, violations);
  if (!violations.empty()) return violations;
  try {
    static_cast<void>(lower_for(job, plan));
  } catch (const plan::NoMicroBatches& refusal) {
    violations.push_back({"micro_batch", reason_of(refusal), "leave micro_batch out"});
  } catch (const Refusal& refusal) {
    violations.push_back({"plan", reason_of(refusal), "use fewer axes together"});
  }
  return violations;
}

void add_missing_devices(const platforms::Platform& platform, const plan::Plan& plan, std::vector<plan::Violation>& violations) {
  const auto devices = platforms::device_count(platform);
  if (plan.ranks() <= devices) return;
  violations.push_back({"ranks",
                        std::to_string(plan.ranks()) + ", but platform " + platform.name + " has " + std::to_string(devices) + " devices",
                        "use smaller degrees, or more nodes (--nodes)"});
}

std::string to_text(const std::vector<plan::Violation>& violations) {
  return joined(violations, "; ", [](const plan::Violation& v) { return v.key + ": " + v.problem + " (" + v.remedy + ")"; });
}

namespace {

bool is_of_lowering(const plan::Violation& v) { return v.key == "plan" || v.key == "micro_batch"; }

}  // namespace

plan::Program lower_or_say_all(const std::function<plan::Program()>& lower, const std::function<std::vector<plan::Violation>()>& faults,
                               const plan::Plan& plan) {
  try {
    return lower();
  } catch (const Refusal& first) {
    const auto violations = faults();
    // What only lowering found says more by itself than in a list.
    if (violations.empty() || (violations.size() == 1 && is_of_lowering(violations.front()))) throw;
    if (violations.size() == 1) throw Refusal("plan " + to_text(plan) + ": " + to_text(violations));
    throw Refusal("plan " + to_text(plan) + " has " + std::to_string(violations.size()) + " faults: " + to_text(violations));
  }
}

plan::Program lower_or_say_all(const Workload& job, const plan::Plan& plan) {
  return lower_or_say_all([&] { return lower_for(job, plan); }, [&] { return all_violations(job, plan); }, plan);
}

}  // namespace rehearsal::predict
