#include "predict/playing.hpp"

#include <algorithm>

namespace rehearsal::predict {

plan::Stream stream_on(const costmodel::CostModel& model, const plan::Instruction& i) {
  switch (i.kind) {
    case plan::InstructionKind::Receive:
      return i.stream;
    case plan::InstructionKind::Send:
    case plan::InstructionKind::Collective:
      return model.host_progressed() ? plan::Stream::Compute : i.stream;
    default:
      return i.stream == plan::Stream::Host && !model.host_progressed() ? plan::Stream::Host : plan::Stream::Compute;
  }
}

std::size_t variant_in(const plan::Role& role, const plan::Slot& slot) {
  return plan::per_micro_batch(role.bodies[slot.body].kind) ? plan::variant_of_micro_batch(role, slot.micro_batch) : 0;
}

const costmodel::Estimate& estimate_in(const RoleCosts& costs, const plan::Role& role, const plan::Slot& slot, std::size_t instruction) {
  const auto& by_variant = costs.seconds[slot.body][instruction];
  return by_variant[std::min(variant_in(role, slot), by_variant.size() - 1)];
}

void RankAccount::ran(const plan::Body& body, const plan::Instruction& i, const costmodel::Estimate& estimate) {
  const double seconds = estimate.seconds.value();
  busy_ += seconds;
  if (body.kind == plan::BodyKind::Update && i.phase == graph::Phase::Update) optimizer_ += seconds;
  if (i.kind == plan::InstructionKind::Load) loading_ += seconds;
  if (i.again) again_ += seconds;
  computed_.add(estimate);
}

Launched HostClock::launch(const costmodel::LaunchQueue& q, double ready, double messages_until) {
  const double busy = messages_until - ready, alone = q.device / (1 - interference_);
  const double device = busy <= 0 ? q.device : alone <= busy ? alone : q.device + interference_ * busy;
  Launched run;
  run.end = std::max(ready + device, free_ + q.both);
  run.begin = run.end - device;
  run.issue_begin = free_;
  run.issue_end = free_ += q.host;
  return run;
}

costmodel::LaunchQueue launch_of(const RoleCosts& costs, const plan::Role& role, const plan::Slot& slot, std::size_t instruction) {
  if (!costs.launches.empty()) return costs.launches[slot.body][instruction];
  const double seconds = estimate_in(costs, role, slot, instruction).seconds.value();
  return {0, seconds, seconds};
}

SampleClock::SampleClock(const EvaluationRequest& request, const plan::Role& role)
    : every_(request.input.every.value() / request.model.composition_factor()),
      beside_(request.input.beside.value() / request.model.composition_factor()),
      role_(&role),
      micro_batches_(request.program.micro_batches) {}

double SampleClock::begin(const plan::Slot& slot, double ready) {
  const int step = slot.micro_batch / micro_batches_;
  if (role_->stage != 0 || role_->bodies[slot.body].kind != plan::BodyKind::Forward || step < prepared_) return ready;
  prepared_ = step + 1;
  return std::max(ready + beside_, step * every_);
}

Breakdown RankAccount::breakdown(double step, double end) const {
  Breakdown b;
  b.bubble = Seconds(for_stages_ + step - end);
  b.optimizer = Seconds(optimizer_);
  b.io = Seconds(loading_ + for_input_);
  b.recompute = Seconds(again_);
  b.compute = Seconds(busy_ + launching_ - optimizer_ - loading_ - again_);
  constexpr double kRounding = 1e-12;  // of the step: what adding up its parts in another order leaves
  const double waited = end - busy_ - launching_ - for_stages_ - for_input_;
  b.exposed_communication = Seconds(waited > kRounding * end ? waited : 0);
  return b;
}

StepEnd step_end(std::span<const RankEnd> ends) {
  constexpr double kMore = 1 + 1e-9;  // equal ranks differ by rounding
  const auto occupied = [](const RankEnd& e) { return e.end - e.waited; };
  StepEnd step;
  double mean = 0;
  for (std::size_t n = 0; n < ends.size(); ++n) {
    if (occupied(ends[n]) > kMore * occupied(ends[step.limiting])) step.limiting = n;
    step.seconds = std::max(step.seconds, ends[n].end);
    mean += occupied(ends[n]) / static_cast<double>(ends.size());
  }
  step.imbalance = std::max(0.0, occupied(ends[step.limiting]) - mean);
  return step;
}

void set_step(const EvaluationRequest& request, std::span<const RankEnd> ends, const RankAccount& account, StepCost& cost) {
  const auto step = step_end(ends);
  cost.limiting_rank = ends[step.limiting].rank;
  cost.imbalance = Seconds(step.imbalance);
  cost.breakdown = account.breakdown(step.seconds, ends[step.limiting].end);
  // The bubble is other stages' computation: it is as wrong as this stage's. So is what the host takes to issue it. How wrong waiting for
  // samples is, those know who know their pace.
  const double computed = std::max(account.busy(), 1e-30);
  cost.total.add(account.computed(),
                 (computed + account.launching() + account.waited_for_input() + cost.breakdown.bubble.value()) / computed);
  cost.total.add({cost.breakdown.exposed_communication, costmodel::Mechanism::LinkBandwidth, request.model.link_log_error(),
                  request.model.link_evidence()});
  cost.total.scale(request.model.composition_factor(), costmodel::Mechanism::Composition, request.model.composition_log_error());
  cost.step = cost.total.seconds();
}

void set_device_energy(const EvaluationRequest& request, const std::function<double(int rank)>& busy_seconds, StepCost& cost) {
  for (int rank = 0; rank < request.program.ranks; ++rank) {
    const auto& device = platforms::device_of(request.platform, rank);
    const Seconds busy(busy_seconds(rank));
    cost.devices_energy += device.idle_power.value * cost.step + (device.busy_power.value - device.idle_power.value) * busy;
  }
}

}  // namespace rehearsal::predict
