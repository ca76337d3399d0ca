#pragma once
// Plays a Program for real: one rank's slots, kernels in line, messages nonblocking and advanced between kernels.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "exec/comm/communicator.hpp"
#include "exec/data/data.hpp"
#include "exec/host/non_finite.hpp"
#include "exec/kernels/compute_backend.hpp"
#include "exec/play/kept_vectors.hpp"
#include "exec/play/stored_tensors.hpp"
#include "predict/step_cost.hpp"

namespace rehearsal::exec {

struct StepResult {
  double loss = std::numeric_limits<double>::quiet_NaN();
  bool owns_loss = false;      ///< else `loss` is another rank's to tell
  std::int64_t staleness = 0;  ///< Plan::staleness: meetings that another replica was behind when this one read the center
  bool updated = true;         ///< false: the update was left out
  double begin = 0, end = 0;   ///< steady clock
  double waited = 0;           ///< seconds of them, for other ranks
  struct Wait {
    std::uint16_t body = 0;
    std::uint32_t instruction = 0;
    double seconds = 0;
  };
  std::vector<Wait> waits;                        ///< for what this rank has begun, in parts
  std::vector<predict::TimedInstruction> played;  ///< when recording
  /// The same of messages that an earlier step of the row began and that have ended since, with its number.
  std::vector<std::pair<std::int64_t, predict::TimedInstruction>> late;
};


/// Steps that follow each other; without a flush where the plan's schedule has none.
struct StepRow {
  std::int64_t first = 0, end = 1;
};

struct StepRequest {
  StepRow row;  ///< its end may come nearer from one step to the next
  std::int64_t step = 0;
  bool record = false;  ///< keep the times of every instruction
  /// Asked before a step's first update, when this rank's passes are done; all ranks must answer alike. False: the step leaves everything
  /// as it was. Only where steps do not overlap.
  std::function<bool()> may_update = {};
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
  Executor(const Training& training, const ComputeBackend& backend, const ExecutorOptions& options);
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  /// One optimizer step, of a row that is played in order. Ranks must not wait for each other between its steps.
  StepResult step(const StepRequest& request, DataSource& data);
  StepResult step(std::int64_t step, DataSource& data);
  /// For may_update: are the numbers that the loss is computed from; with gradients: all that the update reads of the passes?
  [[nodiscard]] bool passes_are_finite(bool with_gradients);
  /// Plays the passes of a step again and looks at everything that they compute; all ranks together. Nothing stored changes.
  [[nodiscard]] std::optional<BadTensor> find_non_finite(std::int64_t step, DataSource& data);
  /// All ranks together: what replicas that train by themselves do when they meet (Plan::local_steps), between two steps.
  void meet();
  /// Moves on what is under way, for a rank that waits for something else.
  void progress();
  /// Learning rate of the steps to come, as a factor of the optimizer's.
  void set_rate(double factor);

  /// Of this rank; empty: the host.
  [[nodiscard]] std::string device() const;
  /// What carries out collectives between devices: "NCCL 2.28.9", or "host" where they go through its memory.
  [[nodiscard]] std::string collectives() const;
  /// Bytes that were allocated: the program's arena.
  [[nodiscard]] std::int64_t arena_bytes() const;
  /// Of the local block of a persistent tensor on this rank; 0 when this stage does not hold it. For checkpoints and export.
  [[nodiscard]] std::int64_t stored_bytes(graph::TensorId tensor) const;
  /// Copies that block. `age`: updates before the last one, below versions().
  void read_stored(graph::TensorId tensor, int age, std::byte* to) const;
  [[nodiscard]] std::vector<std::byte> stored(graph::TensorId tensor, int age = 0) const;
  /// Sets it, wherever this rank has it.
  void set_stored(graph::TensorId tensor, std::span<const std::byte> block, int age = 0);
  /// Versions of a stored tensor: 1, more of weights under an asynchronous schedule.
  [[nodiscard]] int versions(graph::TensorId tensor) const;
  /// Steps that were done before, and samples that they saw: the age of stored tensors and the data count from there.
  void continue_after(std::int64_t steps, std::int64_t samples);
  /// Which elements of the whole tensor that block holds, and why.
  [[nodiscard]] plan::Region stored_region(graph::TensorId tensor) const;
  [[nodiscard]] const plan::Layout& stored_layout(graph::TensorId tensor) const;
  /// A tensor that the last step computed, when the program keeps it to its end.
  [[nodiscard]] std::optional<KeptResult> result(graph::TensorId tensor) const;
  /// What this rank keeps beside the tensors.
  [[nodiscard]] const KeptVectors& kept() const;
  /// Tensors that stored() has.
  [[nodiscard]] std::vector<graph::TensorId> stored_tensors() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rehearsal::exec
