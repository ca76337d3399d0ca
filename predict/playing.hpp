#pragma once
// What closed form and simulation agree on when they play a Program: streams, dependencies, variants, and how the time of the
// rank that ends last becomes the cost of the step.

#include <functional>

#include "predict/step_cost.hpp"

namespace rehearsal::predict {

/// Messages moved by the computing cores themselves occupy the compute stream; everything that is no message runs there.
[[nodiscard]] plan::Stream stream_on(const costmodel::CostModel&, const plan::Instruction&);

/// The micro-batch in which an instruction of `slot` finds what it depends on (see Dependency).
[[nodiscard]] int micro_batch_of(const plan::Program&, const plan::Role&, const plan::Slot& slot, const plan::Dependency&);

/// Which of a buffer's shapes apply in a slot.
[[nodiscard]] std::size_t variant_in(const plan::Role&, const plan::Slot&);

/// What an instruction of the compute stream costs in a slot.
[[nodiscard]] const costmodel::Estimate& estimate_in(const RoleCosts&, const plan::Role&, const plan::Slot&, std::size_t instruction);

/// Where the step of one rank goes.
class RankAccount {
 public:
  /// An instruction that computes ran.
  void ran(const plan::Body&, const plan::Instruction&, const costmodel::Estimate&);
  /// The compute stream stood still before an instruction, for the sake of what that one waits for.
  void waited(const plan::Role&, const plan::Instruction&, double seconds);

  [[nodiscard]] double busy() const { return busy_; }
  [[nodiscard]] Breakdown breakdown(double step) const;
  [[nodiscard]] const costmodel::Total& computed() const { return computed_; }

 private:
  double busy_ = 0, for_stages_ = 0, optimizer_ = 0, loading_ = 0, again_ = 0;
  costmodel::Total computed_;
};

/// Sets step, breakdown and total of a step whose `last` rank ended `end` seconds after its begin.
void set_step(const EvaluationRequest&, const RankAccount& last, double end, StepCost&);

/// Idle power over the whole step, and the rest of the busy power while the compute stream is busy. Sets devices_energy.
void set_device_energy(const EvaluationRequest&, const std::function<double(int rank)>& busy_seconds, StepCost&);

/// One rank for every stage, in order of stages: of those of the replica with most samples the one with most to compute in rings, then the
/// one with the largest blocks.
[[nodiscard]] std::vector<int> representatives(const plan::Program&);

}  // namespace rehearsal::predict
