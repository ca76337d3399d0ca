#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/cpu_time.hpp"
#include "base/error.hpp"
#include "base/join.hpp"
#include "base/names.hpp"
#include "cli/command.hpp"
#include "cli/commands/bench_parts.hpp"
#include "cli/commands/bench_step.hpp"
#include "cli/platform_options.hpp"
#include "exec/comm/communicator.hpp"
#include "formats/onnx/model_export.hpp"
#include "formats/onnx/model_import.hpp"
#include "formats/onnx/wire.hpp"
#include "graph/builder.hpp"
#include "graph/training.hpp"
#include "graph/zoo/zoo.hpp"
#include "predict/simulation.hpp"
#include "search/search.hpp"

namespace rehearsal::cli {
namespace {

using Json = nlohmann::ordered_json;

struct BenchOptions {
  std::string name = "all";
  ModelOptions model;
  PlatformOptions platform;
  std::int64_t steps = 5;
  bool roofline = false;
};

template <class Work>
double cpu_seconds_of(Work&& work) {
  const double begin = process_seconds();
  work();
  return process_seconds() - begin;
}

/// A file that is gone with it.
class ImportedFile {
 public:
  explicit ImportedFile(const std::string& name)
      : path_(std::filesystem::temp_directory_path() / (name + "." + std::to_string(::getpid()) + ".onnx")) {}
  ~ImportedFile() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  ImportedFile(const ImportedFile&) = delete;
  ImportedFile& operator=(const ImportedFile&) = delete;
  [[nodiscard]] std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

/// Every weight one number: writing the file is not what is measured.
graph::Graph with_constant_weights(const graph::Graph& model) {
  graph::GraphBuilder builder(model);
  for (std::size_t t = 0; t < model.tensors().size(); ++t)
    if (!model.tensors()[t].contents.known() && model.tensors()[t].producer == graph::NodeId::None)
      builder.set_contents(static_cast<graph::TensorId>(t), {model.tensors()[t].type.dtype, graph::Fill{0.01}});
  builder.keep_all();
  return std::move(builder).build();
}

void read_whole(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::vector<char> block(std::size_t{1} << 22);
  while (in.read(block.data(), static_cast<std::streamsize>(block.size())) || in.gcount() > 0) {
  }
}

struct Cost {
  double cpu_seconds = 0, peak_bytes = 0;  ///< beyond what the process had
};

double peak_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return 1024.0 * static_cast<double>(usage.ru_maxrss);
}

/// What work costs in a process of its own, so that nothing measured before counts.
template <class Work>
Cost cost_of(Work&& work) {
  int ends[2] = {};
  if (::pipe(ends) != 0) throw EnvironmentFailure("bench import: no pipe can be made");
  const pid_t child = ::fork();
  if (child < 0) throw EnvironmentFailure("bench import: no process can be made");
  if (child == 0) {
    const double before = peak_bytes();
    Cost cost;
    try {
      cost.cpu_seconds = cpu_seconds_of(work);
    } catch (const std::exception&) {
      ::_exit(1);
    }
    cost.peak_bytes = peak_bytes() - before;
    const bool told = ::write(ends[1], &cost, sizeof cost) == static_cast<ssize_t>(sizeof cost);
    ::_exit(told ? 0 : 1);
  }
  ::close(ends[1]);
  Cost cost;
  const bool told = ::read(ends[0], &cost, sizeof cost) == static_cast<ssize_t>(sizeof cost);
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  if (!told || status != 0) throw EnvironmentFailure("bench import: a measuring process failed");
  return cost;
}

/// The least of several, which is what the work costs when its files are in memory.
template <class Work>
Cost least_cost_of(Work&& work) {
  constexpr int kRepetitions = 5;
  Cost least = cost_of(work);
  for (int n = 1; n < kRepetitions; ++n) {
    const Cost cost = cost_of(work);
    if (cost.cpu_seconds < least.cpu_seconds) least = cost;
  }
  return least;
}

constexpr std::string_view kLargeModel = "zoo:gpt?layers=96&hidden=12288&heads=96&seq=2048&vocab=51200";

/// GPT-3 175B without weights: shapes of every tensor, and the whole graph of a training step with Adam.
Json bench_large_import() {
  const ImportedFile file("rehearsal-bench-large");
  (void)cost_of([&] { formats::export_onnx(graph::zoo::build(std::string(kLargeModel), 1), file.path(), {}); });
  const auto import = [&] { return formats::import_onnx(file.path(), {}); };
  const Cost shapes = least_cost_of([&] { (void)import(); });
  const Cost training = least_cost_of([&] {
    graph::TrainingOptions options;
    options.optimizer = {"adam", {}};
    (void)graph::build_training_graph(import().graph, options);
  });
  return {{"model", kLargeModel},
          {"import_seconds", shapes.cpu_seconds},
          {"import_bytes", shapes.peak_bytes},
          {"training_graph_seconds", training.cpu_seconds},
          {"training_graph_bytes", training.peak_bytes}};
}

/// A model of half a gigabyte, against reading its bytes.
Json bench_import(const BenchOptions&) {
  const ImportedFile file("rehearsal-bench");
  (void)cost_of([&] {
    formats::ExportOptions options;
    options.weights = true;
    formats::export_onnx(with_constant_weights(graph::zoo::build("zoo:vgg16", 1)), file.path(), options);
  });
  const Cost yardstick = least_cost_of([&] { read_whole(file.path()); });
  const Cost walk = least_cost_of([&] { (void)formats::without_payloads(formats::MappedFile(file.path()).bytes(), file.path()); });
  const Cost import = least_cost_of([&] { (void)formats::import_onnx(file.path(), {}); });
  return {{"file_bytes", static_cast<double>(std::filesystem::file_size(file.path()))},
          {"walk_seconds", walk.cpu_seconds},
          {"walk_bytes", walk.peak_bytes},
          {"import_seconds", import.cpu_seconds},
          {"import_bytes", import.peak_bytes},
          {"yardstick", "reading the file's bytes"},
          {"yardstick_seconds", yardstick.cpu_seconds},
          {"ratio", import.cpu_seconds / yardstick.cpu_seconds},
          {"large", bench_large_import()}};
}

Json bench_step(const BenchOptions& o) { return step_benchmark({o.model, o.steps, o.roofline}); }

JobSetup setup_of(const BenchOptions& o, std::int64_t batch) {
  auto model = o.model;
  if (!model.batch) model.batch = batch;
  return {model, o.platform};
}

/// Plans assessed, against lowering one plan after the other.
Json bench_search(const BenchOptions& o) {
  const auto setup = setup_of(o, 2048);
  auto& predictor = setup.predictor();
  Progress silent;
  search::SearchResult found;
  const double seconds = cpu_seconds_of([&] { found = search::search(predictor, {}, silent); });
  std::int64_t pruned = 0;
  for (const auto& [reason, count] : found.pruned) pruned += count;
  constexpr int kLowered = 20;
  const double lowering = cpu_seconds_of([&] {
    for (int n = 0; n < kLowered; ++n) (void)predictor.playable(found.plans.front().answer.plan);
  });
  const auto tried = static_cast<double>(found.searched + pruned);
  return {{"plans", found.searched + pruned},
          {"assessed", found.searched},
          {"search_seconds", seconds},
          {"plans_per_second", tried / seconds},
          {"yardstick", "making the Program of the best plan"},
          {"yardstick_seconds", lowering / kLowered},
          {"ratio", seconds / tried / (lowering / kLowered)}};
}

/// Events of a simulated step, against the closed form of the same Program.
Json bench_simulate(const BenchOptions& o) {
  const auto setup = setup_of(o, 512);
  auto& predictor = setup.predictor();
  plan::Plan plan;
  plan.dp = static_cast<int>(std::min<std::int64_t>(16, platforms::device_count(setup.platform())));
  const auto step = predictor.playable(plan);
  const auto simulator = predict::open_simulator("full");
  const auto closed_form = predict::closed_form_evaluator();
  const double begin = exec::now_seconds();
  const auto played = predictor.played(step, *simulator, nullptr);
  const double simulated = exec::now_seconds();
  (void)predictor.played(step, *closed_form, nullptr);
  const double closed = exec::now_seconds();
  return {{"ranks", step.program.ranks},
          {"events", played.events},
          {"simulation_seconds", simulated - begin},
          {"events_per_second", static_cast<double>(played.events) / (simulated - begin)},
          {"yardstick", "the closed form of the same program"},
          {"yardstick_seconds", closed - simulated},
          {"ratio", (simulated - begin) / (closed - simulated)}};
}

/// The closed form of GPT-3 175B on 1,024 A100s (the plan of Narayanan et al. 2021, table 1) once its graph is there, against making that.
Json bench_estimate(const BenchOptions& o) {
  auto of_gpt3 = o;
  of_gpt3.model.model = std::string(kLargeModel);
  of_gpt3.model.batch = 1536;
  of_gpt3.model.dtype = "bf16";
  of_gpt3.model.optimizer = "adam";
  of_gpt3.platform = {};
  of_gpt3.platform.platform = "dgx-a100";
  of_gpt3.platform.nodes = 128;
  of_gpt3.platform.framework = "megatron";
  const auto plan = plan::parse_plan("dp=16,tp=8,pp=8,micro_batch=1");
  std::optional<JobSetup> setup;
  const double loading = cpu_seconds_of([&] { setup.emplace(of_gpt3.model, of_gpt3.platform); });
  double step = 0;
  const double seconds = cpu_seconds_of([&] { step = setup->predictor().closed(plan).step.value(); });
  return {{"ranks", plan.ranks()},        {"step_seconds", step},
          {"estimate_seconds", seconds},  {"yardstick", "making the model's graph"},
          {"yardstick_seconds", loading}, {"ratio", seconds / loading}};
}

struct BenchRow {
  std::string_view name;
  Json (*run)(const BenchOptions&);
};
constexpr BenchRow kRows[] = {
    {"import", bench_import}, {"step", bench_step}, {"simulate", bench_simulate}, {"search", bench_search}, {"estimate", bench_estimate}};

constexpr std::string_view kAllRows = "all";

/// An option, and the benchmarks that look at it.
struct BenchOption {
  const CLI::Option* option;
  Names of;
};

std::string_view known_benchmark(const std::string& name) {
  auto names = names_of_rows(kRows, &BenchRow::name);
  names.push_back(kAllRows);
  if (const auto found = find_name(name, names)) return *found;
  throw BadInput(
      "bench " + name,
      "use import, step, simulate, search, estimate or all, or collectives, data or compression, which have options of their own");
}

/// What a benchmark does not look at is refused, never ignored.
void refuse_options_of_others(std::string_view benchmark, const std::vector<BenchOption>& options) {
  for (const auto& [option, of] : options) {
    if (option->count() == 0 || std::ranges::find(of, benchmark) != of.end()) continue;
    throw BadInput(option->get_name(), "is of " +
                                           joined(of, ", ", [](std::string_view name) { return "`bench " + std::string(name) + "`"; }) +
                                           ", not of `bench " + std::string(benchmark) + "`");
  }
}

int bench(const BenchOptions& o, const std::vector<BenchOption>& options, Terminal& terminal) {
  const auto benchmark = known_benchmark(o.name);
  refuse_options_of_others(benchmark, options);
  if (o.steps < 1) throw BadInput("--steps " + std::to_string(o.steps), "must be at least 1");
  Json result{{"schema", 1}};
  for (const auto& row : kRows)
    if (benchmark == kAllRows || benchmark == row.name) result[std::string(row.name)] = row.run(o);
  terminal.print(result);
  return 0;
}

/// A benchmark with options of its own takes none of the others'.
void refuse_options_before(const CLI::App& benchmark, const std::vector<const CLI::Option*>& of_others) {
  for (const auto* option : of_others)
    if (option->count() > 0)
      throw BadInput(option->get_name(), "is no option of `bench " + benchmark.get_name() + "`; `rehearse bench " + benchmark.get_name() +
                                             " --help` lists them");
}

/// Those of the benchmarks that share theirs.
std::vector<BenchOption> add_shared_options(CLI::App& app, BenchOptions& o) {
  const Names with_model{"step", "simulate", "search", kAllRows}, with_platform{"simulate", "search", kAllRows};
  std::vector<BenchOption> options;
  options.push_back({app.add_option("MODEL,--model", o.model.model, "of step, simulate and search"), with_model});
  options.push_back({app.add_option("--batch", o.model.batch), with_model});
  o.model.add_dtype_to(app, "f32, f64, f16 or bf16");
  options.push_back({app.get_option("--dtype"), with_model});
  options.push_back({app.add_option("--platform", o.platform.platform, "of simulate and search"), with_platform});
  options.push_back({app.add_option("--nodes", o.platform.nodes), with_platform});
  options.push_back({app.add_option("--steps", o.steps, "of step; the fastest counts"), {"step", kAllRows}});
  options.push_back({app.add_flag("--roofline", o.roofline,
                                  "of step: which instructions stay furthest below what arithmetic or memory would let them do"),
                     {"step"}});
  return options;
}

}  // namespace

Action add_bench(CLI::App& app) {
  auto o = std::make_shared<BenchOptions>();
  o->model.model = "zoo:resnet18?image=64";
  o->platform.platform = "dgx-a100";
  const auto* what = app.add_option(
      "WHAT", o->name, "import, step, simulate, search, estimate, or all; collectives, data and compression have options of their own");
  const auto shared = add_shared_options(app, *o);
  std::vector<const CLI::Option*> own{what};
  for (const auto& [option, of] : shared) own.push_back(option);
  auto* collectives = app.add_subcommand("collectives", "every algorithm over sizes, against MPI's own and against its bound");
  const Action of_collectives = add_bench_collectives(*collectives);
  auto* data = app.add_subcommand("data", "samples per second, read ahead and prepared by threads");
  data->footer("rehearse bench data --model zoo:resnet18 --steps 5");
  const Action of_data = add_bench_data(*data);
  auto* compression = app.add_subcommand("compression", "compressors of gradients, against copying the gradient");
  compression->footer("rehearse bench compression --elements 1000000 --repetitions 1");
  const Action of_compression = add_bench_compression(*compression);
  const std::vector<std::pair<const CLI::App*, Action>> with_options{
      {collectives, of_collectives}, {data, of_data}, {compression, of_compression}};
  return [o, shared, own, with_options](Terminal& terminal) {
    for (const auto& [benchmark, act] : with_options) {
      if (!benchmark->parsed()) continue;
      refuse_options_before(*benchmark, own);
      return act(terminal);
    }
    return bench(*o, shared, terminal);
  };
}

}  // namespace rehearsal::cli
