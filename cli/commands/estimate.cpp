#include <algorithm>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "cli/assessment_json.hpp"
#include "cli/command.hpp"
#include "cli/platform_options.hpp"
#include "graph/zoo/zoo.hpp"
#include "predict/frameworks/assess.hpp"
#include "predict/violations.hpp"

namespace rehearsal::cli {
namespace {

struct Options {
  ModelOptions model;
  PlatformOptions platform;
  Extent extent;
};

/// The model of the zoo with the part of its sequence that one of `ranks` context-parallel ranks holds.
std::string with_shorter_sequence(const std::string& model, int ranks) {
  if (!model.starts_with("zoo:")) throw Refusal("--plan: cp with --framework needs a model of the zoo, whose sequence can be cut");
  auto choice = graph::zoo::parse(model);
  const auto seq = choice.values.find("seq");
  if (seq == choice.values.end()) throw Refusal("--plan: cp splits sequences, and " + model + " has no parameter seq");
  if (seq->second % ranks != 0) throw Refusal("--plan: cp=" + std::to_string(ranks) + " must divide seq=" + std::to_string(seq->second));
  seq->second /= ranks;
  std::string text = "zoo:" + std::string(choice.row->name);
  char sign = '?';
  for (const auto& [key, value] : choice.values) {
    text += sign + key + "=" + std::to_string(value);
    sign = '&';
  }
  return text;
}

/// How a framework other than ours runs the job: the closed form over the forward graph of one micro-batch.
int estimate_framework(const Options& o, const costmodel::FrameworkProfile& framework, Terminal& terminal) {
  const auto platform = load_platform(o.platform);
  const auto devices = platforms::device_count(platform);
  if (!o.model.batch) throw BadInput("--batch", "is missing: the samples of one optimizer step");
  plan::Plan chosen;
  chosen.dp = static_cast<int>(std::min<std::int64_t>(devices, *o.model.batch));
  if (o.platform.plan.empty()) {
    if (!terminal.json()) terminal.warn("no --plan: data parallel over all devices");
  } else {
    chosen = plan_argument(o.platform.plan).plan;
    if (!chosen.searched.empty())
      throw BadInput("--plan " + o.platform.plan, chosen.searched.front() + "=auto is not searched with --framework; give a value");
  }
  if (chosen.ranks() > devices)
    throw BadInput("--plan " + o.platform.plan,
                   "needs " + std::to_string(chosen.ranks()) + " devices, the platform has " + std::to_string(devices));
  namespace closed = predict::frameworks;
  closed::AnalyticJob job{platform, framework, costmodel::precision_of(platforms::device_of(platform, 0), o.model.dtype),
                          closed::parallel_plan(chosen, *o.model.batch, framework), 0};
  job.plan.optimizer = o.model.optimizer;
  auto micro = o.model;
  if (chosen.cp > 1) micro.model = with_shorter_sequence(o.model.model, chosen.cp);
  micro.batch = static_cast<std::int64_t>(job.plan.micro_batch);
  const auto loaded = load_model(micro);
  for (const auto& w : loaded.warnings) terminal.warn(w);
  const auto assessment = closed::assess_analytic(loaded.graph, job, chosen);
  nlohmann::ordered_json result{
      {"schema", 1}, {"model", o.model.model}, {"platform", platform.name}, {"batch", *o.model.batch}, {"framework", framework.name}};
  result.update(to_json(assessment, steps_of(o.extent, *o.model.batch, loaded.graph)));
  print_for_plan(terminal, std::move(result), assessment);
  return 0;
}

int estimate(const Options& o, Terminal& terminal) {
  if (const auto* framework = costmodel::find_framework(o.platform.framework)) return estimate_framework(o, *framework, terminal);
  const JobSetup setup(o.model, o.platform);
  for (const auto& w : setup.warnings()) terminal.warn(w);
  const auto evaluator = predict::closed_form_evaluator();
  std::string sentence;
  const auto plan = setup.plan(o.platform, *evaluator, sentence);
  if (!sentence.empty() && !terminal.json()) terminal.warn(sentence);
  const auto job = setup.job();
  const auto program = predict::lower_or_say_all(job, plan);
  for (const auto& w : program.warnings) terminal.warn(w);
  const auto assessment = predict::assess(job, program, *evaluator, false, nullptr);
  auto result = setup.heading(o.model);
  result.update(to_json(assessment, steps_of(o.extent, setup.training().batch, setup.training().graph)));
  print_for_plan(terminal, std::move(result), assessment, remedy_of(job, assessment));
  return 0;
}

}  // namespace

Action add_estimate(CLI::App& app) {
  auto o = std::make_shared<Options>();
  o->model.add_to(app);
  o->platform.add_to(app);
  o->extent.add_to(app);
  return [o](Terminal& terminal) { return estimate(*o, terminal); };
}

}  // namespace rehearsal::cli
