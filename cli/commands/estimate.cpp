#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/assessment_json.hpp"
#include "cli/command.hpp"
#include "cli/platform_options.hpp"

namespace rehearsal::cli {
namespace {

struct Options {
  ModelOptions model;
  PlatformOptions platform;
  Extent extent;
};

int estimate(const Options& o, Terminal& terminal) {
  const JobSetup setup(o.model, o.platform);
  for (const auto& w : setup.warnings()) terminal.warn(w);
  const auto evaluator = plan::closed_form_evaluator();
  std::string sentence;
  const auto plan = setup.plan(o.platform, *evaluator, sentence);
  if (!sentence.empty() && !terminal.json()) terminal.warn(sentence);
  const auto job = setup.job();
  const auto program = plan::lower_for(job, plan);
  for (const auto& w : program.warnings) terminal.warn(w);
  const auto assessment = plan::assess(job, program, *evaluator, false, nullptr);
  auto result = setup.heading(o.model);
  result.update(to_json(assessment, steps_of(o.extent, setup.training().batch)));
  print_for_plan(terminal, std::move(result), assessment);
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
