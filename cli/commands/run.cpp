#include <chrono>
#include <filesystem>
#include <utility>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/atomic_file.hpp"
#include "base/error.hpp"
#include "base/units.hpp"
#include "cli/assessment_json.hpp"
#include "cli/chosen_kernels.hpp"
#include "cli/command.hpp"
#include "cli/evaluating.hpp"
#include "cli/extent.hpp"
#include "cli/metrics.hpp"
#include "cli/plan_context.hpp"
#include "cli/platform_options.hpp"
#include "cli/resuming.hpp"
#include "cli/run_history.hpp"
#include "cli/run_options.hpp"
#include "cli/searched_plan.hpp"
#include "cli/step_prediction.hpp"
#include "cli/training_log.hpp"
#include "cli/training_result.hpp"
#include "costmodel/framework.hpp"
#include "exec/backends.hpp"
#include "exec/bench/bench_machine.hpp"
#include "exec/checkpoint/checkpoint.hpp"
#include "exec/data/class_names.hpp"
#include "exec/trainer.hpp"
#include "formats/onnx/export_trained.hpp"
#include "formats/onnx/model_export.hpp"
#include "plan/program/strip.hpp"
#include "predict/violations.hpp"

namespace rehearsal::cli {
namespace {

using Json = nlohmann::ordered_json;

plan::Plan plan_of(const RunOptions& o, const graph::TrainingGraph& training, int ranks, std::vector<std::string>& warnings) {
  if (o.plan.empty()) {
    plan::Plan plan;
    plan.dp = ranks;
    return plan;
  }
  return plan_to_train(o.model, o.plan, training, warnings);
}

/// Of the whole training, `done` included: epochs count samples, and steps that are done may have had another batch.
std::int64_t steps_of(const RunOptions& o, const exec::DataSource& data, std::int64_t batch, const exec::CheckpointHeader& done) {
  if (o.epochs) {
    if (data.samples() == 0) throw BadInput("--epochs", "synthetic data has no end; use --steps");
    const auto left = static_cast<std::int64_t>(
        steps_of_passes(*o.epochs, static_cast<double>(data.samples()), batch, static_cast<double>(done.samples)));
    return done.step + std::max<std::int64_t>(done.step == 0 ? 1 : 0, left);
  }
  return o.steps.value_or(10);
}

/// What is evaluated on.
exec::DataOptions held_out_data(const RunOptions& o, const exec::Communicator& world) {
  return evaluated(o.data.options(o.model.seed, exec::threads_per_rank(world)), o.eval);
}

bool keeps_or_reads(const RunOptions& o) { return !o.checkpoint.empty() || !o.resume.empty(); }

/// A folder of checkpoints that this run does not go on with.
void warn_of_other_training(const RunOptions& o, std::vector<std::string>& warnings) {
  if (o.checkpoint.empty() || exec::is_checkpoint_of(o.checkpoint, o.resume)) return;
  const auto others = exec::checkpoints_in(o.checkpoint);
  if (others.empty()) return;
  warnings.push_back("--checkpoint " + o.checkpoint + ": already holds checkpoints of another training (" + others.front() +
                     (others.size() > 1 ? " and " + std::to_string(others.size() - 1) + " more" : "") +
                     "), which are kept; use --continue to go on with that training, or give this one another folder");
}

/// Under the linear rule the warm-up begins at the rate of the base batch (Goyal et al. 2017, section 2.2), else at 0.
double warmup_from(const ModelOptions& model, std::int64_t batch) {
  return model.lr_scaling == "linear" ? std::min(1.0, 1 / rate_scaling(model, batch)) : 0;
}

/// The model file with the trained weights.
void write_file(const RunOptions& o, const exec::StoredValues& values) {
  formats::TrainedValues trained;
  for (const auto& [name, value] : values) trained[name] = {value.type, value.bytes};
  formats::export_trained(o.model.model, o.trained, trained);
}

/// The model as Rehearsal understands it: of the zoo, or of a file that has no place for every weight.
void write_graph(const RunOptions& o, const exec::StoredValues& values) {
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

void write_trained(const RunOptions& o, const exec::StoredValues& values, Terminal& terminal) {
  if (is_built(o.model.model)) return write_graph(o, values);
  try {
    write_file(o, values);
  } catch (const Refusal& refusal) {
    terminal.warn(std::string(refusal.what()) + ": " + o.trained +
                  " does not have the nodes of the given file: Rehearsal wrote the model in its own form");
    write_graph(o, values);
  }
}

/// What is made of the trained weights, on one rank.
void use_trained(const RunOptions& o, const exec::StoredValues& values, exec::Communicator& world, Terminal& terminal, Json& result) {
  if (!o.eval.empty()) result["evaluation"] = to_json(evaluate_model({o.model, held_out_data(o, world), o.backend}, values, world));
  if (o.trained.empty()) return;
  write_trained(o, values, terminal);
  result["export"] = o.trained;
}

/// On what a plan is lowered.
struct Ranks {
  const exec::ComputeBackend& backend;
  const plan::LoweringOptions& options;
  int started;
};

/// Refuses with everything that is wrong with the plan for these ranks.
plan::Program lowered(const graph::TrainingGraph& training, const plan::Plan& plan, const Ranks& ranks) {
  const auto started = exec::ranks_that_started(plan.ranks(), ranks.started);
  const auto remedy = "use mpirun -n " + std::to_string(plan.ranks());
  const auto faults = [&] {
    auto violations = predict::model_violations(
        {training, std::make_shared<const graph::LogicalDims>(training.graph), std::make_shared<plan::RuleBook>()}, plan);
    if (plan.ranks() != ranks.started) violations.push_back({"ranks", started, remedy});
    return violations;
  };
  auto program = predict::lower_or_say_all([&] { return plan::lower(training, plan, ranks.backend, ranks.options); }, faults, plan);
  if (plan.ranks() != ranks.started) throw BadInput("plan " + plan::to_text(plan), started + "; " + remedy);
  if (training.noise.whole != graph::TensorId::None) exec::require_parts(program, training);
  plan::strip(program);
  return program;
}

/// By the kernels that the file says, and those that are measured now; nothing, which is said, where the user stops that.
std::optional<plan::Program> program_by_choice(const RunOptions& o, const KernelsToMeasure& job, exec::ComputeBackend& backend,
                                               const Terminal& terminal, std::vector<std::string>& warnings) {
  plan::LoweringOptions options;
  options.threads = exec::threads_per_rank(job.world);
  options.check_messages = true;
  const auto lower = [&] { return lowered(job.training, job.plan, {backend, options, job.world.size()}); };
  choose_kernels(job.machine, job.world, backend, warnings);
  auto program = lower();
  if (!o.measure_kernels) return program;
  const bool first = job.world.rank() == 0;
  const auto progress = first ? terminal.progress("timing kernels") : std::make_unique<Progress>();
  const auto measured = measure_kernels(job, backend, *progress, warnings);
  if (measured) return measured->empty() ? std::move(program) : lower();
  if (first) terminal.say("interrupted while kernels were timed: nothing of it was kept, and nothing was trained");
  return std::nullopt;
}

std::string interruption(const exec::TrainingOutcome& outcome, const RunOptions& o) {
  const auto& folder = o.checkpoint;
  const auto done = static_cast<std::int64_t>(outcome.losses.size());
  const auto place = "interrupted after step " + std::to_string(outcome.first_step - 1 + done);
  const std::string exported = o.trained.empty() ? "" : "; " + o.trained + " was not written";
  if (folder.empty()) return place + "; nothing was saved, because no --checkpoint was given" + exported;
  return place + (done > 0 ? "; saved in " + folder : "; nothing new to save in " + folder) + exported;
}

/// Beside the checkpoints, else among temporary files.
std::string last_instructions_of(const RunOptions& o) {
  auto place = o.checkpoint.empty() ? std::filesystem::temp_directory_path() / "rehearse" : std::filesystem::path(o.checkpoint);
  if (!place.has_filename()) place = place.parent_path();
  return place.string() + ".last-instructions";
}

std::string no_gain(const exec::TrainingOutcome& outcome) {
  const auto& e = outcome.evaluated;
  const auto last = outcome.first_step - 1 + static_cast<std::int64_t>(outcome.losses.size());
  return "stopped after step " + std::to_string(last) + ": " + std::to_string(e.without_gain) +
         " evaluations without gain; the lowest loss was " + loss_text(e.lowest_loss) + ", at step " + std::to_string(e.lowest_at);
}

exec::TrainerOptions trainer_options(const RunOptions& o, const exec::LearningRate& rate, int threads) {
  exec::TrainerOptions options;
  options.seed = o.model.seed;
  options.threads = threads;
  options.rate = rate;
  options.on_nan = on_nan_of(o.on_nan);
  options.record = !o.trace.empty();
  options.saving = saving_options(o);
  options.resume = o.resume;
  options.last_instructions = last_instructions_of(o);
  options.held_out.every = o.eval_every;
  options.held_out.stop_after = o.stop_after;
  options.stop_requested = interrupted;
  options.hash_as_then = [model = o.model](const exec::CheckpointHeader& header) { return hash_as_then(model, header); };
  return options;
}

/// Who watches a training.
struct Watching {
  const RunOptions& options;
  const std::optional<exec::CheckpointHeader>& header;
  const Terminal& terminal;
};

/// Trains, and says on rank 0 how far it is.
exec::TrainingOutcome watched(exec::Executor& executor, const exec::Training& job, exec::DataSource& data, exec::TrainerOptions options,
                              const Watching& watching) {
  const std::int64_t done = watching.header ? watching.header->step : 0;
  if (job.world.rank() != 0) return exec::train(executor, job, data, options);
  const auto& o = watching.options;
  const auto tokens = predict::tokens_per_sample(job.graph.graph);
  Metrics metrics({o.metrics, job.program.dtype == DType::F64, job.program.batch, tokens, !o.data.data.empty(),
                   watching.header ? std::optional(done) : std::nullopt});
  TrainingLog log(watching.terminal, {done + options.steps, job.program.batch, tokens, o.log_every});
  options.on_step = [&](const exec::StepReport& r) {
    metrics.add(r);
    log.add(r);
  };
  options.held_out.evaluate = [&](const exec::StoredValues& values) {
    return evaluate_model({o.model, held_out_data(o, job.world), o.backend}, values, job.world);
  };
  options.held_out.on_evaluation = [&](const exec::EvaluationReport& r) {
    metrics.add(r);
    log.add(r);
  };
  auto outcome = exec::train(executor, job, data, options);
  log.clear();
  if (outcome.interrupted) watching.terminal.say(interruption(outcome, o));
  for (const auto& s : outcome.stragglers) watching.terminal.say(straggler_text(s));
  if (outcome.gains_no_more) watching.terminal.say(no_gain(outcome));
  return outcome;
}

/// What must be right before anything is loaded.
void check_request(const RunOptions& o) {
  o.check_values();
  for (const auto& file : {o.trace, o.trained})
    if (!file.empty()) require_place(file);
  exec::require_data(o.data.data);
  if (o.eval.empty()) return;
  exec::require_data(o.eval);
  exec::require_same_classes(o.data.data, o.eval);
}

/// What rank 0 will compare with, where a calibration is given that has something to say of this training.
std::optional<costmodel::Interval> predicted_step(const RunOptions& o, const plan::Plan& plan, const exec::ComputeDevice& device,
                                                  const exec::Communicator& world, const Terminal& terminal) {
  if (o.machine.empty() || world.rank() != 0) return std::nullopt;
  if (o.kernels() == "reference") {
    terminal.warn("--machine " + o.machine + ": nothing is predicted: it knows the fast kernels, and the reference's are run here");
    return std::nullopt;
  }
  try {
    const auto text = of_another_machine(o.machine, device.is_host() ? "" : device.name());
    if (!text.empty()) terminal.warn(text);
    return step_on(o.model, o.machine, plan, exec::threads_per_rank(world));
  } catch (const Refusal& refusal) {
    terminal.warn("--machine " + o.machine + ": nothing is predicted: " + refusal.what());
    return std::nullopt;
  }
}

void remember(const RunOptions& o, const exec::TrainingOutcome& outcome, const plan::Program& program,
              const costmodel::Interval& predicted) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  add_to_history(history_of(o.machine),
                 {time_text(std::chrono::duration_cast<std::chrono::seconds>(now).count()), o.model.model, plan::to_text(program.plan),
                  std::string(name(program.dtype)), program.batch, program.ranks, static_cast<std::int64_t>(outcome.losses.size()),
                  predicted, static_cast<double>(program.batch) / outcome.samples_per_second, outcome.losses.back()});
}

/// What is left to do when training is over, on one rank.
struct Ending {
  const RunOptions& options;
  exec::TrainingOutcome& outcome;
  const std::optional<exec::StoredValues>& trained;  ///< where something is made of them
  const std::optional<costmodel::Interval>& predicted;
};

/// Seconds. mpirun kills an interrupted job a second after it told the ranks, the writing of a checkpoint included, and reads nothing of
/// what they print until then.
constexpr double kPatienceOfLaunchers = 0.2;

void write_results(const Ending& ending, const exec::Training& job, Terminal& terminal) {
  const auto& o = ending.options;
  auto& outcome = ending.outcome;
  auto result = result_of(outcome, job.program, terminal.json() ? kMostLosses : kMostLossesToRead);
  if (ending.trained) use_trained(o, *ending.trained, job.world, terminal, result);
  if (ending.predicted) result["predicted_step_seconds"] = to_json(*ending.predicted);
  // The first steps of a training take longer than it is predicted to take.
  if (ending.predicted && outcome.losses.size() > traces::kWarmUpSteps) remember(o, outcome, job.program, *ending.predicted);
  if (outcome.trace) {
    outcome.trace->model = o.model.model;
    outcome.trace->framework = costmodel::own_framework().name;
    if (outcome.device.empty()) outcome.trace->context.emplace_back(costmodel::kCpuItem, exec::bench::processor_name());
    traces::write_trace(o.trace, *outcome.trace);
    result["trace"] = o.trace;
  }
  if (outcome.interrupted && job.world.size() > 1) return terminal.print_within(result, kPatienceOfLaunchers / 2);
  terminal.print(result);
}

/// A job that was started again when all was done.
int nothing_left(const RunOptions& o, const exec::CheckpointHeader& header, const exec::Communicator& world, const Terminal& terminal) {
  if (world.rank() != 0) return 0;
  terminal.say("step " + std::to_string(header.step) + " is done in " + o.checkpoint + ": nothing is left to train");
  terminal.print({{"schema", 1}, {"steps", 0}, {"first_step", header.step + 1}, {"losses", Json::array()}});
  return 0;
}

/// --continue is --resume of what was saved, where something was. One rank looks: a folder may appear meanwhile.
void find_what_goes_on(RunOptions& o, exec::Communicator& world) {
  if (!o.go_on) return;
  const bool saved = world.rank() == 0 && std::filesystem::exists(o.checkpoint);
  o.go_on = world.max(saved ? 1 : 0) > 0;
  if (o.go_on) o.resume = o.checkpoint;
}

int train_as_rank(RunOptions o, exec::Communicator& world, Terminal& terminal) {
  o.take_plan();
  check_request(o);
  find_what_goes_on(o, world);
  std::vector<std::string> warnings;
  const auto training = load_training(o.model, warnings, ModelUse::Train);
  const exec::LearningRate rate(o.schedule, o.warmup, warmup_from(o.model, training.batch));
  const auto made = exec::make_backend({o.kernels(), world.local_rank(), o.model.dtype == "tf32"});
  const auto& backend = *made;
  const int threads = exec::threads_per_rank(world);
  const auto plan =
      o.plan == "auto" ? searched_plan(o, backend.device(), world, terminal) : plan_of(o, training, world.size(), warnings);
  const auto by_choice = program_by_choice(o, {training, plan, world, o.machine}, *made, terminal, warnings);
  if (!by_choice) return static_cast<int>(ExitStatus::Interrupted);
  const auto& program = *by_choice;
  warnings.insert(warnings.end(), program.warnings.begin(), program.warnings.end());
  if (auto widened = widened_text(program, training.graph); !widened.empty()) warnings.push_back(std::move(widened));
  const auto header = header_to_resume(o.resume, {program, training, world}, warnings);
  const auto data = exec::open_data(o.data.options(o.model.seed, threads), training);
  const auto steps = steps_of(o, *data, training.batch, o.go_on ? *header : exec::CheckpointHeader{}), done = header ? header->step : 0;
  const Course course{o.data, *data, rate.to_text(o.go_on ? steps : done + steps)};
  const auto as = keeps_or_reads(o) ? trained_as(o.model, course, training) : exec::TrainedAs{};
  if (header) warn_of_other_course(o.resume, *header, {program, training, world}, as, warnings);
  if (world.rank() == 0) warn_of_other_training(o, warnings);
  if (world.rank() == 0)
    for (const auto& w : warnings) terminal.warn(w);
  const auto predicted = predicted_step(o, program.plan, backend.device(), world, terminal);
  const exec::Training job{program, training, world};
  exec::Executor executor(job, backend, {threads, o.model.seed});
  auto options = trainer_options(o, rate, executor.device().empty() ? threads : 1);
  options.as = as;
  options.predicted_step = ordinary_step_seconds(program, training, threads);
  options.steps = o.go_on ? steps - done : steps;
  if (options.steps <= 0) return nothing_left(o, *header, world, terminal);
  auto outcome = watched(executor, job, *data, options, {o, header, terminal});
  world.note({.doing = exec::Doing::Ending, .since = exec::now_seconds()});
  std::optional<exec::StoredValues> trained;
  if (!outcome.interrupted && !(o.eval.empty() && o.trained.empty())) trained = exec::trained_values(executor, job);
  world.wait_for_rank_0([&] { write_results({o, outcome, trained, predicted}, job, terminal); }, "the end of the training");
  return static_cast<int>(outcome.interrupted ? ExitStatus::Interrupted : ExitStatus::Done);
}

}  // namespace

Action add_run(CLI::App& app) {
  auto o = std::make_shared<RunOptions>();
  o->add_to(app);
  return [o](Terminal& terminal) {
    install_termination_handler();
    exec::MpiSession mpi(&terminal.err());
    exec::refuse_lone_rank(mpi.world());
    const int status = exec::run_as_rank(
        mpi, [&](exec::Communicator& world) { return train_as_rank(*o, world, terminal); },
        [&](const std::string& sentence) { terminal.error(sentence); });
    // Rank 0 first: once a rank has ended with a status mpirun kills the others, and its own status is that one.
    const double last = mpi.world().rank() == 0 ? 0 : kPatienceOfLaunchers / 10;
    if (status == static_cast<int>(ExitStatus::Interrupted)) exec::MpiSession::end_within(kPatienceOfLaunchers + last, status);
    return status;
  };
}

}  // namespace rehearsal::cli
