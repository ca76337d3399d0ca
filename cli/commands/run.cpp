#include <cstdio>
#include <filesystem>
#include <fstream>
#include <utility>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/atomic_file.hpp"
#include "base/error.hpp"
#include "cli/command.hpp"
#include "cli/evaluating.hpp"
#include "cli/platform_options.hpp"
#include "exec/data/npz.hpp"
#include "exec/trainer.hpp"
#include "formats/onnx/export.hpp"
#include "formats/onnx/export_trained.hpp"
#include "plan/settle.hpp"
#include "plan/violations.hpp"

namespace rehearsal::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kAsLongAsItTakes = 1e7;  ///< seconds

struct Options {
  ModelOptions model;
  std::string data = "synthetic", shuffle = "on", plan, backend = "auto", metrics, trace, checkpoint, resume, eval, trained;
  std::optional<std::int64_t> steps;
  std::optional<double> epochs;
  std::string schedule = "constant";
  std::int64_t checkpoint_every = 0, warmup = 0;
};

/// One line a step; a line is written whole, so that an interrupted run leaves what was finished.
class Metrics {
 public:
  /// A training that goes on adds to its file; another one begins it again.
  Metrics(const std::string& path, bool f64, bool goes_on) : path_(path), f64_(f64) {
    if (path.empty()) return;
    file_.open(path, goes_on ? std::ios::app : std::ios::trunc);
    if (!file_) throw BadInput("--metrics " + path, "cannot be written");
  }
  void add(const exec::StepReport& r) {
    if (path_.empty()) return;
    char line[160];
    std::snprintf(line, sizeof line, "{\"step\": %lld, \"loss\": %.*g, \"seconds\": %.6g}\n", static_cast<long long>(r.step), f64_ ? 17 : 9,
                  r.loss, r.seconds);
    file_ << line << std::flush;
    if (!file_) throw EnvironmentFailure("--metrics " + path_ + ": could not be written (is the disk full?)");
  }

 private:
  std::string path_;
  bool f64_;
  std::ofstream file_;
};

/// `rehearse run plan.json`: the plan file names the model.
void take_model_of_plan(Options& o) {
  const auto& path = o.model.model;
  if (!o.plan.empty() || !path.ends_with(".json")) return;
  const auto context = plan::read_plan_file(path).context;
  if (context.model.empty()) throw BadInput(path, "names no model; write rehearse run MODEL --plan " + path);
  o.plan = std::exchange(o.model.model, {});
  take_context(o.model, context);
}

plan::Plan plan_of(const Options& o, const graph::TrainingGraph& training, int ranks) {
  if (o.plan.empty()) {
    plan::Plan plan;
    plan.dp = ranks;
    return plan;
  }
  return plan_for(o.plan, training);
}

std::int64_t steps_of(const Options& o, const exec::DataSource& data, std::int64_t batch) {
  if (o.steps && o.epochs) throw BadInput("--steps and --epochs", "give one of them");
  if (o.epochs) {
    if (!(*o.epochs > 0)) throw BadInput("--epochs", "must be above 0");
    if (data.samples() == 0) throw BadInput("--epochs", "synthetic data has no end; use --steps");
    return std::max<std::int64_t>(1,
                                  static_cast<std::int64_t>(*o.epochs * static_cast<double>(data.samples()) / static_cast<double>(batch)));
  }
  const auto steps = o.steps.value_or(10);
  if (steps < 1) throw BadInput("--steps " + std::to_string(steps), "must be at least 1");
  return steps;
}

std::unique_ptr<exec::DataSource> data_of(const Options& o, const graph::TrainingGraph& training) {
  if (o.shuffle != "on" && o.shuffle != "off") throw BadInput("--shuffle " + o.shuffle, "use on or off");
  if (o.data == "synthetic") return exec::synthetic_data(training, o.model.seed);
  return exec::npz_data(o.data, training, {o.shuffle == "on", o.model.seed});
}

Json result_of(const exec::TrainingOutcome& outcome, const plan::Program& program) {
  Json j;
  j["schema"] = 1;
  j["plan"] = plan::to_text(program.plan);
  j["ranks"] = program.ranks;
  j["steps"] = outcome.losses.size();
  j["first_step"] = outcome.first_step;
  j["losses"] = outcome.losses;
  j["samples_per_second"] = outcome.samples_per_second;
  Json memory = Json::array();
  for (const auto& m : outcome.memory)
    memory.push_back({{"predicted_bytes", m.predicted}, {"allocated_bytes", m.allocated}, {"resident_bytes", m.resident}});
  j["memory_bytes"] = Json{{"predicted", outcome.memory.empty() ? 0 : outcome.memory[0].predicted},
                           {"allocated", outcome.memory.empty() ? 0 : outcome.memory[0].allocated},
                           {"resident", outcome.memory.empty() ? 0 : outcome.memory[0].resident},
                           {"per_rank", memory}};
  return j;
}

