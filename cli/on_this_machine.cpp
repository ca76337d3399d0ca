#include "cli/on_this_machine.hpp"

#include <algorithm>

#include "base/cpu_time.hpp"
#include "base/error.hpp"
#include "cli/chosen_kernels.hpp"
#include "costmodel/calibration.hpp"
#include "exec/backends.hpp"
#include "exec/comm/usable_cores.hpp"
#include "exec/data/data.hpp"
#include "exec/data/values/wanted.hpp"
#include "exec/host/cpu_backend.hpp"
#include "exec/host/second_onednn.hpp"

namespace rehearsal::cli {

/// What was chosen on the machine that predictions are of, wherever they are made.
CpuKernels cpu_kernels(const std::string& machine) {
  auto backend = std::make_unique<exec::CpuBackend>("auto");
  if (!machine.empty() && costmodel::holds_calibration(machine))
    backend->choose(costmodel::read_calibration(machine).choices, place_of_choices(machine));
  return {std::move(backend), {}};
}

std::unique_ptr<plan::Backend> kernels_of(const KernelsWanted& wanted, std::vector<std::string>& warnings) {
  const auto& machine = wanted.machine;
  if (!machine.empty()) require_several_kernels("--machine " + machine, exec::known_backend(wanted.backend));
  auto backend = exec::make_backend({.name = wanted.backend, .tf32 = wanted.tf32, .described = wanted.device});
  if (!machine.empty())
    backend->choose(choices_for_here(costmodel::read_calibration(machine).choices, machine, warnings), place_of_choices(machine));
  if (backend->name() == "onednn" && !exec::second_onednn().trouble.empty()) warnings.push_back(exec::second_onednn().trouble);
  return backend;
}

int threads_here() {
  const int asked = exec::threads_asked_for();
  return asked > 0 ? asked : exec::usable_cores();
}

std::string kernels_here_names() { return exec::backend_names(); }

predict::DatasetFacts facts_of(const DataFlags& flags, const ModelOptions& model) {
  constexpr std::int64_t kMostRead = 64;
  std::vector<std::string> warnings;
  const auto training = load_training(model, warnings);
  auto alone = flags.options(model.seed, 0);
  alone.threads = 0;
  predict::DatasetFacts facts;
  facts.samples = static_cast<double>(exec::samples_of(alone, training));
  if (facts.samples == 0) throw BadInput("--data", "synthetic samples come from nowhere; name files, or describe them with --dataset");
  const auto source = exec::open_data(alone, training);
  const auto read = std::min(kMostRead, training.batch);
  double worked = 0;
  std::vector<std::byte> to;
  for (const auto& wanted : exec::wanted_of(training, alone.arrays)) {
    auto type = wanted.type;
    type.shape.front() = read;
    to.resize(std::max(to.size(), static_cast<std::size_t>(graph::size_of(type).value())));
    const double begin = thread_seconds();
    source->read({wanted.input, type, 0, read}, to.data());
    worked += thread_seconds() - begin;
  }
  facts.stored = Bytes(static_cast<double>(source->figures().bytes) / static_cast<double>(read));
  facts.work = platforms::Sourced<Seconds>(Seconds(worked / static_cast<double>(read)),
                                           "measured on this machine with " + std::to_string(read) + " samples of " + flags.data.front());
  return facts;
}

std::optional<int> reading_threads(const DataFlags& flags) {
  const int threads = flags.options(0, 0).threads;
  return flags.threads ? std::optional(threads) : std::nullopt;
}

}  // namespace rehearsal::cli
