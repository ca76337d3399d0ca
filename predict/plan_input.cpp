#include "predict/plan_input.hpp"

#include <algorithm>

#include "predict/assessment.hpp"
#include "predict/bottleneck.hpp"

namespace rehearsal::predict {
namespace {

using costmodel::Interval;
using costmodel::JobCost;

JobCost sum(const JobCost& a, double times_a, const JobCost& b, double times_b) {
  return {a.energy * times_a + b.energy * times_b, a.money * times_a + b.money * times_b, a.carbon_kg * times_a + b.carbon_kg * times_b};
}

JobCost second_of_waiting(const platforms::Platform& platform, int ranks) {
  Watts idle;
  for (int rank = 0; rank < ranks; ++rank) idle += platforms::device_of(platform, rank).idle_power.value;
  return costmodel::job_cost(platform, ranks, Seconds(1), idle * Seconds(1));
}

/// Steps of the first epoch.
double first_steps(const Assessment& a, double steps) { return a.input ? std::min(steps, a.input->step.epoch_steps) : 0; }

}  // namespace

void add_input(Assessment& a, const StepInput& input, const platforms::Platform& platform, const std::string& rests_on) {
  const auto computing = a.step_seconds;
  a.input = PlanInput{input, computing, second_of_waiting(platform, a.ranks), rests_on};
  a.step_seconds = input.later.step(computing);
  const Seconds waiting(a.step_seconds.value - computing.value);
  const double slower = a.step_seconds.value / computing.value;
  a.step = Seconds(a.step_seconds.value);
  a.samples_per_second /= slower;
  a.mfu /= slower;
  a.breakdown.io += waiting;
  a.bottleneck = bottleneck_of(a.breakdown);
  a.cost = sum(a.cost, 1, a.input->second_of_waiting, waiting.value());
}

void add_waiting(Assessment& a, Seconds waiting, const platforms::Platform& platform) {
  const double slower = (a.step + waiting) / a.step;
  a.step_seconds = {a.step_seconds.value * slower, a.step_seconds.low * slower, a.step_seconds.high * slower};
  a.step += waiting;
  a.samples_per_second /= slower;
  a.mfu /= slower;
  a.breakdown.exposed_communication += waiting;
  a.bottleneck = bottleneck_of(a.breakdown);
  a.cost = sum(a.cost, 1, second_of_waiting(platform, a.ranks), waiting.value());
}

Interval training_seconds(const Assessment& a, double steps) {
  const double first = first_steps(a, steps);
  const auto one = a.input ? a.input->first_epoch_step() : Interval{};
  const auto of = [&](double Interval::*end) { return first * (one.*end) + (steps - first) * (a.step_seconds.*end); };
  return {of(&Interval::value), of(&Interval::low), of(&Interval::high)};
}

JobCost training_cost(const Assessment& a, double steps) {
  if (!a.input) return sum(a.cost, steps, {}, 0);
  const double waiting = first_steps(a, steps) * (a.input->first_epoch_step().value - a.step_seconds.value);
  return sum(a.cost, steps, a.input->second_of_waiting, waiting);
}

Assessment mean_of_training(const Assessment& a, double steps) {
  auto mean = a;
  const auto whole = training_seconds(a, steps);
  mean.step = Seconds(whole.value / steps);
  mean.step_seconds = {whole.value / steps, whole.low / steps, whole.high / steps};
  mean.cost = sum(training_cost(a, steps), 1 / steps, {}, 0);
  return mean;
}

}  // namespace rehearsal::predict
