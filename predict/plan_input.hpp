#pragma once
// What input makes of the answer to a plan.

#include "costmodel/money.hpp"
#include "predict/input/input.hpp"

namespace rehearsal::predict {

struct Assessment;

/// In an Assessment whose step waits for samples where it has to: in the epochs behind the first.
struct PlanInput {
  StepInput step;
  costmodel::Interval computing;         ///< a step whose samples are there when they are wanted
  costmodel::JobCost second_of_waiting;  ///< of all ranks
  std::string rests_on;
  [[nodiscard]] costmodel::Interval first_epoch_step() const { return step.first.step(computing); }
};

/// Of a step that is assessed without input. `rests_on`: grounds_of_input().
void add_input(Assessment&, const StepInput&, const platforms::Platform&, const std::string& rests_on);

/// A step that is so much longer because ranks wait for each other.
void add_waiting(Assessment&, Seconds, const platforms::Platform&);

/// Of a training of so many steps; those of the first epoch may take longer than the others.
[[nodiscard]] costmodel::Interval training_seconds(const Assessment&, double steps);
[[nodiscard]] costmodel::JobCost training_cost(const Assessment&, double steps);
/// The same assessment, its step and what that costs being the mean of such a training.
[[nodiscard]] Assessment mean_of_training(const Assessment&, double steps);

}  // namespace rehearsal::predict
