#pragma once
// What input makes of the answer to a plan.

#include <algorithm>

#include "costmodel/money.hpp"
#include "predict/input/input.hpp"

namespace rehearsal::predict {

struct Assessment;

/// In an Assessment whose step waits for samples where it has to.
struct PlanInput {
  StepInput step;
  costmodel::Interval computing;         ///< a step whose samples are there when they are wanted
  costmodel::Interval later;             ///< one of the epochs behind the first
  costmodel::JobCost second_of_waiting;  ///< of all ranks
  std::string rests_on;
  double steps = 0;  ///< of the training of which the Assessment's step is the mean; 0: it is one of the epochs behind the first
  /// Of those, in the first epoch.
  [[nodiscard]] double first_steps() const { return std::min(steps, step.epoch_steps); }
  [[nodiscard]] costmodel::Interval first_epoch_step() const { return step.first.step(computing); }
};

/// Of a step that is assessed without input: makes it one of the epochs behind the first. `rests_on`: grounds_of_input().
void add_input(Assessment&, const StepInput&, const platforms::Platform&, const std::string& rests_on);
/// Where there is input: makes the step so long by waiting for samples, or so short, and what follows from that with it.
void set_waiting_step(Assessment&, const costmodel::Interval& step);
/// The same assessment, its step being the mean of a training of so many: those of the first epoch may take longer than the others.
[[nodiscard]] Assessment mean_of_training(Assessment, double steps);

/// A step that is so much longer because ranks wait for each other.
void add_waiting(Assessment&, Seconds, const platforms::Platform&);

/// Of a training of so many steps, of which the assessment's is the mean.
[[nodiscard]] costmodel::Interval training_seconds(const Assessment&, double steps);
[[nodiscard]] costmodel::JobCost training_cost(const Assessment&, double steps);

}  // namespace rehearsal::predict
