#pragma once
// Plays a Program for real: one rank's slots, kernels in line, messages nonblocking and advanced between kernels.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "exec/comm/communicator.hpp"
#include "exec/data/data.hpp"
#include "exec/kernels/cpu_backend.hpp"
#include "plan/step_cost.hpp"

namespace rehearsal::exec {

struct StepResult {
  double loss = 0;                             ///< of ranks that own it; the others NaN until shared
  double begin = 0, end = 0;                   ///< steady clock
  std::vector<plan::TimedInstruction> played;  ///< when recording
  /// The same of messages that an earlier step of the row began and that have ended since, with its number.
  std::vector<std::pair<std::int64_t, plan::TimedInstruction>> late;
};

/// Cores of this machine ÷ ranks of this job on it, at least 1.
[[nodiscard]] int threads_per_rank(const Communicator& world);

/// Steps that follow each other; without a flush where the plan's schedule has none.
struct StepRow {
  std::int64_t first = 0, end = 1;
};

struct ExecutorOptions {
  int threads = 1;
  std::uint64_t seed = 0;
};

/// What one rank trains, and with whom: everything outlives the training.
struct Training {
  const plan::Program& program;
  const graph::TrainingGraph& graph;
  Communicator& world;
};

/// One rank's memory and kernels for one Program. The training and the backend must outlive it.
class Executor {
 public:
  /// Allocates the arena, makes every kernel, sets parameters, states, constants and slots to their initial values.
  /// Throws EnvironmentFailure when memory is lacking, Refusal when a kernel cannot be made.
  Executor(const Training& training, const CpuBackend& backend, const ExecutorOptions& options);
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  /// One optimizer step. `record`: keep the times of every instruction.
  StepResult step(std::int64_t step, DataSource& data, bool record) { return step_in_row({step, step + 1}, step, data, record); }
  /// The same, as one step of a row that is played in order. Ranks must not wait for each other between its steps.
  StepResult step_in_row(const StepRow& row, std::int64_t step, DataSource& data, bool record);
  /// Learning rate of the steps to come, as a factor of the optimizer's.
  void set_rate(double factor);

  /// Bytes that were allocated: the program's arena.
  [[nodiscard]] std::int64_t arena_bytes() const;
  /// The local block of a persistent tensor on this rank; empty when this stage does not hold it. For checkpoints and export.
  /// `age`: updates before the last one, below versions().
  [[nodiscard]] std::span<std::byte> stored(graph::TensorId tensor, int age = 0);
  /// Sets it, wherever this rank has it.
  void set_stored(graph::TensorId tensor, std::span<const std::byte> block, int age = 0);
  /// Versions of a stored tensor: 1, more of weights under a schedule without a flush.
  [[nodiscard]] int versions(graph::TensorId tensor) const;
  /// Steps that were done before, and samples that they saw: the age of stored tensors and the data count from there.
  void continue_after(std::int64_t steps, std::int64_t samples);
  /// Which elements of the whole tensor that block holds, and why.
  [[nodiscard]] plan::Region stored_region(graph::TensorId tensor) const;
  [[nodiscard]] const plan::Layout& stored_layout(graph::TensorId tensor) const;
  /// A tensor that the last step computed, when the program keeps it to its end; data nullptr otherwise.
  [[nodiscard]] TensorView result(graph::TensorId tensor) const;
  /// Tensors that stored() has.
  [[nodiscard]] std::vector<graph::TensorId> stored_tensors() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rehearsal::exec
