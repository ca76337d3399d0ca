// The ranks of one plan: train_plans STEPS HOW CASE... trains every case in turn and prints "CASE loss loss ...". HOW is "-", or a folder
// to whose file n.json rank 0 writes the trace of the n-th case, or "slow:SEED" (messages are held back at random), or "stop:RANK:ASKED"
// (that rank wants to stop once it has been asked so often), or "optimizer:NAME" (else SGD), or "wire": "CASE bytes" is printed, what all
// ranks gave to MPI to send of collectives. The tests beside it run it under mpirun.
#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <map>
#include <mutex>
#include <string>

#include "exec/trainer.hpp"
#include "tests/exec/executor/models.hpp"
#include "traces/trace.hpp"

using namespace rehearsal;
using namespace rehearsal::exec;

namespace {

/// What this rank gave to MPI, by communicator: messages of collectives have one of their own, beside that of ranks' notes to each other.
class Sent {
 public:
  void add(MPI_Comm comm, std::int64_t bytes) {
    const std::lock_guard lock(mutex_);
    bytes_[comm] += bytes;
  }
  /// Of the communicator of most bytes.
  std::int64_t most() {
    const std::lock_guard lock(mutex_);
    std::int64_t most = 0;
    for (const auto& [comm, bytes] : bytes_) most = std::max(most, bytes);
    return most;
  }
  void forget() {
    const std::lock_guard lock(mutex_);
    bytes_.clear();
  }

 private:
  std::mutex mutex_;
  std::map<MPI_Comm, std::int64_t> bytes_;
};

Sent& sent_by_rank() {
  static Sent sent;
  return sent;
}

}  // namespace

/// In place of MPI's own, which the standard's profiling interface keeps under another name: counts what a rank sends.
extern "C" int MPI_Isend(const void* data, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm, MPI_Request* request) {
  int size = 0;
  MPI_Type_size(type, &size);
  sent_by_rank().add(comm, static_cast<std::int64_t>(count) * size);
  return PMPI_Isend(data, count, type, peer, tag, comm, request);
}

namespace {

constexpr double kLongestDelay = 0.004;  ///< seconds: several passes of these models

struct Request {
  std::int64_t steps = 1;
  std::string traces;  ///< folder; empty: none are kept
  int stopping_rank = -1;
  int asked = 0;
  bool wire = false;  ///< bytes are asked for, not losses
  std::string optimizer = "sgd";
};

/// What stands behind the words of `how`, which are separated by colons.
std::int64_t number_behind(const std::string& how, const std::string& words) { return std::stoll(how.substr(words.size())); }

void train_case(Communicator& world, const sample::Case& c, const Request& request, const std::string& trace_file) {
  const auto training = sample::training_of(c, request.optimizer);
  const auto program = sample::program_of(c, training);
  const auto backend = sample::backend_of(c);
  const Training job{program, training, world};
  Executor executor(job, backend, {});
  const auto data = synthetic_data(training, 1);
  TrainerOptions options;
  options.steps = request.steps;
  options.record = !request.traces.empty();
  options.stop_requested = [&, asked = 0]() mutable { return world.rank() == request.stopping_rank && ++asked > request.asked; };
  sent_by_rank().forget();
  const auto outcome = train(executor, job, *data, options);
  const auto sent = request.wire ? world.sum(static_cast<double>(sent_by_rank().most())) : 0;
  if (world.rank() != 0) return;
  std::printf("%s", sample::to_text(c).c_str());
  if (request.wire) std::printf(" %.0f\n", sent);
  if (request.wire) return;
  for (const double loss : outcome.losses) std::printf(" %.17g", loss);
  std::printf("\n");
  if (outcome.trace) traces::write_trace(trace_file, *outcome.trace);
}

Request request_of(const std::string& steps, const std::string& how, Communicator& world) {
  Request request;
  request.steps = std::stoll(steps);
  const std::string slow = "slow:", stop = "stop:", optimizer = "optimizer:";
  if (how.starts_with(slow)) {
    world.slow_down(static_cast<std::uint64_t>(number_behind(how, slow)), kLongestDelay);
  } else if (how.starts_with(stop)) {
    request.stopping_rank = static_cast<int>(number_behind(how, stop));
    request.asked = static_cast<int>(number_behind(how, how.substr(0, how.rfind(':') + 1)));
  } else if (how.starts_with(optimizer)) {
    request.optimizer = how.substr(optimizer.size());
  } else if (how == "wire") {
    request.wire = true;
  } else if (how != "-") {
    request.traces = how;
  }
  return request;
}

int train_all(Communicator& world, int count, char** arguments) {
  const auto request = request_of(arguments[1], arguments[2], world);
  for (int n = 3; n < count; ++n)
    train_case(world, sample::parse_case(arguments[n]), request, request.traces + "/" + std::to_string(n - 3) + ".json");
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  MpiSession session;
  return run_as_rank(
      session, [&](Communicator& world) { return train_all(world, count, arguments); },
      [](const std::string& sentence) { std::cerr << sentence << std::endl; });
}
