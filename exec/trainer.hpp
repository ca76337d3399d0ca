#pragma once
// Trains for real: steps of a Program on the ranks that were started, with metrics, traces and checkpoints.

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/progress.hpp"
#include "exec/executor.hpp"
#include "exec/learning_rate.hpp"
#include "traces/trace.hpp"

namespace rehearsal::exec {

struct StepReport {
  std::int64_t step = 0;  ///< 1 in the first step of a training
  double loss = 0;        ///< mean over the global batch, before the update
  double seconds = 0;     ///< of the slowest rank
  double rate = 1;        ///< factor of the optimizer's learning rate
};

struct TrainerOptions {
  std::int64_t steps = 1;
  std::uint64_t seed = 0;
  int threads = 1;
  LearningRate rate;
  bool record = false;                             ///< keep a trace of all steps
  std::string checkpoint;                          ///< folder; empty: none
  std::int64_t checkpoint_every = 0;               ///< steps; 0: at the end only
  std::string resume;                              ///< folder of a checkpoint; empty: from the beginning
  std::function<void(const StepReport&)> on_step;  ///< on rank 0
};

struct RankMemory {
  std::int64_t predicted = 0, allocated = 0, resident = 0;
};

struct TrainingOutcome {
  std::int64_t first_step = 1;
  std::vector<double> losses;          ///< of the steps of this run; on every rank
  double samples_per_second = 0;       ///< median over the steps after two warm-up steps, where there are as many
  std::vector<RankMemory> memory;      ///< by rank; on rank 0
  std::optional<traces::Trace> trace;  ///< on rank 0, when recording
};

/// Throws BadInput when the program is for another number of ranks than were started.
[[nodiscard]] TrainingOutcome train(Executor&, const Training&, DataSource&, const TrainerOptions&, Progress&);

}  // namespace rehearsal::exec
