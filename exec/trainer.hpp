#pragma once
// Trains for real: steps of a Program on the ranks that were started, with metrics, traces and checkpoints.

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "exec/checkpoint/saving.hpp"
#include "exec/energy.hpp"
#include "exec/held_out.hpp"
#include "exec/learning_rate.hpp"
#include "exec/noise_scale.hpp"
#include "exec/play/executor.hpp"
#include "exec/play/waiting.hpp"
#include "traces/trace.hpp"

namespace rehearsal::exec {

struct StepReport {
  std::int64_t step = 0;                       ///< 1 in the first step of a training
  double loss = 0;                             ///< mean over the global batch, before the update; NaN when the step was left out, too
  double seconds = 0;                          ///< of the slowest rank
  double rate = 1;                             ///< factor of the optimizer's learning rate
  std::optional<std::int64_t> staleness = {};  ///< Plan::staleness: the most meetings that one replica was behind another
  DataFigures data = {};                       ///< bytes of all ranks; seconds of the rank that waited longest
  std::optional<Joules> energy = {};           ///< of all nodes, where each has counters; since the step before
  std::optional<GradientNoise> noise = {};     ///< where it is measured and the step was not left out
  std::vector<SampleNorm> sample_norms = {};   ///< of the batch, in its order; where noise is measured and every part of it is one sample
};

/// What becomes of a step whose loss is not finite.
enum class OnNan : std::uint8_t {
  Stop,  ///< the training ends, its weights as they were before the step
  Skip,  ///< the step leaves everything as it was, as does one with gradients that are not finite
  Go,    ///< on
};

struct TrainerOptions {
  std::int64_t steps = 1;
  std::uint64_t seed = 0;
  int threads = 1;
  LearningRate rate;
  OnNan on_nan = OnNan::Stop;
  bool record = false;  ///< keep a trace of all steps
  SavingOptions saving;
  TrainedAs as;        ///< for its checkpoints
  std::string resume;  ///< folder of a checkpoint; empty: from the beginning
  HeldOutOptions held_out;
  double predicted_step = 0;  ///< seconds
  std::string energy_counters = "/sys/class/powercap";
  std::string last_instructions;  ///< begin of a file's name, for what the ranks did last when the training fails; empty: none
  std::function<void(const StepReport&)> on_step;  ///< on rank 0
  std::function<bool()> stop_requested;            ///< of this rank: the step ends, a checkpoint is written, and that was it
  /// The hash of the same model and training with the batch and the optimizer's numbers of a checkpoint.
  std::function<std::string(const CheckpointHeader&)> hash_as_then;
};

struct ResidentMemory {
  std::int64_t predicted = 0, allocated = 0, resident = 0;
};

struct TrainingOutcome {
  std::int64_t first_step = 1;
  std::vector<double> losses;  ///< of the steps of this run; on every rank
  std::int64_t skipped = 0;    ///< steps that were left out
  bool interrupted = false;    ///< by stop_requested, behind the last of these steps
  bool gains_no_more = false;  ///< ended by HeldOutOptions::stop_after
  EvaluatedSoFar evaluated;    ///< of this training and what it goes on with
  /// By the median over the steps behind traces::kWarmUpSteps, where there are any; on rank 0, when recording, as the trace has them.
  double samples_per_second = 0;
  std::string device;                  ///< of this rank; empty: the host
  std::string collectives;             ///< what carries them out between devices: "NCCL 2.28.9", "host"
  std::vector<Straggler> stragglers;   ///< on rank 0
  std::vector<ResidentMemory> memory;  ///< by rank; on rank 0
  std::optional<Joules> energy;        ///< of all nodes, in these steps; on every rank
  std::optional<NoiseResult> noise;    ///< where it is measured
  std::string energy_absence;          ///< why there is none; on rank 0
  std::optional<traces::Trace> trace;  ///< on rank 0, when recording
};

/// "is for 4 ranks, but 1 was started"
[[nodiscard]] std::string ranks_that_started(int wanted, int started);

/// Throws BadInput when the program is for another number of ranks than were started, Refusal naming step and tensor when a loss or a
/// trained weight is not finite and on_nan says stop.
[[nodiscard]] TrainingOutcome train(Executor&, const Training&, DataSource&, const TrainerOptions&);

}  // namespace rehearsal::exec
