#include "exec/calibrate.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <utility>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/atomic_file.hpp"
#include "base/error.hpp"
#include "cli/chosen_kernels.hpp"
#include "cli/command.hpp"
#include "cli/model_options.hpp"
#include "cli/on_this_machine.hpp"
#include "cli/own_ranks.hpp"
#include "cli/platform_options.hpp"
#include "exec/backends.hpp"
#include "exec/comm/communicator.hpp"
#include "exec/comm/usable_cores.hpp"
#include "exec/host/cpu_backend.hpp"
#include "exec/timed_kernels.hpp"
#include "graph/dims/dims.hpp"
#include "plan/lowering/lowering.hpp"
#include "platforms/devices.hpp"
#include "platforms/json.hpp"
#include "platforms/strict_json.hpp"
#include "platforms/usual_figures.hpp"
#include "predict/violations.hpp"

namespace rehearsal::cli {
namespace {

using Json = nlohmann::ordered_json;

struct CalibrateOptions {
  std::string output = "machine.json";
  std::string worker;  ///< file for the result of the ranks that calibrate starts itself
  bool quick = false;
  std::string storage;  ///< a folder of files as are trained on
  std::string into;     ///< a machine.json that gets that measurement alone
  std::string backend = "auto";
  ModelOptions model;     ///< whose nodes' kernels are timed; without a name: nobody's
  std::string plan;       ///< of that training
  std::size_t nodes = 0;  ///< of it that several kernels can run

