// The ranks of a plan: prove_plans FOLDER CASE... trains every case, compares losses and all that is stored with the graph interpreted
// whole, and writes the trace of the n-th case to FOLDER/n.json. Rank 0 prints "CASE?" before a case and "CASE loss-difference
// stored-difference bound tensor" after it.
#include <algorithm>
#include <cstdio>
#include <iostream>
#include <string>

#include "base/error.hpp"
#include "exec/trainer.hpp"
#include "plan/program/strip.hpp"
#include "tests/exec/property/cases.hpp"
#include "tests/exec/property/reference.hpp"
#include "traces/trace.hpp"

using namespace rehearsal;
using property::Difference;

namespace {

constexpr std::uint64_t kDisturbances = 8;

/// Ten times what one unit of rounding in parameters and inputs leads to, for the ill-conditioned: what is divided by a norm near zero.
double ten_times_noise(const graph::TrainingGraph& training, property::WholeOptions options, const property::Trained& whole) {
  double most = 0;
  for (options.noise = 1; options.noise <= kDisturbances; ++options.noise) {
    const auto d = property::difference(training, property::train_whole(training, options), whole);
    most = std::max({most, d.losses, d.stored});
  }
  return 10 * most;
}

/// Sums in another order; where numbers have 16 bits, activations and gradients are rounded once more after every sum between ranks.
double strict_bound(const std::string& dtype) {
  constexpr double kRoundings = 8;
  if (dtype == "f64") return 1e-12;
  return dtype == "f32" ? 1e-5 : kRoundings * property::rounding_of(*dtype_from_name(dtype));
}

/// Of all ranks, with the name of the tensor on the rank that is farthest off.
struct Verdict {
  double losses = 0, stored = 0, bound = 0;
  std::string where;
};

/// What was trained, and how it is trained whole.
struct Proof {
  const graph::TrainingGraph& training;
  property::WholeOptions options;
  property::Trained whole;
};

Verdict agree(exec::Communicator& world, const Proof& proof, const Difference& own, double strict) {
  const auto& training = proof.training;
  Verdict v{world.max(own.losses), world.max(own.stored), strict, {}};
  const auto name = own.where == graph::TensorId::None || own.stored < v.stored ? std::string() : training.graph[own.where].name;
  for (const auto& text : world.gather(name))
    if (!text.empty()) v.where = text;
  if (std::max(v.losses, v.stored) > strict) v.bound = std::max(strict, ten_times_noise(training, proof.options, proof.whole));
  return v;
}

void prove_case(exec::Communicator& world, const property::Case& c, const std::string& trace_file) {
  if (world.rank() == 0) std::printf("%s?\n", to_text(c).c_str()), std::fflush(stdout);
  const auto training = property::training_of(c);
  auto program = property::program_of(c, training);
  plan::strip(program);
  const auto backend = property::backend_of(c);
  const exec::Training job{program, training, world};
  exec::Executor executor(job, backend, {});
  const auto data = exec::synthetic_data(training, 1);
  exec::TrainerOptions options;
  options.steps = property::steps_to_prove(program);
  options.record = trace_file[0] != '-';
  const auto outcome = exec::train(executor, job, *data, options);
  const auto& planned = program.role(world.rank()).memory;
  ensure(executor.arena_bytes() == planned.arena_bytes + planned.host_bytes, "a run allocates what its plan says");
  Proof proof{training, {options.steps, 0, property::delays_of(program), property::groups_of(program)}, {}};
  proof.whole = property::train_whole(training, proof.options);
  const auto own = property::difference(training, executor, outcome.losses, proof.whole);
  const auto verdict = agree(world, proof, own, strict_bound(c.dtype));
  if (world.rank() != 0) return;
  if (outcome.trace) traces::write_trace(trace_file, *outcome.trace);
  std::printf("%s %.3g %.3g %.3g %s\n", to_text(c).c_str(), verdict.losses, verdict.stored, verdict.bound, verdict.where.c_str());
  std::fflush(stdout);
}

}  // namespace

int main(int count, char** arguments) {
  exec::MpiSession session;
  return exec::run_as_rank(
      session,
      [&](exec::Communicator& world) {
        for (int n = 2; n < count; ++n)
          prove_case(world, property::parse_case(arguments[n]), std::string(arguments[1]) + "/" + std::to_string(n - 2) + ".json");
        return 0;
      },
      [](const std::string& sentence) { std::cerr << sentence << std::endl; });
}
