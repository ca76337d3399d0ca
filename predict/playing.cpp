#include "predict/playing.hpp"

#include <iterator>

namespace rehearsal::predict {
namespace {

constexpr double kPlayedRounding = 1e-12;  // of a time: what adding up its parts in another order leaves

}  // namespace

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

void JoinedSpans::add(double begin, double end) {
  if (end <= begin) return;
  // Most come in order of time.
  auto at = spans_.end();
  while (at != spans_.begin() && std::prev(at)->begin > begin) --at;
  if (at != spans_.begin() && std::prev(at)->end * (1 + kPlayedRounding) >= begin) {
    --at;
    at->end = std::max(at->end, end);
  } else {
    at = spans_.insert(at, {begin, end});
  }
  auto next = std::next(at);
  for (; next != spans_.end() && next->begin <= at->end * (1 + kPlayedRounding); ++next) at->end = std::max(at->end, next->end);
  spans_.erase(std::next(at), next);
}

double JoinedSpans::covered() const {
  double seconds = 0;
  for (const auto& s : spans_) seconds += s.end - s.begin;
  return seconds;
}

void RankAccount::idled(double from, double until) {
  launching_ += until - from;
  was_active(from, until);
}

void RankAccount::waited_for_input(double from, double until) {
  for_input_ += until - from;
  was_active(from, until);
}

Breakdown RankAccount::breakdown(double step) const {
  const auto worth_saying = [step](double seconds) { return Seconds(seconds > kPlayedRounding * step ? seconds : 0); };
  Breakdown b;
  b.bubble = worth_saying(step - active());
  b.optimizer = Seconds(optimizer_);
  b.io = Seconds(loading_ + for_input_);
  b.recompute = Seconds(again_);
  b.compute = Seconds(busy_ + launching_ - optimizer_ - loading_ - again_);
  // Messages beside which nothing runs, and what kernels lose by those that they run beside.
  b.exposed_communication = worth_saying(active() - busy_ - launching_ - for_input_);
  return b;
}

StepEnd step_end(std::span<const RankEnd> ends) {
  constexpr double kMore = 1 + 1e-9;  // equal ranks differ by rounding
  StepEnd step;
  double mean = 0;
  for (std::size_t n = 0; n < ends.size(); ++n) {
    if (ends[n].active > kMore * ends[step.limiting].active) step.limiting = n;
    step.seconds = std::max(step.seconds, ends[n].end);
    mean += ends[n].busy / static_cast<double>(ends.size());
  }
  const double busy = ends[step.limiting].busy;
  step.imbalance = busy > kMore * mean ? busy - mean : 0;
  return step;
}

void set_step(const EvaluationRequest& request, std::span<const RankEnd> ends, const RankAccount& account, StepCost& cost) {
  const auto step = step_end(ends);
  const auto parts = account.breakdown(step.seconds);
  const auto of_links = [&](Seconds seconds) {
    return costmodel::Estimate{seconds, costmodel::Mechanism::LinkBandwidth, request.model.link_log_error(), request.model.link_evidence()};
  };
  // The bubble is other stages' computation: it is as wrong as this stage's. So is what the host takes to issue it. How wrong waiting for
  // samples is, those know who know their pace. Who computes nothing waits for messages alone.
  const auto rest = Seconds(step.seconds) - parts.exposed_communication;
  if (account.busy() > 0)
    cost.total.add(account.computed(), rest.value() / account.busy());
  else
    cost.total.add(of_links(rest));
  cost.total.add(of_links(parts.exposed_communication));
  // What executing a step takes beyond its kernels and messages nobody can point at: every part is longer by it.
  const double factor = request.model.composition_factor();
  cost.total.scale(factor, costmodel::Mechanism::Composition, request.model.composition_log_error());
  cost.limiting_rank = ends[step.limiting].rank;
  cost.imbalance = Seconds(step.imbalance * factor);
  cost.breakdown = parts.scaled(factor);
  cost.step = cost.total.seconds();
}

void stretch(std::vector<std::vector<TimedInstruction>>& timeline, double factor) {
  if (factor == 1) return;
  for (auto& rank : timeline)
    for (auto& played : rank) played.begin *= factor, played.end *= factor, played.busy *= factor;
}

void set_device_energy(const EvaluationRequest& request, const std::function<double(int rank)>& busy_seconds, StepCost& cost) {
  for (int rank = 0; rank < request.program.ranks; ++rank) {
    const auto& device = platforms::device_of(request.platform, rank);
    const Seconds busy(busy_seconds(rank));
    cost.devices_energy += device.idle_power.value * cost.step + (device.busy_power.value - device.idle_power.value) * busy;
  }
}

}  // namespace rehearsal::predict
