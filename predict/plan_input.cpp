#include "predict/plan_input.hpp"

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

}  // namespace

void add_input(Assessment& a, const StepInput& input, const platforms::Platform& platform, const std::string& rests_on) {
  const auto computing = a.step_seconds, later = input.later.step(computing);
  a.input = PlanInput{input, computing, later, second_of_waiting(platform, a.ranks), rests_on};
  set_waiting_step(a, later);
}

void set_waiting_step(Assessment& a, const Interval& step) {
  const Seconds more(step.value - a.step_seconds.value);
  const double slower = step.value / a.step_seconds.value;
  a.step_seconds = step;
  a.step = Seconds(step.value);
  a.samples_per_second /= slower;
  a.mfu /= slower;
  a.breakdown.io += more;
  a.bottleneck = bottleneck_of(a.breakdown);
  a.cost = sum(a.cost, 1, a.input->second_of_waiting, more.value());
}

Assessment mean_of_training(Assessment a, double steps) {
  if (!a.input) return a;
  auto& input = *a.input;
  input.steps = steps;
  const double first = input.first_steps() / steps;
  const auto one = input.first_epoch_step();
  const auto of = [&](double Interval::*end) { return first * (one.*end) + (1 - first) * (input.later.*end); };
  set_waiting_step(a, {of(&Interval::value), of(&Interval::low), of(&Interval::high)});
  return a;
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
  return {steps * a.step_seconds.value, steps * a.step_seconds.low, steps * a.step_seconds.high};
}

JobCost training_cost(const Assessment& a, double steps) { return sum(a.cost, steps, {}, 0); }

}  // namespace rehearsal::predict
