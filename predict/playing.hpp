#pragma once
// What closed form and simulation agree on when they play a Program: streams, dependencies, variants, and how the time of the
// rank that ends last becomes the cost of the step.

#include <algorithm>
#include <functional>
#include <span>

#include "predict/step_cost.hpp"

namespace rehearsal::predict {

/// Messages moved by the computing cores themselves occupy the compute stream; everything that is no message runs there.
[[nodiscard]] plan::Stream stream_on(const costmodel::CostModel&, const plan::Instruction&);

/// Which of a buffer's shapes apply in a slot.
[[nodiscard]] std::size_t variant_in(const plan::Role&, const plan::Slot&);

/// What an instruction of the compute stream costs in a slot.
[[nodiscard]] const costmodel::Estimate& estimate_in(const RoleCosts&, const plan::Role&, const plan::Slot&, std::size_t instruction);

/// A kernel or a collective on the compute stream: when it ran, and when the host issued it.
struct Launched {
  double begin = 0, end = 0;
  double issue_begin = 0, issue_end = 0;
};

/// The host of one rank, which issues what its compute stream runs and does not wait for it.
class HostClock {
 public:
  explicit HostClock(double interference) : interference_(interference) {}
  /// Issues `q`, which can begin at `ready`; until `messages_until` collectives run beside it.
  [[nodiscard]] Launched launch(const costmodel::LaunchQueue& q, double ready, double messages_until);
  /// The host stands still until a message is here.
  void wait(double until) { free_ = std::max(free_, until); }

 private:
  double interference_, free_ = 0;
};

/// What an instruction of the compute stream takes from host and device.
[[nodiscard]] costmodel::LaunchQueue launch_of(const RoleCosts&, const plan::Role&, const plan::Slot&, std::size_t instruction);

/// When the samples of a rank's steps are there. Of ranks behind the first stage: at once.
class SampleClock {
 public:
  SampleClock(const EvaluationRequest&, const plan::Role&);
  /// When what would begin at `ready` in a slot can, and the loaders' share of the cores has been taken once for every step.
  [[nodiscard]] double begin(const plan::Slot&, double ready);

 private:
  double every_ = 0, beside_ = 0;  ///< as the instructions' times: without the factor of their composition
  const plan::Role* role_;
  int micro_batches_, prepared_ = 0;  ///< steps
};

/// Spans of time, joined where they meet.
class JoinedSpans {
 public:
  void add(double begin, double end);
  [[nodiscard]] double covered() const;

 private:
  struct Span {
    double begin = 0, end = 0;
  };
  std::vector<Span> spans_;  ///< in order of time
};

/// Where the step of one rank goes.
class RankAccount {
 public:
  /// An instruction that computes ran.
  void ran(const plan::Body&, const plan::Instruction&, const costmodel::Estimate&);
  /// The compute stream stood still until the host had issued a kernel.
  void idled(double from, double until);
  /// The compute stream stood still until the samples of a step were there, or its cores prepared them.
  void waited_for_input(double from, double until);
  /// Something of this rank was going on: a kernel ran, a message or a copy to or from the host was on its way. A collective is from when
  /// the rank comes to it; it `met` the last of unlike ranks later.
  void was_active(double from, double until, double met = 0) {
    active_.add(from, until);
    own_.add(std::max(from, met), until);
  }

  [[nodiscard]] double busy() const { return busy_; }
  /// Seconds in which anything of the above was going on. In the others it waited for ranks that had not sent yet.
  [[nodiscard]] double active() const { return active_.covered(); }
  /// Of these, those in which it did not wait for others in a collective.
  [[nodiscard]] double unwaiting() const { return own_.covered(); }
  /// Of a step of so many seconds.
  [[nodiscard]] Breakdown breakdown(double step) const;
  [[nodiscard]] const costmodel::Total& computed() const { return computed_; }

 private:
  double busy_ = 0, for_input_ = 0, optimizer_ = 0, loading_ = 0, again_ = 0, launching_ = 0;
  JoinedSpans active_, own_;
  costmodel::Total computed_;
};

/// One rank's part of a step.
struct RankEnd {
  int rank = 0;
  double end = 0;     ///< when it was over
  double active = 0;  ///< seconds in which the rank did not wait for others
  double busy = 0;    ///< seconds of its kernels
};
struct StepEnd {
  std::size_t limiting = 0;  ///< index of the one that the others wait for: it waits least itself. Of equals the first
  double seconds = 0;
  double imbalance = 0;  ///< that it computes more than the ranks do in the mean
};
[[nodiscard]] StepEnd step_end(std::span<const RankEnd>);
/// Sets step, breakdown, imbalance and total of a step. `account`: of the rank that limits it.
void set_step(const EvaluationRequest&, std::span<const RankEnd>, const RankAccount& account, StepCost&);

/// What the composition of instructions makes longer is longer throughout.
void stretch(std::vector<std::vector<TimedInstruction>>& timeline, double factor);

/// Idle power over the whole step, and the rest of the busy power while the compute stream is busy. Sets devices_energy.
void set_device_energy(const EvaluationRequest&, const std::function<double(int rank)>& busy_seconds, StepCost&);

}  // namespace rehearsal::predict
