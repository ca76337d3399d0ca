// train_digits FILE.npz STEPS: a small network on all samples of a file of 8x8 images, by data parallelism over the ranks started.
// Prints the loss of the last step.
#include <cstdio>
#include <iostream>

#include "exec/data/npz.hpp"
#include "exec/host/cpu_backend.hpp"
#include "exec/trainer.hpp"
#include "graph/zoo/layers.hpp"
#include "plan/lowering/lowering.hpp"

using namespace rehearsal;
using namespace rehearsal::exec;

namespace {

graph::TrainingGraph network(std::int64_t batch) {
  graph::zoo::Layers layers;
  auto x = layers.builder().add_input("input", {DType::F32, {batch, 64}});
  x = layers.relu("relu", layers.linear("hidden", x, 32));
  graph::TrainingOptions options;
  options.optimizer = {"adam", {{"lr", 0.02}}};
  const auto result = layers.linear("fc", x, 10);
  return graph::build_training_graph(graph::with_initial_values(std::move(layers).finish(result, "output")), options);
}

int train_on(Communicator& world, const std::string& file, std::int64_t steps) {
  const auto training = network(read_npz(file).at("input").type.shape.front());
  const CpuBackend backend("auto");
  plan::Plan plan;
  plan.dp = world.size();
  const auto program = plan::lower(training, plan, backend, {});
  const Training job{program, training, world};
  Executor executor(job, backend, {});
  DataOptions data_options;
  data_options.sources = {file};
  const auto data = open_data(data_options, training);
  TrainerOptions options;
  options.steps = steps;
  const auto outcome = train(executor, job, *data, options);
  if (world.rank() == 0) std::printf("%.9g\n", outcome.losses.back());
  return 0;
}

}  // namespace

int main(int, char** arguments) {
  MpiSession session;
  return run_as_rank(
      session, [&](Communicator& world) { return train_on(world, arguments[1], std::stoll(arguments[2])); },
      [](const std::string& sentence) { std::cerr << sentence << std::endl; });
}
