// How fast samples can be had, with nothing that uses them.
#include <algorithm>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/cpu_time.hpp"
#include "base/error.hpp"
#include "cli/commands/bench_parts.hpp"
#include "cli/data_options.hpp"
#include "cli/model_options.hpp"
#include "exec/comm/communicator.hpp"
#include "exec/comm/usable_cores.hpp"
#include "exec/data/data.hpp"
#include "exec/data/values/wanted.hpp"

namespace rehearsal::cli {
namespace {

struct BenchDataOptions {
  ModelOptions model;
  DataFlags data;
  std::int64_t steps = 30;
};

struct Speed {
  double samples_per_second = 0, bytes_per_second = 0, processor_seconds_per_sample = 0;
};

/// Every input of the model, step by step, as a training of one rank reads them.
Speed speed_of(const exec::DataOptions& options, const graph::TrainingGraph& training, std::int64_t steps) {
  const auto data = exec::open_data(options, training);
  const auto wanted = exec::wanted_of(training, options.arrays);
  std::vector<std::byte> to;
  const auto step = [&](std::int64_t n) {
    for (const auto& w : wanted) {
      to.resize(std::max(to.size(), static_cast<std::size_t>(graph::size_of(w.type).value())));
      data->read({w.input, w.type, n * training.batch, training.batch}, to.data());
    }
  };
  step(0);
  const auto before = data->figures().bytes;
  const double begin = exec::now_seconds(), worked = process_seconds();
  for (std::int64_t n = 1; n <= steps; ++n) step(n);
  const double seconds = exec::now_seconds() - begin, samples = static_cast<double>(steps * training.batch);
  return {samples / seconds, static_cast<double>(data->figures().bytes - before) / seconds, (process_seconds() - worked) / samples};
}

int bench_data(const BenchDataOptions& o, Terminal& terminal) {
  if (o.steps < 1) throw BadInput("--steps " + std::to_string(o.steps), "must be at least 1");
  auto model = o.model;
  if (!model.batch) model.batch = 32;
  std::vector<std::string> warnings;
  const auto training = load_training(model, warnings);
  const auto cores = exec::usable_cores();
  const auto options = o.data.options(o.model.seed, cores);
  const auto found = speed_of(options, training, o.steps);
  auto alone = options;
  alone.threads = 0;
  const auto yardstick = speed_of(alone, training, std::max<std::int64_t>(1, o.steps / 4));
  terminal.print({{"schema", 1},
                  {"model", model.model},
                  {"batch", training.batch},
                  {"threads", options.threads},
                  {"samples_per_second", found.samples_per_second},
                  {"read_bytes_per_second", found.bytes_per_second},
                  {"processor_seconds_per_sample", found.processor_seconds_per_sample},
                  {"yardstick", "one thread that reads nothing ahead"},
                  {"yardstick_samples_per_second", yardstick.samples_per_second},
                  {"ratio", found.samples_per_second / yardstick.samples_per_second}});
  return 0;
}

}  // namespace

Action add_bench_data(CLI::App& data) {
  auto o = std::make_shared<BenchDataOptions>();
  o->model.model = "zoo:resnet18";
  data.add_option("MODEL,--model", o->model.model, "what samples are for (default zoo:resnet18)");
  data.add_option("--batch", o->model.batch, "samples of a step (default 32)");
  data.add_option("--target", o->model.target, "name of the target in the data");
  o->model.add_dtype_to(data, "f32, f64, f16 or bf16");
  data.add_option("--seed", o->model.seed);
  data.add_option("--steps", o->steps, "that are timed");
  o->data.add_to(data);
  return [o](Terminal& terminal) { return bench_data(*o, terminal); };
}

}  // namespace rehearsal::cli
