#include <filesystem>
#include <numeric>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/atomic_file.hpp"
#include "base/error.hpp"
#include "cli/assessment_json.hpp"
#include "cli/command.hpp"
#include "cli/fidelity.hpp"
#include "cli/goodput_options.hpp"
#include "cli/plan_context.hpp"
#include "cli/platform_options.hpp"
#include "exchange/chakra/chakra.hpp"
#include "plan/collectives/exchange.hpp"
#include "plan/program/program_json.hpp"
#include "platforms/json.hpp"
#include "predict/violations.hpp"
#include "traces/build.hpp"

namespace rehearsal::cli {
namespace {

struct SimulateOptions {
  ModelOptions model;
  PlatformOptions platform;
  GoodputOptions goodput;
  std::string fidelity = "full", trace, chakra;
  std::string program;  ///< a Program's file in place of model and plan
};

/// MODEL may be a Program, which names its model.
SimulateOptions with_model_of_program(SimulateOptions o) {
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

/// The step of a stored Program, whose plan is lowered again: a file has instructions, and not what they were made from.
predict::PlayableStep stored_step(const std::string& path, const JobSetup& setup) {
  const auto heading = plan::read_program_heading(path);
  const auto* own = setup.predictor().workload_for(heading.plan);
  if (own == nullptr) throw Refusal(path + ": a stored Program is our own execution; leave --framework out or use --framework rehearse");
  if (heading.context.model_hash != own->training.hash())
    throw BadInput(path, "was made for another training of " + heading.context.model +
                             "; give the optimizer and the other flags with which it was exported");
  auto program = plan::read_program_file(path, predict::lower_or_say_all(*own, heading.plan), own->training.graph);
  try {
    plan::check_algorithms(program);
  } catch (const BadInput& error) {
    throw BadInput(path, error.what());
  }
  return setup.predictor().priced(std::move(program));
}

/// The rank of every row of the timeline: evaluators that let one replica stand for all report its stages instead of the ranks.
std::vector<int> ranks_shown(const JobSetup& setup, const Recording& recording) {
  const auto& program = recording.step.program;
  if (recording.timeline.size() != static_cast<std::size_t>(program.ranks))
    return predict::busiest_representatives(program, recording.step.costs, setup.platform_for(program.plan));
  std::vector<int> ranks(recording.timeline.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

void write_trace(const SimulateOptions& o, const JobSetup& setup, const predict::Assessment& a, const Recording& recording) {
  const auto& program = recording.step.program;
  const int threads = predict::threads_per_rank(setup.platform_for(program.plan), program.ranks);
  traces::TraceBuilder builder(program, setup.predictor().graph(), "simulated", threads);
  builder.set_costs(&recording.step.costs);
  builder.add_step({0, 0.0, a.input ? a.input->later.value : a.step.value(), 0.0, false});  // what is played is no step of a first epoch
  const auto shown = ranks_shown(setup, recording);
  for (std::size_t n = 0; n < recording.timeline.size(); ++n)
    if (!recording.timeline[n].empty()) builder.add(shown[n], 0, recording.timeline[n], 0.0);
  auto& trace = builder.trace();
  trace.model = o.model.model;
  trace.framework = a.framework;
  if (!setup.is_own()) trace.dtype = o.model.dtype;  // other frameworks' kernels narrow what the model says
  trace.platform = platforms::to_json_text(setup.platform_for(program.plan));
  if (costmodel::holds_calibration(setup.machine()))
    trace.calibration = costmodel::to_json_text(costmodel::read_calibration(setup.machine()));
  traces::write_trace(o.trace, trace);
}

std::string chakra_file(const std::string& prefix, const std::string& what) { return prefix + "." + what; }

void write_chakra(const SimulateOptions& o, const JobSetup& setup, const Recording& recording, Terminal& terminal) {
  const auto& program = recording.step.program;
  const exchange::PlayedStep played{program, setup.predictor().graph(), recording.timeline, ranks_shown(setup, recording),
                                    predict::threads_per_rank(setup.platform_for(program.plan), program.ranks)};
  const auto progress = terminal.progress("chakra");
  for (int rank = 0; rank < program.ranks; ++rank) {
    if (progress->stop_requested()) throw Error(ExitStatus::Interrupted, "--chakra: interrupted after " + std::to_string(rank) + " ranks");
    write_file_atomically(chakra_file(o.chakra, std::to_string(rank) + ".et"), exchange::chakra_trace(played, rank));
    progress->advance("ranks", rank + 1, program.ranks);
  }
  write_file_atomically(chakra_file(o.chakra, "groups.json"), exchange::chakra_groups(program));
}

/// Of --chakra: rank 0's file is PREFIX.0.et.
void require_chakra_prefix(const std::string& prefix) {
  std::error_code ignored;
  if (prefix.ends_with('/') || std::filesystem::is_directory(prefix, ignored))
    throw BadInput("--chakra " + prefix, "is a folder; give what the files' names begin with, such as " +
                                             (std::filesystem::path(prefix) / "step").lexically_normal().string());
  require_place(chakra_file(prefix, "groups.json"));
}

int simulate(const SimulateOptions& given, Terminal& terminal) {
  auto o = with_model_of_program(given);
  if (!o.program.empty() && o.platform.framework.empty()) o.platform.framework = "rehearse";
  const auto fidelity = fidelity_of(o.fidelity);
  if (!o.trace.empty()) require_place(o.trace);
  if (!o.chakra.empty()) require_chakra_prefix(o.chakra);
  JobSetup setup(o.model, o.platform);
  for (const auto& w : setup.warnings()) terminal.warn(w);
  const auto answered = o.program.empty() ? setup.plan(o.model, o.platform) : AnsweredPlan{};
  answered.tell(terminal);
  Recording recording;
  recording.step = o.program.empty() ? setup.predictor().playable(answered.plan) : stored_step(o.program, setup);
  auto assessment = assess(setup.predictor(), fidelity, recording, !o.trace.empty() || !o.chakra.empty());
  const double steps = setup.steps();
  assessment.goodput = predict::goodput_of(assessment, setup.platform_for(assessment.plan), o.goodput.question(steps));
  for (const auto& w : assessment.warnings) terminal.warn(w);
  if (!o.trace.empty()) write_trace(o, setup, assessment, recording);
  if (!o.chakra.empty()) write_chakra(o, setup, recording, terminal);
  auto result = setup.heading(o.model, &assessment);
  result["fidelity"] = name(fidelity);
  answered.tell(result);
  result.update(to_json(assessment, steps));
  result["events"] = assessment.events;
  result["wall_seconds"] = recording.wall_seconds;
  if (!o.trace.empty()) result["trace"] = o.trace;
  if (!o.chakra.empty()) result["chakra"] = chakra_file(o.chakra, "groups.json");
  print_for_plan(terminal, std::move(result), assessment, remedy_of(setup.changing(assessment.plan), assessment));
  return 0;
}

}  // namespace

Action add_simulate(CLI::App& app) {
  auto o = std::make_shared<SimulateOptions>();
  o->model.add_to(app);
  o->platform.add_to(app);
  add_fidelity_to(app, o->fidelity);
  app.add_option("--trace", o->trace, "where to write what was simulated");
  app.add_option("--chakra", o->chakra, "PREFIX: the same as Chakra execution traces, PREFIX.RANK.et of every rank and PREFIX.groups.json");
  o->platform.input.extent.add_to(app);
  o->platform.input.add_to(app);
  o->goodput.add_to(app);
  return [o](Terminal& terminal) { return simulate(*o, terminal); };
}

}  // namespace rehearsal::cli