/// Precisions that only units of a GPU have are known to predictions alone.
void check_precision(const std::string& dtype) {
  if (dtype == "fp8" || dtype == "tf32")
    throw Refusal("--dtype " + dtype + ": no kernel here computes in it; run takes f32, f64, f16 or bf16 (estimates know " + dtype + ")");
}

/// What would otherwise be found out after the training.
void check_outputs(const Options& o) {
  if (o.checkpoint_every < 0)
    throw BadInput("--checkpoint-every " + std::to_string(o.checkpoint_every), "must be a number of steps, or 0 for the end only");
  if (o.checkpoint_every > 0 && o.checkpoint.empty()) throw BadInput("--checkpoint-every", "needs --checkpoint DIR");
  for (const auto& file : {o.trace, o.trained})
    if (!file.empty()) require_place(file);
  if (!o.eval.empty()) exec::require_npz(o.eval);
}

/// The model file with the trained weights.
void write_file(const Options& o, const exec::StoredValues& values) {
  formats::TrainedValues trained;
  for (const auto& [name, value] : values) trained[name] = {value.type, value.bytes};
  formats::export_trained(o.model.model, o.trained, trained);
}

/// The model as Rehearsal understands it: of the zoo, or of a file that has no place for every weight.
void write_graph(const Options& o, const exec::StoredValues& values) {
  const auto model = load_model(o.model).graph;
  formats::ExportOptions options;
  options.weights = true;
  options.inference = true;
  options.seed = o.model.seed;
  options.producer_version = REHEARSAL_VERSION;
  std::vector<std::byte> converted;
  options.values = [&](graph::TensorId t) -> const std::byte* {
    const auto at = values.find(model[t].name);
    if (at == values.end()) return nullptr;
    const graph::Contents contents{at->second.type.dtype,
                                   graph::InlineBytes{std::make_shared<const std::vector<std::byte>>(at->second.bytes)}};
    converted.resize(static_cast<std::size_t>(graph::size_of(model[t].type).value()));
    graph::read_into(contents, model[t].type.shape, model[t].type.dtype, {}, converted.data());
    return converted.data();
  };
  formats::export_onnx(graph::with_initial_values(model), o.trained, options);
}

void write_trained(const Options& o, const exec::StoredValues& values, Terminal& terminal) {
  if (o.model.model.starts_with("zoo:")) return write_graph(o, values);
  try {
    write_file(o, values);
  } catch (const Refusal& refusal) {
    terminal.warn(std::string(refusal.what()) + ": " + o.trained + " is not the given file with other weights, but our form of the model");
    write_graph(o, values);
  }
}

/// What is made of the trained weights: on rank 0, while the others wait as long as it takes.
void use_trained(const Options& o, const exec::Training& job, exec::Executor& executor, Terminal& terminal, Json& result) {
  if (o.eval.empty() && o.trained.empty()) return;
  auto& world = job.world;
  const auto values = exec::trained_values(executor, job);
  const double patience = world.stall_seconds();
  world.set_stall_seconds(kAsLongAsItTakes);
  if (world.rank() == 0) {
    if (!o.eval.empty()) result["evaluation"] = to_json(evaluate_model({o.model, o.eval, o.backend}, values, world));
    if (!o.trained.empty()) {
      write_trained(o, values, terminal);
      result["export"] = o.trained;
    }
  }
  world.barrier("the evaluation");
  world.set_stall_seconds(patience);
}

/// On what a plan is lowered.
struct Ranks {
  const exec::CpuBackend& backend;
  const plan::LoweringOptions& options;
  int started;
};