  [[nodiscard]] bool of_model() const { return !model.model.empty(); }
};

constexpr exec::CalibrationBudget kThoroughGpu{240, true}, kQuickGpu{60, false};
constexpr double kStorageSeconds = 10, kQuickStorageSeconds = 4;
constexpr double kKernelSeconds = 20, kQuickKernelSeconds = 5;  // where that is enough for three runs of each kernel

exec::CalibrationBudget budget_of(const CalibrateOptions& o) { return o.quick ? exec::quick_calibration() : exec::CalibrationBudget{}; }

/// One of the ranks that were started: rank 0 writes what all measured.
int work_of_calibrate(const CalibrateOptions& o, Terminal& terminal) {
  return work_as_rank(terminal, "calibrating", [&](exec::Communicator& world, Progress& progress) {
    const auto result = exec::calibrate_together(world, budget_of(o), progress);
    if (world.rank() == 0) write_file_atomically(o.worker, exec::machine_json_text(result));
  });
}

plan::Plan plan_to_time(const CalibrateOptions& o) { return o.plan.empty() ? plan::Plan() : plan_argument(o.plan).plan; }

/// One of the ranks that train so: rank 0 writes what is quickest for all.
int time_kernels_of_model(const CalibrateOptions& o, Terminal& terminal) {
  return work_as_rank(terminal, "timing", [&](exec::Communicator& world, Progress& progress) {
    std::vector<std::string> warnings;
    const auto training = load_training(o.model, warnings);
    const exec::CpuBackend backend("auto");
    const int threads = exec::threads_per_rank(world);
    const auto nodes = exec::nodes_with_choice(training, plan_to_time(o), backend, threads);
    const auto choices = exec::timed_choices(backend, nodes, {threads, o.quick ? kQuickKernelSeconds : kKernelSeconds, &world}, progress);
    if (world.rank() == 0) write_file_atomically(o.worker, text_of_choices(choices));
  });
}

void refuse_interrupted() {
  if (interrupted()) throw EnvironmentFailure("calibrate: interrupted; nothing was written");
}

/// By as many ranks as the plan has; none where no node has several.
costmodel::KernelChoices choices_of_model(const CalibrateOptions& o, const std::string& beside) {
  constexpr double kLimitSeconds = 1200;
  if (o.nodes == 0) return {};
  const TemporaryFile partial(beside + ".kernels");
  std::vector<std::string> arguments = {"calibrate", "--worker", partial.path(), "--kernels-of", o.model.model, "--dtype", o.model.dtype};
  if (o.model.batch) arguments.insert(arguments.end(), {"--batch", std::to_string(*o.model.batch)});
  for (const auto& bind : o.model.binds) arguments.insert(arguments.end(), {"--bind", bind});
  if (!o.plan.empty()) arguments.insert(arguments.end(), {"--plan", o.plan});
  if (o.quick) arguments.emplace_back("--quick");
  try {
    start_own_ranks(arguments, kLimitSeconds, plan_to_time(o).ranks());
  } catch (const EnvironmentFailure&) {
    refuse_interrupted();  // which ends them, too
    throw;
  }
  refuse_interrupted();
  std::ifstream file(partial.path());
  return choices_of_text({std::istreambuf_iterator<char>(file), {}}, partial.path());
}

/// Finds, and says, what is wrong with that training, and how many nodes there are to be timed.
void count_nodes(CalibrateOptions& o, const Terminal& terminal) {
  std::vector<std::string> warnings;
  const auto training = load_training(o.model, warnings);
  const auto plan = plan_to_time(o);
  const exec::CpuBackend backend("auto");
  plan::LoweringOptions options;
  options.threads = std::max(1, threads_here() / plan.ranks());
  const auto faults = [&] {
    return predict::model_violations(
        {training, std::make_shared<const graph::LogicalDims>(training.graph), std::make_shared<plan::RuleBook>()}, plan);
  };
  const auto program = predict::lower_or_say_all([&] { return plan::lower(training, plan, backend, options); }, faults, plan);
  warnings.insert(warnings.end(), program.warnings.begin(), program.warnings.end());
  for (const auto& warning : warnings) terminal.warn(warning);
  o.nodes = exec::nodes_with_choice(training, plan, backend, options.threads).size();
  if (o.nodes == 0)
    terminal.say("--kernels-of " + o.model.model +
                 ": no node of its training can be run by several kernels here, so there is nothing to time");
}

/// What is wrong with asking for the kernels of a model, before anything is measured.
void check_model(CalibrateOptions& o, const Terminal& terminal) {
  if (!o.of_model()) return;
  require_kernels_for(o.model.dtype);
  if (o.model.dtype == "f64" || o.model.dtype == "tf32")
    throw BadInput("--dtype " + o.model.dtype,
                   "has no node that several kernels of processors can run; --kernels-of takes f32, bf16 or f16");
  if (o.backend != "auto") throw BadInput("--kernels-of", "times kernels of this machine's cores; leave --backend out");
  if (exec::MpiSession::launched())
    throw BadInput("--kernels-of", "starts the ranks of --plan itself; start it without mpirun, or use `rehearse run --measure-kernels`");
  const int ranks = plan_to_time(o).ranks(), cores = exec::cores_of_node();
  if (ranks > cores)
    throw BadInput("--plan " + o.plan, "has " + std::to_string(ranks) + " ranks, and this machine " + std::to_string(cores) +
                                           " cores, on which times of more ranks mean nothing");
  count_nodes(o, terminal);
  exec::refuse_debug_build();
}

/// Of the model's nodes those that did not fit into memory to be timed.
std::size_t left_out(const CalibrateOptions& o, const costmodel::KernelChoices& of_model) {
  return o.nodes - std::min(o.nodes, of_model.nodes.size());
}

/// Seconds of one run of each node, by what is chosen and by what the rules would take. `not_timed`: for want of memory.
Json choices_json(const costmodel::KernelChoices& choices, std::size_t not_timed) {
  double chosen = 0, by_rule = 0;
  std::int64_t others = 0;
  for (const auto& node : choices.nodes) {
    by_rule += node.timed.front().seconds.value();
    chosen += std::ranges::find(node.timed, node.chosen, &costmodel::TimedKernel::implementation)->seconds.value();
    others += node.chosen == node.timed.front().implementation ? 0 : 1;
  }
  Json json{{"nodes", choices.nodes.size()}, {"other_than_by_rule", others}, {"chosen_seconds", chosen}, {"by_rule_seconds", by_rule}};
  if (not_timed > 0) json["left_out"] = not_timed;
  return json;
}

Json families(const costmodel::Calibration& c) {
  auto rows = Json::array();
  for (const auto& fit : c.fits) {
    if (!fit.op.empty()) continue;
    rows.push_back({{"family", costmodel::family_name(fit.family)},
                    {"dtype", name(fit.dtype)},
                    {"threads", fit.threads},
                    {"samples", fit.samples},
                    {"residual", fit.log_error}});
  }
  return rows;
}

Json link_json(const costmodel::LinkFit& link) {
  return {{"latency_seconds", link.latency.value()},
          {"bandwidth_bytes_per_second", link.bandwidth.value()},
          {"reduction_bytes_per_second", link.reduction.value()},
          {"residual", link.log_error}};
}

Json storage_json(const platforms::NodeStorage& s) {
  Json j;
  const auto add = [&j](const char* key, const auto& figure) {
    if (figure) j[key] = figure->value.value();
  };
  add("bytes_per_second", s.bandwidth);
  add("disk_bytes_per_second", s.disk_bandwidth);
  add("disk_latency_seconds", s.disk_latency);
  add("decoding_bytes_per_second", s.decoding);
  return j;
}

void measure_storage(const CalibrateOptions& o, platforms::Platform& platform, Progress& progress) {
  if (!o.storage.empty()) exec::calibrate_storage(platform, o.storage, o.quick ? kQuickStorageSeconds : kStorageSeconds, progress);
}

/// What came of a calibration besides the measurements themselves.
struct CalibrationOutcome {
  double seconds = 0;
  std::size_t not_timed = 0;  ///< nodes of a model, for want of memory
};

Json result_of(const CalibrateOptions& o, const exec::CalibrationResult& r, const CalibrationOutcome& outcome) {
  Json context;
  for (const auto& [key, value] : r.calibration.context.items) context[key] = value;
  const auto& device = r.platform.nodes.front().device;
  Json json{{"schema", 1},
            {"written", o.output},
            {"context", context},
            {"devices", platforms::device_count(r.platform)},
            {"peak_f32_flops_per_second", device.peak("f32")->value()},
            {"memory_bytes_per_second", device.memory_bandwidth.value.value()},
            {"families", families(r.calibration)},
            {"nodes", platforms::node_count(r.platform)}};
  if (r.calibration.link.bandwidth.value() > 0) json["link"] = link_json(r.calibration.link);
  if (r.calibration.node_link) json["node_link"] = link_json(*r.calibration.node_link);
  if (!o.storage.empty()) json["storage"] = storage_json(*r.platform.nodes.front().storage);
  if (!r.calibration.choices.empty() || outcome.not_timed > 0) json["choices"] = choices_json(r.calibration.choices, outcome.not_timed);
  json["seconds"] = outcome.seconds;
  return json;
}

/// Of what no machine has: ranks that waited for other work cannot be told from slow links.
void warn_of_unusual(const platforms::Platform& platform, const Terminal& terminal) {
  for (const auto& figure : platforms::unusual_figures(platform))
    terminal.warn(figure + ": other work may have disturbed the measurement; calibrate again when the machine is quiet");
}

/// The second half of every calibration, on one rank: what needs all cores, and the file.
void finish(const CalibrateOptions& o, exec::CalibrationResult& result, double begin, Terminal& terminal, Progress& progress) {
  exec::calibrate_threads(result.calibration, budget_of(o), progress);
  const auto of_model = choices_of_model(o, o.output);
  result.calibration.choices.take(of_model);
  measure_storage(o, result.platform, progress);
  refuse_interrupted();
  write_file_atomically(o.output, exec::machine_json_text(result));
  warn_of_unusual(result.platform, terminal);
  terminal.print(result_of(o, result, {exec::now_seconds() - begin, left_out(o, of_model)}));
}

/// Says what is about to be written over: corrections speak of kernels as they were measured then, and do not fit new measurements. Returns
/// what stays: choices that were made here.
costmodel::KernelChoices prepare_output(const CalibrateOptions& o, const Terminal& terminal) {
  const auto& file = o.output;
  require_place(file);
  if (!std::filesystem::exists(file) || !costmodel::holds_calibration(file)) return {};
  const auto there = costmodel::read_calibration(file);
  const auto lessons = there.corrections.size();
  if (lessons > 0)
    terminal.warn(file + " holds " + std::to_string(lessons) +
                  " corrections that `rehearse learn` made of traces; they are lost when it is written anew: learn from the traces again, "
                  "or write another file (-o)");
  std::vector<std::string> warnings;
  auto kept = choices_to_keep(there.choices, file, warnings);
  for (const auto& warning : warnings) terminal.warn(warning);
  return kept;
}

/// What was chosen before, and over it what is chosen now.
void take_beside(costmodel::KernelChoices kept, costmodel::KernelChoices& choices) {
  kept.take(choices);
  choices = std::move(kept);
}

/// As the ranks that a launcher has started: on several nodes, with the links between them.
int calibrate_as_launched(const CalibrateOptions& o, Terminal& terminal) {
  const double begin = exec::now_seconds();
  return work_as_rank(terminal, "calibrating", [&](exec::Communicator& world, Progress& progress) {
    if (world.size() < 2)
      throw BadInput("calibrate",
                     "a launcher has started one rank, which has nobody to exchange messages with; start several, or run it alone");
    const auto kept = world.rank() == 0 ? prepare_output(o, terminal) : costmodel::KernelChoices{};
    auto result = exec::calibrate_together(world, budget_of(o), progress);
    const auto rest = [&] {
      take_beside(kept, result.calibration.choices);
      exec::leave_binding();
      finish(o, result, begin, terminal, progress);
    };
    world.wait_for_rank_0(rest, "the end of the calibration");
  });
}

/// One GPU by this process alone.
int calibrate_gpu(const CalibrateOptions& o, Terminal& terminal) {
  if (exec::MpiSession::launched()) throw BadInput("--backend " + o.backend, "measures one GPU, by one process; start it without mpirun");
  const auto lost = prepare_output(o, terminal).nodes.size();
  if (lost > 0)
    terminal.warn(o.output + " holds choices of kernels for " + std::to_string(lost) +
                  " nodes on processors: they are lost when it is written anew");
  const double begin = exec::now_seconds();
  const auto f32 = exec::make_backend({o.backend});
  if (f32->device().is_host())
    throw BadInput("--backend " + o.backend,
                   "names kernels of this machine's cores; leave --backend out to measure those, or use --backend cuda for a GPU");
  const auto* known = platforms::find_device(f32->device().name());
  const auto tf32 = known != nullptr && known->peak("tf32") ? exec::make_backend({o.backend, 0, true}) : nullptr;
  const auto progress = terminal.progress("calibrating");
  auto result = exec::calibrate_gpu({*f32, tf32.get()}, o.quick ? kQuickGpu : kThoroughGpu, *progress);
  measure_storage(o, result.platform, *progress);
  refuse_interrupted();
  write_file_atomically(o.output, exec::machine_json_text(result));
  terminal.print(result_of(o, result, {exec::now_seconds() - begin, 0}));
  return 0;
}

Json add_storage(const CalibrateOptions& o, Progress& progress) {
  auto document = Json::parse(platforms::read_json_file(o.into).dump());
  if (!document.is_object() || !document.contains("platform"))
    throw BadInput(o.into, "is no machine.json, which has a \"platform\"; rehearse calibrate writes one");
  auto platform = platforms::read_platform_file(o.into);
  measure_storage(o, platform, progress);
  document["platform"] = Json::parse(platforms::to_json_text(platform));
  write_file_atomically(o.into, document.dump(1) + '\n');
  return storage_json(*platform.nodes.front().storage);
}

/// Storage, or kernels of a model, alone: everything else in the file stays as it is.
int add_to_file(const CalibrateOptions& o, Terminal& terminal) {
  if (o.storage.empty() && !o.of_model())
    throw BadInput("--into " + o.into, "adds what --storage FOLDER or --kernels-of MODEL measures; give one of them");
  require_place(o.into);
  const double begin = exec::now_seconds();
  if (o.of_model()) require_own_file(o.into);
  Json result{{"schema", 1}, {"written", o.into}};
  if (!o.storage.empty()) result["storage"] = add_storage(o, *terminal.progress("reading"));
  const auto choices = choices_of_model(o, o.into);
  if (!choices.empty()) keep_choices(o.into, choices);
  if (o.nodes > 0) result["choices"] = choices_json(choices, left_out(o, choices));
  if (o.storage.empty() && choices.empty()) result.erase("written");
  result["seconds"] = exec::now_seconds() - begin;
  terminal.print(result);
  return 0;
}

int calibrate(CalibrateOptions& o, Terminal& terminal) {
  check_model(o, terminal);
  if (!o.into.empty() && o.backend != "auto")
    throw BadInput("--backend " + o.backend, "measures kernels, and --into adds what --storage measures alone; leave one of them out");
  if (!o.into.empty()) return add_to_file(o, terminal);
  if (!o.storage.empty() && !std::filesystem::is_directory(o.storage))
    throw BadInput("--storage " + o.storage, "is no folder; name one that holds files as you train on");
  if (o.backend != "auto") return calibrate_gpu(o, terminal);
  if (exec::MpiSession::launched()) return calibrate_as_launched(o, terminal);
  auto kept = prepare_output(o, terminal);
  const double begin = exec::now_seconds();
  const TemporaryFile partial(o.output + ".ranks");
  std::vector<std::string> arguments = {"calibrate", "--worker", partial.path()};
  if (o.quick) arguments.emplace_back("--quick");
  start_own_ranks(arguments, 3 * budget_of(o).seconds + 120);
  exec::CalibrationResult result{platforms::read_platform_file(partial.path()), costmodel::read_calibration(partial.path())};
  take_beside(std::move(kept), result.calibration.choices);
  const auto progress = terminal.progress("calibrating");
  finish(o, result, begin, terminal, *progress);
  return 0;
}

void add_model_options(CLI::App& app, CalibrateOptions& o) {
  auto* model = app.add_option("--kernels-of", o.model.model,
                               "a model whose training also says what kernels take: of the nodes that several can run, in its sizes");
  o.model.add_sizes_to(app);
  o.model.add_dtype_to(app, "of that training: f32 (default), bf16, f16");
  app.add_option("--plan", o.plan, "of that training: compact text or a plan file (one rank on all cores)");
  for (const char* option : {"--batch", "--bind", "--dtype", "--plan"}) app.get_option(option)->needs(model);
}

}  // namespace

Action add_calibrate(CLI::App& app) {
  auto o = std::make_shared<CalibrateOptions>();
  app.add_option("-o,--output", o->output, "where to write (machine.json)");
  app.add_flag("--quick", o->quick, "fewer sizes: a minute or two");
  app.add_option("--storage", o->storage, "a folder of files as are trained on: how quickly they are read and (JPEG) decoded");
  app.add_option("--into", o->into, "a machine.json that gets what --storage and --kernels-of measure, and keeps everything else");
  app.add_option("--backend", o->backend, "cuda: one NVIDIA GPU, in place of this machine's cores (auto)");
  add_model_options(app, *o);
  app.add_option("--worker", o->worker, "used by calibrate itself")->group("");
  return [o](Terminal& terminal) {
    o->backend = exec::known_backend(o->backend);
    if (o->worker.empty()) return calibrate(*o, terminal);
    return o->of_model() ? time_kernels_of_model(*o, terminal) : work_of_calibrate(*o, terminal);
  };
}

}  // namespace rehearsal::cli
