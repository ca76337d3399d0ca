#include <chrono>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/atomic_file.hpp"
#include "base/error.hpp"
#include "cli/assessment_json.hpp"
#include "cli/command.hpp"
#include "cli/platform_options.hpp"
#include "plan/program_json.hpp"
#include "platforms/json.hpp"
#include "predict/playing.hpp"
#include "predict/simulation.hpp"
#include "predict/violations.hpp"
#include "traces/build.hpp"

namespace rehearsal::cli {
namespace {

struct Options {
  ModelOptions model;
  PlatformOptions platform;
  Extent extent;
  std::string fidelity = "full", trace;
  std::string program;  ///< a Program's file in place of model and plan
};

struct Simulated {
  plan::Program program;
  predict::StepCost cost;
  predict::Assessment assessment;
  double wall_seconds = 0;
};

std::unique_ptr<predict::StepEvaluator> evaluator_of(const std::string& fidelity) {
  if (fidelity == "closed") return predict::closed_form_evaluator();
  if (fidelity == "folded" || fidelity == "full") return predict::open_simulator(fidelity);
  throw BadInput("--fidelity " + fidelity, "use closed, folded or full");
}

/// MODEL may be a Program, which names its model.
Options with_model_of_program(Options o) {
  if (!plan::is_program_file(o.model.model)) return o;
  if (!o.platform.plan.empty()) throw BadInput("--plan", "a Program was made by a plan; leave it out, or give the model instead");
  o.program = o.model.model;
  const auto heading = plan::read_program_heading(o.program);
  if (o.model.batch && *o.model.batch != heading.context.batch)
    throw BadInput("--batch " + std::to_string(*o.model.batch), "the Program is for a batch of " + std::to_string(heading.context.batch));
  o.model.model.clear();
  take_context(o.model, heading.context);
  return o;
}

plan::Program stored_program(const std::string& path, const JobSetup& setup) {
  const auto heading = plan::read_program_heading(path);
  if (heading.context.model_hash != setup.training().graph.hash())
    throw BadInput(path, "was made for another training of " + heading.context.model +
                             "; give the optimizer and the other flags with which it was exported");
  return plan::read_program_file(path, predict::lower_or_say_all(setup.job(), heading.plan), setup.training().graph);
}

plan::Program program_of(const Options& o, const JobSetup& setup, Terminal& terminal) {
  if (!o.program.empty()) return stored_program(o.program, setup);
  const auto closed_form = predict::closed_form_evaluator();
  std::string sentence;
  const auto plan = setup.plan(o.platform, *closed_form, sentence);
  if (!sentence.empty() && !terminal.json()) terminal.warn(sentence);
  return predict::lower_or_say_all(setup.job(), plan);
}

Simulated simulate_plan(const Options& o, const JobSetup& setup, Terminal& terminal) {
  const auto evaluator = evaluator_of(o.fidelity);
  const auto job = setup.job();
  Simulated s{program_of(o, setup, terminal), {}, {}, 0};
  for (const auto& w : s.program.warnings) terminal.warn(w);
  const auto begin = std::chrono::steady_clock::now();
  s.assessment = predict::assess(job, s.program, *evaluator, !o.trace.empty(), &s.cost);
  s.wall_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return s;
}

void write_trace(const Options& o, const JobSetup& setup, const Simulated& s) {
  const int threads = predict::threads_per_rank(setup.platform(), s.program.ranks);
  const auto costs = predict::cost_of(s.program, setup.training(), setup.model(), threads);
  traces::TraceBuilder builder(s.program, setup.training(), "simulated", threads);
  builder.set_costs(&costs);
  builder.add_step({0, 0.0, s.cost.step.value(), 0.0, false});
  // Evaluators that let one replica stand for all report its stages instead of the ranks.
  const auto representatives = predict::representatives(s.program);
  const bool by_rank = s.cost.timeline.size() == static_cast<std::size_t>(s.program.ranks);
  for (std::size_t n = 0; n < s.cost.timeline.size(); ++n)
    if (!s.cost.timeline[n].empty()) builder.add(by_rank ? static_cast<int>(n) : representatives[n], 0, s.cost.timeline[n], 0.0);
  auto& trace = builder.trace();
  trace.model = o.model.model;
  trace.platform = platforms::to_json_text(setup.platform());
  if (!o.platform.machine.empty()) trace.calibration = costmodel::to_json_text(costmodel::read_calibration(o.platform.machine));
  traces::write_trace(o.trace, trace);
}

int simulate(const Options& given, Terminal& terminal) {
  const auto o = with_model_of_program(given);
  if (!o.trace.empty()) require_place(o.trace);
  const JobSetup setup(o.model, o.platform);
  for (const auto& w : setup.warnings()) terminal.warn(w);
  const auto s = simulate_plan(o, setup, terminal);
  if (!o.trace.empty()) write_trace(o, setup, s);
  auto result = setup.heading(o.model);
  result["fidelity"] = o.fidelity;
  result.update(to_json(s.assessment, steps_of(o.extent, setup.training().batch, setup.training().graph)));
  result["events"] = s.cost.events;
  result["wall_seconds"] = s.wall_seconds;
  if (!o.trace.empty()) result["trace"] = o.trace;
  print_for_plan(terminal, std::move(result), s.assessment, remedy_of(setup.job(), s.assessment));
  return 0;
}

}  // namespace

Action add_simulate(CLI::App& app) {
  auto o = std::make_shared<Options>();
  o->model.add_to(app);
  o->platform.add_to(app);
  app.add_option("--fidelity", o->fidelity, "closed (formulas), folded (one replica played), full (every rank played)");
  app.add_option("--trace", o->trace, "where to write what was simulated");
  o->extent.add_to(app);
  return [o](Terminal& terminal) { return simulate(*o, terminal); };
}

}  // namespace rehearsal::cli
