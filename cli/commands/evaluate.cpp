#include <algorithm>
#include <chrono>
#include <optional>
#include <set>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/atomic_file.hpp"
#include "base/error.hpp"
#include "base/join.hpp"
#include "cli/command.hpp"
#include "cli/data_options.hpp"
#include "cli/evaluating.hpp"
#include "cli/resuming.hpp"
#include "exec/backends.hpp"
#include "exec/comm/communicator.hpp"

namespace rehearsal::cli {
namespace {

struct EvaluateOptions {
  ModelOptions model;
  DataFlags data;
  std::string checkpoint, outputs, backend = "auto";
};

/// A target that is named must be there; of the usual name it may be missing, and then there are outputs alone.
void require_target(const std::string& target, const exec::DataOptions& data) {
  const auto names = exec::array_names(data);
  if (target == ModelOptions().target || !names || std::ranges::find(*names, target) != names->end() || data.arrays.contains(target))
    return;
  throw BadInput("--target " + target, "is not in the data, which has " + joined(*names));
}

/// What a checkpoint gives.
struct Trained {
  exec::StoredValues values;
  std::optional<std::set<std::string>> untrained;  ///< exec::EvaluationOptions'
};

/// Takes its seed, too. Throws BadInput when it is of another model.
Trained trained_in_checkpoint(EvaluateOptions& o, const Terminal& terminal) {
  if (o.checkpoint.empty()) return {};
  Trained trained{exec::read_checkpoint(o.checkpoint), {}};
  const auto header = exec::read_checkpoint_header(o.checkpoint);
  std::vector<std::string> warnings;
  take_trained(o.model, header, o.checkpoint, warnings);
  for (const auto& w : warnings) terminal.warn(w);
  if (header.as.known()) trained.untrained.emplace(header.as.untrained.begin(), header.as.untrained.end());
  return trained;
}

/// What makes the result of no use.
void warn_of_nothing(const exec::EvaluationResult& result, const Terminal& terminal) {
  if (!result.not_finite.empty())
    terminal.warn(std::string(result.loss ? "the loss is not finite" : "outputs are no numbers") +
                  ": the first sample that makes it so is " + result.not_finite +
                  "; a value of it is no finite number, or makes none with these weights");
  if (result.ignores_all)
    terminal.warn("every label of the target is " + std::to_string(exec::kIgnoredLabel) +
                  ", which means no label: there is no loss and no accuracy");
}

int evaluate(EvaluateOptions o, exec::Communicator& world, Terminal& terminal) {
  if (o.model.dtype != "f32" && o.model.dtype != "f64")
    throw BadInput("--dtype " + o.model.dtype, "an evaluation computes in f32 or f64, in whatever type the model was trained");
  if (world.size() > 1) throw BadInput("evaluate", "runs in one process; start it without mpirun");
  if (std::ranges::find(o.data.data, "synthetic") != o.data.data.end())
    throw BadInput("--data synthetic",
                   "is random and has no end, so that neither loss nor accuracy means anything; name files (docs/data.md)");
  exec::require_data(o.data.data);
  if (!o.outputs.empty()) require_place(o.outputs);
  auto of_a_sample = o.model;
  of_a_sample.batch = o.model.batch.value_or(1);
  for (const auto& warning : load_model(of_a_sample).warnings) terminal.warn(warning);
  const auto trained = trained_in_checkpoint(o, terminal);
  const auto data = evaluated(o.data.options(o.model.seed, exec::threads_per_rank(world)), o.data.data);
  require_target(o.model.target, data);
  const auto start = std::chrono::steady_clock::now();
  const auto result = evaluate_model({o.model, data, o.backend, !o.outputs.empty(), trained.untrained}, trained.values, world);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  warn_of_nothing(result, terminal);
  nlohmann::ordered_json json{{"schema", 1}, {"model", o.model.model}};
  json.update(to_json(result));
  json["seconds"] = seconds;
  if (!o.outputs.empty()) {
    exec::write_npz(o.outputs, result.outputs);
    json["outputs"] = o.outputs;
  }
  terminal.print(json);
  return 0;
}

}  // namespace

Action add_evaluate(CLI::App& app) {
  auto o = std::make_shared<EvaluateOptions>();
  o->model.add_reference_to(app);
  app.add_option("--loss", o->model.loss, "as for run");
  app.add_option("--target", o->model.target, "name of the target in the data; without it there are outputs only");
  app.add_option("--lora", o->model.lora, "as for run, when the checkpoint is of a run with it");
  o->model.add_dtype_to(app, "f32 or f64");
  app.add_option("--seed", o->model.seed, "of weights that neither model nor checkpoint have (default: that of the checkpoint)")
      ->each([o](const std::string&) { o->model.typed.insert("seed"); });
  o->data.data.clear();  // nothing stands in for it
  app.add_option("--data", o->data.data, "samples in files, as run reads them (docs/data.md)")
      ->required()
      ->take_all()
      ->allow_extra_args(false);
  o->data.add_reading_to(app);
  app.add_option("--checkpoint", o->checkpoint, "folder of a checkpoint of run; default: the weights in the model");
  app.add_option("--outputs", o->outputs, "an .npz file to write the model's outputs to");
  app.add_option("--backend", o->backend, exec::backend_names());
  return [o](Terminal& terminal) {
    exec::MpiSession mpi(&terminal.err());
    return exec::run_as_rank(
        mpi, [&](exec::Communicator& world) { return evaluate(*o, world, terminal); },
        [&](const std::string& sentence) { terminal.error(sentence); });
  };
}

}  // namespace rehearsal::cli
