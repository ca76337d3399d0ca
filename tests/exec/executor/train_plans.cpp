// The ranks of one plan: train_plans STEPS TRACE-FOLDER|-|slow:SEED CASE... trains every case in turn and prints "CASE loss loss ...". Rank
// 0 writes the trace of the n-th case to TRACE-FOLDER/n.json. slow:SEED: messages are held back at random. plans_agree.cpp, sameness.cpp
// and slow_messages.cpp run it under mpirun.
#include <cstdio>
#include <iostream>
#include <string>

#include "exec/trainer.hpp"
#include "tests/exec/executor/models.hpp"
#include "traces/trace.hpp"

using namespace rehearsal;
using namespace rehearsal::exec;

namespace {

constexpr double kLongestDelay = 0.004;  ///< seconds: several passes of these models

struct Request {
  std::int64_t steps = 1;
  std::string traces = "-";
  bool record = false;
};

void train_case(Communicator& world, const sample::Case& c, const Request& request, const std::string& trace_file) {
  const auto training = sample::training_of(c);
  const auto program = sample::program_of(c, training);
  const auto backend = sample::backend_of(c);
  const Training job{program, training, world};
  Executor executor(job, backend, {});
  const auto data = synthetic_data(training, 1);
  TrainerOptions options;
  options.steps = request.steps;
  options.record = request.record;
  Progress progress;
  const auto outcome = train(executor, job, *data, options, progress);
  if (world.rank() != 0) return;
  std::printf("%s", sample::to_text(c).c_str());
  for (const double loss : outcome.losses) std::printf(" %.17g", loss);
  std::printf("\n");
  if (outcome.trace) traces::write_trace(trace_file, *outcome.trace);
}

int train_all(Communicator& world, int count, char** arguments) {
  const std::string where = arguments[2], slow = "slow:";
  const Request request{std::stoll(arguments[1]), where, where != "-" && !where.starts_with(slow)};
  if (where.starts_with(slow)) world.slow_down(std::stoull(where.substr(slow.size())), kLongestDelay);
  for (int n = 3; n < count; ++n)
    train_case(world, sample::parse_case(arguments[n]), request, request.traces + "/" + std::to_string(n - 3) + ".json");
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  MpiSession session;
  return run_as_rank(
      session, [&](Communicator& world) { return train_all(world, count, arguments); }, std::cerr);
}
