#include "predict/steady.hpp"

#include <algorithm>


namespace rehearsal::predict {
namespace {

int stages_of(const plan::Program& program) {
  int stages = 1;
  for (const auto& role : program.roles) stages = std::max(stages, role.stage + 1);
  return stages;
}

int steps_to_pass(int stages, const plan::Program& program) { return (stages + program.micro_batches - 1) / program.micro_batches; }

/// What the slots of one step ran, its micro-batches numbered as its Program has them. Forward passes of a stage run ahead of the others by
/// as many as it opens with.
std::vector<TimedInstruction> of_step(const std::vector<TimedInstruction>& all, const plan::Role& role, int step, int micro_batches) {
  std::vector<TimedInstruction> found;
  const int first = step * micro_batches;
  for (auto played : all) {
    const int ahead = role.bodies[played.body].kind == plan::BodyKind::Forward ? static_cast<int>(role.opening.size()) : 0;
    played.micro_batch -= first;
    if (played.micro_batch >= ahead && played.micro_batch < ahead + micro_batches) found.push_back(played);
  }
  return found;
}

/// Rows of steps: what some take longer than others is what one takes.
struct PlayedRows {
  int few, more;  ///< steps of the shorter row, and by how many the longer one has more
  int shown;      ///< step of the longer row whose timeline stands for all
};

void set_timeline(const EvaluationRequest& request, const StepCost& many, const PlayedRows& rows, StepCost& cost) {
  const auto& program = request.program;
  const auto stands_for = busiest_representatives(program, request.costs, request.platform);
  const bool by_rank = many.timeline.size() == static_cast<std::size_t>(program.ranks);
  double zero = many.step.value();
  for (std::size_t n = 0; n < many.timeline.size(); ++n) {
    const auto& role = program.role(by_rank ? static_cast<int>(n) : stands_for[n]);
    cost.timeline.push_back(of_step(many.timeline[n], role, rows.shown, program.micro_batches));
    for (const auto& played : cost.timeline.back()) zero = std::min(zero, played.begin);
  }
  for (auto& rank : cost.timeline)
    for (auto& played : rank) played.begin -= zero, played.end -= zero;
}

StepCost one_of_many(const EvaluationRequest& request, const PlayedRows& rows, const Play& play) {
  const auto cost_of_steps = [&](int steps, bool keep_timeline) {
    const auto several = unrolled(request.program, steps);
    return play({several, request.costs, request.platform, request.model, keep_timeline, request.input, request.kind});
  };
  const auto few = cost_of_steps(rows.few, false);
  auto many = cost_of_steps(rows.few + rows.more, request.keep_timeline);
  const auto share = [&rows](auto long_run, auto short_run) { return (long_run - short_run) * (1.0 / rows.more); };
  StepCost cost;
  cost.step = share(many.step, few.step);
  cost.total = many.total;
  cost.total.scale(cost.step / many.step, costmodel::Mechanism::Composition, 0.0);
  for (const auto& part : kBreakdownParts)
    cost.breakdown.*part.seconds = std::max(Seconds(0), share(many.breakdown.*part.seconds, few.breakdown.*part.seconds));
  cost.limiting_rank = many.limiting_rank;
  cost.imbalance = Seconds(std::max(0.0, share(many.imbalance.value(), few.imbalance.value())));
  cost.devices_energy = share(many.devices_energy, few.devices_energy);
  cost.links_energy = share(many.links_energy, few.links_energy);
  for (std::size_t n = 0; n < many.busy_seconds.size(); ++n) cost.busy_seconds.push_back(share(many.busy_seconds[n], few.busy_seconds[n]));
  cost.events = (many.events - few.events) / rows.more;
  set_timeline(request, many, rows, cost);
  return cost;
}

}  // namespace

plan::Program unrolled(const plan::Program& program, int steps) {
  plan::Program all = program;
  const int micro_batches = program.micro_batches;
  for (auto& role : all.roles) {
    const auto once = std::move(role.slots);
    role.slots = std::move(role.opening);
    role.opening.clear();
    for (int step = 0; step < steps; ++step)
      for (auto slot : once) {
        slot.micro_batch += step * micro_batches;
        if (slot.micro_batch < steps * micro_batches) role.slots.push_back(slot);
      }
  }
  return all;
}

int numbered_micro_batches(const plan::Program& program) {
  int highest = program.micro_batches - 1;
  for (const auto& role : program.roles)
    for (const auto& slot : role.slots) highest = std::max(highest, slot.micro_batch);
  return highest + 1;
}

StepCost steady_step(const EvaluationRequest& request, const Play& play) {
  const auto& program = request.program;
  const int stages = stages_of(program);
  // Once the first gradients are back, every stage goes at the pace of the slowest.
  const int filled = steps_to_pass(2 * stages, program) + 1, more = 2 * steps_to_pass(stages, program);
  return one_of_many(request, {filled, more, filled - 1}, play);
}

namespace {

StepCost step_of_kind(const EvaluationRequest& request, const Play& play) {
  if (plan::crosses_steps(request.program)) return steady_step(request, play);
  return request.input == InputPace() ? play(request) : one_of_many(request, {1, 1, 1}, play);
}

/// The mean of a usual step and of a rare one, as every `steps`-th is; the timeline shows the latter.
StepCost with_rare(const StepCost& usual, StepCost rare, double steps) {
  const auto mean = [&](auto one, auto other) { return one + (other - one) * (1.0 / steps); };
  StepCost cost = std::move(rare);
  const auto whole = cost.step;
  cost.step = mean(usual.step, cost.step);
  cost.total.scale(cost.step / whole, costmodel::Mechanism::Composition, 0.0);
  for (const auto& part : kBreakdownParts) cost.breakdown.*part.seconds = mean(usual.breakdown.*part.seconds, cost.breakdown.*part.seconds);
  cost.devices_energy = mean(usual.devices_energy, cost.devices_energy);
  cost.links_energy = mean(usual.links_energy, cost.links_energy);
  for (std::size_t n = 0; n < cost.busy_seconds.size(); ++n) cost.busy_seconds[n] = mean(usual.busy_seconds[n], cost.busy_seconds[n]);
  cost.events += usual.events;
  return cost;
}

}  // namespace

/// Steps in which replicas meet, or in which what is made every few steps is made anew, are few among others.
StepCost step_among_steps(const EvaluationRequest& request, const Play& play) {
  const auto meetings = request.program.plan.local_steps;
  const auto steps = meetings > 0 ? meetings : plan::steps_between_renewals(request.program);
  const auto of = [&](bool rare, bool keep_timeline) {
    plan::StepKind kind;
    kind.meets = meetings > 0 && rare;
    kind.renews = meetings > 0 || rare;
    return step_of_kind({request.program, request.costs, request.platform, request.model, keep_timeline, request.input, kind}, play);
  };
  auto rare = of(true, request.keep_timeline);
  return steps == 1 ? rare : with_rare(of(false, false), std::move(rare), static_cast<double>(steps));
}

}  // namespace rehearsal::predict
