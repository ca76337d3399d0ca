#pragma once
// The time of a framework's step in closed form: the passes of a chunk are one term each of a max-plus system (Baccelli et al.,
// Synchronization and Linearity, 1992), in which host, device and messages wait for each other as they do when the Program is played
// kernel by kernel; repeated blocks and micro-batches are powers of it.

#include "costmodel/power.hpp"
#include "predict/frameworks/staged_step.hpp"

namespace rehearsal::predict::frameworks {

/// Seconds of one step and what they are made of, on the stage that the others wait for.
struct StepTime {
  double seconds = 0;
  int stage = 0;
  int first_rank = 0;    ///< on the first stage, of the replicas that the others wait for
  double imbalance = 0;  ///< that this stage computes more than all ranks do in the mean
  double bubble = 0;     ///< waiting for other stages that have not sent yet
  double exposed = 0;    ///< exchanges within passes, and waiting for gradients, parameters and messages that are on their way
  double handovers = 0;  ///< of `exposed`, waiting for messages from other stages that are on their way
  double recompute = 0;
  double optimizer = 0;
  double coordination = 0;
  double forward = 0, backward = 0;           ///< of one micro-batch through one stage, recomputation in the backward pass
  double exchanges = 0;                       ///< of `exposed`, within passes
  double matrix_share = 0, memory_share = 0;  ///< of the step on all stages: arithmetic, element-wise traffic
  double busy = 0;                            ///< its kernels, exchanges within passes left out
  double host_lead = 0;                       ///< seconds that the host is through with its passes before the device
};

[[nodiscard]] StepTime closed_step(const StagedStep&);
/// Seconds of a step that a rank spends in arithmetic and in bytes of element-wise kernels at the device's own clock.
struct ActiveSeconds {
  double matrix = 0, memory = 0;
  /// As shares of a step of so long.
  [[nodiscard]] costmodel::Activity of(double seconds) const { return {std::min(1.0, matrix / seconds), std::min(1.0, memory / seconds)}; }
};
/// By stage, of replicas of one kind.
[[nodiscard]] std::vector<ActiveSeconds> active_seconds(const StagedStep&, const ReplicaKind&);
/// The ranks on one kind of device.
struct DeviceWork {
  std::size_t group = 0;  ///< of nodes
  double ranks = 0;
  ActiveSeconds busy;  ///< of one of them, in the mean
};
/// By group of nodes, of those that the plan uses.
[[nodiscard]] std::vector<DeviceWork> work_of_devices(const StagedStep&);
/// Sets what the passes of `time.stage` are made of, whatever they wait for, in a step of so long.
void add_contents(const StagedStep&, StepTime& time);

}  // namespace rehearsal::predict::frameworks
