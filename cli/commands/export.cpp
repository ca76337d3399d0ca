#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/atomic_file.hpp"
#include "base/error.hpp"
#include "base/join.hpp"
#include "cli/command.hpp"
#include "cli/framework_rules.hpp"
#include "cli/plan_context.hpp"
#include "cli/platform_options.hpp"
#include "exchange/frameworks/plan_export.hpp"
#include "plan/plan_keys.hpp"

namespace rehearsal::cli {
namespace {

struct ExportRequest {
  std::string plan, framework, output;
  ModelOptions model;
};

/// What a training of ours can have and a configuration of another framework cannot say.
void refuse_other_training(const ModelOptions& o) {
  const auto refuse = [](const char* option) {
    throw Refusal(std::string(option) + ": no configuration that is written here can say it; train the plan with rehearse run");
  };
  if (!o.lora.empty()) refuse("--lora");
  if (!o.freeze.empty()) refuse("--freeze");
  if (!o.train.empty()) refuse("--train");
  if (o.clip_value) refuse("--clip-value");
  if (o.dropout != ModelOptions{}.dropout) refuse("--dropout");
}

/// What a plan file may bring from the training that it was searched for, and no configuration has a place for.
void refuse_own_words(const ModelOptions& o) {
  if (o.typed.contains("seed"))
    throw BadInput("--seed " + std::to_string(o.seed), "is no part of a plan: give it to the framework when it trains");
  if (o.typed.contains("target"))
    throw BadInput("--target " + o.target, "is no part of a plan: the framework's program says what its data are called; leave it out");
  if (o.typed.contains("bind"))
    throw BadInput("--bind " + o.binds.front(),
                   "no configuration that is written here names sizes of a model; write them as in zoo:gpt?seq=128, or leave it out");
}

exchange::TrainingJob export_job(ExportRequest o) {
  const auto file = plan_argument(o.plan);
  refuse_own_words(o.model);
  take_context(o.model, file.context);
  refuse_other_training(o.model);
  auto job = training_job(o.model, o.model.batch.value_or(0));
  job.plan = file.plan;
  return job;
}

int export_plan(const ExportRequest& o, Terminal& terminal) {
  const auto job = export_job(o);
  const auto text = exchange::exported(o.framework, job);
  for (const auto& sentence : plan::keys_without_effect(job.plan, job.plan.dp * job.plan.cp)) terminal.warn(sentence);
  if (!o.output.empty()) write_file_atomically(o.output, text);
  if (terminal.json())
    terminal.print(nlohmann::ordered_json{{"schema", 1}, {"for", o.framework}, {"text", text}});
  else if (o.output.empty())
    terminal.out() << text << std::flush;
  return 0;
}

}  // namespace

Action add_export(CLI::App& app) {
  auto o = std::make_shared<ExportRequest>();
  app.add_option("PLAN", o->plan, "a plan file, as search -o writes it, or compact text")->required();
  app.add_option("--for", o->framework, joined(exchange::framework_rows(), ", ", &exchange::FrameworkRow::name))->required();
  app.add_option("-o,--output", o->output, "where to write it; otherwise it is printed");
  app.add_option("--model", o->model.model, "zoo:NAME?key=value&... or hf:FOLDER/config.json, where the plan file names none");
  o->model.add_sizes_to(app);
  o->model.add_training_to(app);
  return [o](Terminal& terminal) { return export_plan(*o, terminal); };
}

}  // namespace rehearsal::cli
