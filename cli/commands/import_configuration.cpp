#include <nlohmann/json.hpp>

#include "cli/importing.hpp"
#include "cli/plan_context.hpp"
#include "exchange/frameworks/plan_import.hpp"
#include "graph/optimizer.hpp"
#include "plan/plan.hpp"

namespace rehearsal::cli {
namespace {

using Json = nlohmann::ordered_json;

ModelOptions options_of(const exchange::TrainingJob& job) {
  ModelOptions options;
  options.model = job.model;
  options.batch = job.batch;
  options.dtype = job.dtype;
  options.optimizer = job.optimizer.name;
  options.hyperparameters = job.optimizer.values;
  if (job.clip_norm > 0) options.clip_norm = job.clip_norm;
  options.loss_scale = job.loss_scale;
  return options;
}

Json json_of(const exchange::ImportedJob& imported) {
  const auto& job = imported.job;
  Json result{{"model", job.model}, {"plan", plan::to_text(job.plan)}, {"ranks", job.plan.ranks()}, {"batch", job.batch}};
  result["dtype"] = job.dtype;
  result["framework"] = imported.framework;
  result["optimizer"] = {{"name", job.optimizer.name}};
  for (const auto& [name, value] : job.optimizer.values) result["optimizer"][name] = value;
  result["clip_norm"] = job.clip_norm;
  if (!job.loss_scale.empty()) result["loss_scale"] = job.loss_scale;
  result["left_out"] = Json::array();
  for (const auto& row : imported.left_out) result["left_out"].push_back({{"key", row.key}, {"reason", row.reason}});
  return result;
}

/// What asks for a prediction of the training, but for the platform.
std::string question(const exchange::ImportedJob& imported, const std::string& plan) {
  auto options = options_of(imported.job);
  const auto usual = graph::completed({options.optimizer, {}}).values;
  std::erase_if(options.hyperparameters, [&](const auto& h) { return usual.contains(h.first) && usual.at(h.first) == h.second; });
  std::string text = "rehearse estimate '" + options.model + "' --batch " + std::to_string(imported.job.batch) + " --dtype " +
                     options.dtype + " --optimizer " + optimizer_text(options);
  for (const auto& argument : arguments_of(training_words(options))) text += " " + argument;
  return text + " --framework " + imported.framework + " --plan " + plan;
}

}  // namespace

int import_configuration(const ImportCommand& o, const exchange::ImportedJob& imported, Terminal& terminal) {
  Json result{{"schema", 1}, {"file", o.file}, {"is", "configuration of " + imported.framework}};
  result.update(json_of(imported));
  if (!o.output.empty()) {
    const auto options = options_of(imported.job);
    std::vector<std::string> warnings;
    const auto training = load_training(options, warnings);
    for (const auto& warning : warnings) terminal.warn(warning);
    const auto loss = imported.job.loss.empty() ? "auto" : imported.job.loss;
    plan::write_plan_file(o.output, {imported.job.plan,
                                     {options.model,
                                      training.hash(),
                                      imported.job.batch,
                                      loss,
                                      options.dtype,
                                      optimizer_text(options),
                                      training_words(options),
                                      {{"framework", {imported.framework}}}}});
    result["output"] = o.output;
  }
  result["asked_by"] = question(imported, o.output.empty() ? plan::to_text(imported.job.plan) : o.output);
  terminal.print(result);
  return 0;
}

}  // namespace rehearsal::cli
