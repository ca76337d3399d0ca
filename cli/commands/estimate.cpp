#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "cli/assessment_json.hpp"
#include "cli/budget_answer.hpp"
#include "cli/command.hpp"
#include "cli/fidelity.hpp"
#include "cli/goodput_options.hpp"
#include "cli/hours.hpp"
#include "cli/mixed_frameworks.hpp"
#include "cli/platform_options.hpp"
#include "cli/power_caps.hpp"
#include "cli/target_answer.hpp"
#include "cli/vary.hpp"

namespace rehearsal::cli {
namespace {

struct EstimateOptions {
  ModelOptions model;
  PlatformOptions platform;
  GoodputOptions goodput;
  std::string fidelity = "closed";
  std::vector<std::string> vary;
  std::string hours;
  BudgetOptions budget;
  TargetOptions target;
};

/// A budget says how long is trained, and is answered by closed forms.
int estimate_budget(const EstimateOptions& o, Fidelity fidelity, Terminal& terminal) {
  if (o.platform.input.extent.given()) throw BadInput("--budget", "says how long is trained; leave --steps, --epochs and --tokens out");
  if (leaves_power_open(o.platform)) throw BadInput("--recipe " + o.platform.recipe, "with --budget give a limit of power in watts");
  if (!o.hours.empty()) throw BadInput("--hours", "and --budget exclude each other: a budget is asked with one price");
  if (!o.vary.empty()) throw BadInput("--vary", "and --budget exclude each other; --sizes asks about several sizes");
  if (fidelity != Fidelity::Closed) throw BadInput("--fidelity " + o.fidelity, "a budget is answered by closed forms; leave it out");
  terminal.print(budget_answer(o.budget, {o.model, o.platform, o.goodput}, terminal));
  return 0;
}

/// A target says how long is trained, too.
int estimate_target(const EstimateOptions& o, Fidelity fidelity, Terminal& terminal) {
  const std::string option = o.target.loss ? "--to-loss" : !o.target.accuracy.empty() ? "--to-accuracy" : "--reached";
  if (o.budget.given()) throw BadInput("--budget", "and " + option + " exclude each other: both say how long is trained");
  if (!o.budget.sizes.empty()) throw BadInput("--sizes", "is of a --budget; leave it out");
  if (o.platform.input.extent.given()) throw BadInput(option, "says how long is trained; leave --steps, --epochs and --tokens out");
  if (leaves_power_open(o.platform)) throw BadInput("--recipe " + o.platform.recipe, "with " + option + " give a limit of power in watts");
  if (!o.hours.empty()) throw BadInput("--hours", "and " + option + " exclude each other: a target is asked with one price");
  if (!o.vary.empty()) throw BadInput("--vary", "and " + option + " exclude each other; --batches asks about several batches");
  terminal.print(target_answer(o.target, {o.model, o.platform, o.goodput, fidelity, o.budget.law}, terminal));
  return 0;
}

/// The question with the limit of power that takes least energy; `rows` get what each limit does.
PlatformOptions with_best_cap(const EstimateOptions& o, Fidelity fidelity, nlohmann::ordered_json& rows) {
  const auto questions = with_power_caps(o.platform);
  std::vector<CappedStep> steps;
  for (const auto& capped : questions) {
    JobSetup setup(o.model, capped);
    const auto plan = setup.plan(o.model, capped).plan;
    steps.push_back({*capped.power_cap, assess(setup.predictor(), plan, fidelity, nullptr)});
  }
  rows = caps_json(steps);
  return questions[least_energy(steps)];
}

/// Rows say their framework where not all are of one; `result` has that of the estimate.
void warn_of_frameworks(const nlohmann::ordered_json& result, const Terminal& terminal) {
  auto frameworks = frameworks_of(result.at("vary"));
  if (!frameworks.empty() && !result.contains("refused")) frameworks.insert(result.at("framework").get<std::string>());
  if (const auto mixed = mixed_frameworks(frameworks); !mixed.empty()) terminal.warn(mixed);
}

/// What is asked is refused, and other values of what --vary names may not be. The setup is a new one, since one that has refused may have
/// looked for other frameworks.
int estimate_others(const EstimateOptions& o, const PlatformOptions& where, const Refusal& why, Terminal& terminal) {
  const JobSetup setup(o.model, where);
  const auto plan = where.plan.empty() ? predict::widest_replicas(setup.predictor()) : plan_argument(where.plan).plan;
  const auto fidelity = fidelity_of(o.fidelity);
  auto result = setup.heading(o.model);
  result["fidelity"] = name(fidelity);
  result["refused"] = why.what();
  if (add_variations(result, {o.model, where, setup, plan, nullptr, fidelity, o.goodput}, o.vary)) throw why;
  terminal.warn(std::string("without --vary this is refused: ") + why.what());
  warn_of_frameworks(result, terminal);
  terminal.print(result);
  return 0;
}

struct EstimateAnswer {
  AnsweredPlan plan;
  predict::Assessment assessment;
};

EstimateAnswer answer_to(const EstimateOptions& o, const PlatformOptions& where, JobSetup& setup, Fidelity fidelity) {
  auto plan = setup.plan(o.model, where);
  auto assessment = assess(setup.predictor(), plan.plan, fidelity, nullptr);
  assessment.goodput = predict::goodput_of(assessment, setup.platform_for(assessment.plan), o.goodput.question(setup.steps()));
  return {std::move(plan), std::move(assessment)};
}

int estimate(const EstimateOptions& o, Terminal& terminal) {
  const auto fidelity = fidelity_of(o.fidelity);
  o.target.require_target();
  if (o.target.given()) return estimate_target(o, fidelity, terminal);
  o.budget.require_budget();
  if (o.budget.given()) return estimate_budget(o, fidelity, terminal);
  nlohmann::ordered_json caps;
  const auto where = leaves_power_open(o.platform) ? with_best_cap(o, fidelity, caps) : o.platform;
  JobSetup setup(o.model, where);
  for (const auto& w : setup.warnings()) terminal.warn(w);
  std::optional<EstimateAnswer> answer;
  try {
    answer = answer_to(o, where, setup, fidelity);
  } catch (const Refusal& why) {
    if (o.vary.empty()) throw;
    return estimate_others(o, where, why, terminal);
  }
  const auto& [answered, assessment] = *answer;
  answered.tell(terminal);
  for (const auto& w : assessment.warnings) terminal.warn(w);
  auto result = setup.heading(o.model, &assessment);
  result["fidelity"] = name(fidelity);
  answered.tell(result);
  result.update(to_json(assessment, setup.steps()));
  if (!o.hours.empty()) result["hours"] = hours_json(o.hours, assessment, setup.steps(), setup.platform_for(assessment.plan));
  if (!caps.is_null()) result["power_caps"] = caps;
  std::optional<Refusal> none;
  if (!o.vary.empty()) none = add_variations(result, {o.model, where, setup, answered.plan, &assessment, fidelity, o.goodput}, o.vary);
  if (!o.vary.empty()) warn_of_frameworks(result, terminal);
  print_for_plan(terminal, std::move(result), assessment, remedy_of(setup.changing(assessment.plan), assessment));
  if (none) throw Refusal(std::string("every value of --vary is refused; ") + none->what());
  return 0;
}

}  // namespace

Action add_estimate(CLI::App& app) {
  auto o = std::make_shared<EstimateOptions>();
  o->model.add_to(app);
  o->platform.add_to(app);
  add_fidelity_to(app, o->fidelity);
  o->platform.input.extent.add_to(app);
  o->platform.input.add_to(app);
  o->goodput.add_to(app);
  o->budget.add_to(app);
  o->target.add_to(app);
  app.add_option("--vary", o->vary,
                 "KEY=V1,V2,... or KEY=A..B (doubling): a row for every value of a key of the plan, of the platform (link.bandwidth, "
                 "device.memory, ...; x2 is a factor), of batch, devices or nodes; may be given several times")
      ->take_all();
  app.add_option(
      "--hours", o->hours,
      "CSV with carbon:REGION (g/kWh) and price:REGION (dollars for a device and hour) for every hour: when and where a training "
      "emits and costs least (docs/energy.md)");
  return [o](Terminal& terminal) { return estimate(*o, terminal); };
}

}  // namespace rehearsal::cli
