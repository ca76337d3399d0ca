#include "cli/on_this_machine.hpp"

#include <algorithm>

#include "base/cpu_time.hpp"
#include "base/error.hpp"
#include "exec/backends.hpp"
#include "exec/data/data.hpp"
#include "exec/data/values/wanted.hpp"
#include "exec/host/cpu_backend.hpp"

namespace rehearsal::cli {

CpuKernels cpu_kernels(const std::string&) { return {std::make_unique<exec::CpuBackend>("auto"), {}}; }

std::unique_ptr<plan::Backend> kernels_of(const KernelsWanted& wanted) {
  return exec::make_backend({.name = wanted.backend, .tf32 = wanted.tf32, .described = wanted.device});
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