/// Refuses with everything that is wrong with the plan for these ranks.
plan::Program lowered(const graph::TrainingGraph& training, const plan::Plan& plan, const Ranks& ranks) {
  const std::string started = "is for " + std::to_string(plan.ranks()) + " ranks, but " + std::to_string(ranks.started) + " were started";
  const auto remedy = "use mpirun -n " + std::to_string(plan.ranks());
  const auto faults = [&] {
    auto violations = plan::model_violations(
        {training, std::make_shared<const graph::LogicalDims>(training.graph), std::make_shared<plan::RuleBook>()}, plan);
    if (plan.ranks() != ranks.started) violations.push_back({"ranks", started, remedy});
    return violations;
  };
  auto program = plan::lower_or_say_all([&] { return plan::lower(training, plan, ranks.backend, ranks.options); }, faults, plan);
  if (plan.ranks() != ranks.started) throw BadInput("plan " + plan::to_text(plan), started + "; " + remedy);
  plan::settle(program);
  return program;
}

int train_as_rank(Options o, exec::Communicator& world, Terminal& terminal) {
  take_model_of_plan(o);
  if (element_type(o.model) == DType::F16 && o.model.loss_scale.empty()) o.model.loss_scale = "dynamic";
  check_precision(o.model.dtype);
  check_outputs(o);
  const exec::LearningRate rate(o.schedule, o.warmup);
  if (o.data != "synthetic") exec::require_npz(o.data);
  std::vector<std::string> warnings;
  const auto training = load_training(o.model, warnings, Purpose::Train);
  const exec::CpuBackend backend(element_type(o.model) == DType::F64 ? "reference" : o.backend);
  plan::LoweringOptions lowering;
  lowering.threads = exec::threads_per_rank(world);
  lowering.check_messages = true;
  const auto program = lowered(training, plan_of(o, training, world.size()), {backend, lowering, world.size()});
  warnings.insert(warnings.end(), program.warnings.begin(), program.warnings.end());
  if (world.rank() == 0)
    for (const auto& w : warnings) terminal.warn(w);
  const auto data = data_of(o, training);
  const exec::Training job{program, training, world};
  exec::Executor executor(job, backend, {lowering.threads, o.model.seed});
  Metrics metrics(world.rank() == 0 ? o.metrics : "", program.dtype == DType::F64, !o.resume.empty());
  exec::TrainerOptions options;
  options.steps = steps_of(o, *data, training.batch);
  options.seed = o.model.seed;
  options.threads = lowering.threads;
  options.rate = rate;
  options.record = !o.trace.empty();
  options.checkpoint = o.checkpoint;
  options.checkpoint_every = o.checkpoint_every;
  options.resume = o.resume;
  options.on_step = [&](const exec::StepReport& r) { metrics.add(r); };
  const auto progress = world.rank() == 0 ? terminal.progress("training") : std::make_unique<Progress>();
  auto outcome = exec::train(executor, job, *data, options, *progress);
  auto result = result_of(outcome, program);
  use_trained(o, job, executor, terminal, result);
  if (world.rank() != 0) return 0;
  if (outcome.trace) {
    outcome.trace->model = o.model.model;
    traces::write_trace(o.trace, *outcome.trace);
    result["trace"] = o.trace;
  }
  terminal.print(result);
  return 0;
}

}  // namespace

Action add_run(CLI::App& app) {
  auto o = std::make_shared<Options>();
  o->model.add_to(app);
  app.add_option("--data", o->data, "an .npz file, or synthetic");
  app.add_option("--shuffle", o->shuffle, "on or off");
  app.add_option("--plan", o->plan, "compact text or a plan file; default: data parallel over the ranks started");
  app.add_option("--steps", o->steps, "optimizer steps (default 10)");
  app.add_option("--epochs", o->epochs);
  app.add_option("--schedule", o->schedule,
                 "of the learning rate: constant, step, cosine, polynomial or linear, with parameters as in step:every=30,factor=0.1");
  app.add_option("--warmup", o->warmup, "steps in which the learning rate rises to its value");
  app.add_option("--backend", o->backend, "auto, onednn or reference");
  app.add_option("--metrics", o->metrics, "JSON lines, one a step");
  app.add_option("--trace", o->trace, "where to write what was measured");
  app.add_option("--checkpoint", o->checkpoint, "folder to save to");
  app.add_option("--checkpoint-every", o->checkpoint_every, "steps between checkpoints (default: only the end)");
  app.add_option("--eval", o->eval, "an .npz file on which the trained model is evaluated");
  app.add_option("--export", o->trained, "where to write the model with its trained weights");
  app.add_option("--resume", o->resume, "folder of a checkpoint to continue from");
  return [o](Terminal& terminal) {
    exec::MpiSession mpi;
    return exec::run_as_rank(
        mpi, [&](exec::Communicator& world) { return train_as_rank(*o, world, terminal); }, terminal.err());
  };
}

}  // namespace rehearsal::cli
