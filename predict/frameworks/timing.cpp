#include "predict/frameworks/timing.hpp"

#include <algorithm>
#include <cmath>

#include "costmodel/accelerator.hpp"
#include "predict/frameworks/memory.hpp"

namespace rehearsal::predict::frameworks {
namespace {

using C = costmodel::Coefficient;
using costmodel::CollectiveKind;
using costmodel::LaunchQueue;
using costmodel::RateKind;

constexpr double kOperatorGathers = 12;  // gathers of one layer where parameters are fetched operator by operator
constexpr double kKernelsPerExchange = 2;
constexpr double kCastBytes = 6;  // read fp32, write 16 bits
constexpr double kFusedOptimizerKernels = 40, kKernelsPerTensor = 3, kOptimizerLaunch = 5e-6;
/// Moments, their quotient, decay and the difference as single operators in fp32: 18 of them, 8 bytes with one operand, 12 with two.
constexpr double kComposedKernels = 18, kComposedBytes = 180;
// Of the time that keys and values take to go round: what no attention hides, in either pass.
constexpr double kRingExposedForward = 0.15, kRingExposedBackward = 0.3;

LaunchQueue scaled(const LaunchQueue& q, double factor) { return {q.host * factor, q.device * factor, q.both * factor}; }
/// At a share of the device's clock.
LaunchQueue slower(const LaunchQueue& q, double clock) {
  const double more = q.device / clock - q.device;
  return {q.host, q.device + more, q.both + more};
}
LaunchQueue on_both(double host, double device) { return {host, device, host + device}; }

/// Gradients of a part by the backward step after which they are whole.
std::vector<ReadyGradients> ready_gradients(const Part& part) {
  std::vector<ReadyGradients> ready;
  for (std::size_t n = part.weights_of_node.size(); n-- > 0;) {
    if (part.weights_of_node[n].trained <= 0) continue;
    std::size_t steps = ready.empty() ? 0 : ready.back().steps;
    for (std::size_t s = 0; s < part.backward.size(); ++s)
      if (part.backward[s].node >= n) steps = std::max(steps, s + 1);
    ready.push_back({steps, part.weights_of_node[n].trained});
  }
  return ready;
}

/// `queues` run in order after `begin`; gradients that are ready end a segment.
std::vector<BackwardSegment> segments_of(const LaunchQueue& begin, const std::vector<LaunchQueue>& queues,
                                         const std::vector<ReadyGradients>& ready) {
  std::vector<BackwardSegment> segments;
  LaunchQueue sum = begin;
  std::size_t at = 0;
  for (const auto& gradients : ready) {
    for (; at < gradients.steps; ++at) sum = sum.then(queues[at]);
    segments.push_back({sum, gradients.elements});
    sum = {};
  }
  for (; at < queues.size(); ++at) sum = sum.then(queues[at]);
  segments.push_back({sum, 0});
  return segments;
}

}  // namespace

void TimedPass::add(const TimedStep& step) {
  steps.push_back(step);
  queue = queue.then(step.queue);
  (step.exchange ? exchanges : kernels) += step.queue.device;
}

StepTimer::StepTimer(const ModelParts& model, const FrameworkJob& job, const NodeLinks& links, const costmodel::Constants& c,
                     RanksAlike ranks)
    : model_(model),
      job_(job),
      links_(links),
      c_(c),
      node_(job.platform.nodes[ranks.kind]),
      device_(job.device(ranks.kind)),
      precision_(job.precision_on(ranks.kind)),
      kind_(ranks.kind),
      groups_(std::move(ranks.groups)),
      rates_(costmodel::rates_of(device_, precision_, {job.profile, model.capture.launch, model.image}, c)),
      memory_(costmodel::memory_rate(device_, c)),
      gathered_bytes_(mean_gathered_bytes()),
      slowdown_(1 + c[C::Spread] * std::log2(groups_.nodes)) {
  time_parts();
}

double StepTimer::mean_gathered_bytes() const {
  double bytes = 0, parameters = 0;
  for (const auto& part : model_.parts) {
    const double trained = part.repeats * part.weights.trained;
    bytes += trained * frameworks::gathered_bytes(job_, precision_, part.repeated);
    parameters += trained;
  }
  return parameters > 0 ? bytes / parameters : frameworks::gathered_bytes(job_, precision_, false);
}

void StepTimer::time_parts() {
  parts_.assign(model_.parts.size(), {});
  for (std::size_t p = 0; p < parts_.size(); ++p) time(model_.parts[p], Recomputed::AsPlanned, parts_[p]);
  if (job_.plan.recompute.blocks == 0) return;
  kept_parts_.assign(model_.parts.size(), {});
  for (std::size_t p = 0; p < parts_.size(); ++p) time(model_.parts[p], Recomputed::Nothing, kept_parts_[p]);
}

StepTimer StepTimer::at_clock(double share) const {
  auto slower = *this;
  slower.clock_ = share;
  slower.time_parts();
  return slower;
}

void StepTimer::time(const Part& part, Recomputed recompute, PartTime& t) const {
  t.forward = pass(part.forward, false);
  t.backward = pass(part.backward, true);
  if (recompute == Recomputed::AsPlanned) t.again = recomputed(part, t.forward);
  add_transfers(part, recompute, t);
  t.whole_backward = t.again.queue.then(t.backward.queue);
  t.input_gradients = t.again.queue;
  std::vector<LaunchQueue> all, weights;
  for (const auto& step : t.backward.steps) {
    all.push_back(step.queue);
    weights.push_back(step.weight_gradient ? step.queue : LaunchQueue{});
    if (step.weight_gradient)
      t.weight_gradients = t.weight_gradients.then(step.queue);
    else
      t.input_gradients = t.input_gradients.then(step.queue);
  }
  t.ready = ready_gradients(part);
  // Gradients travel beside the last micro-batch, for which GPipe computes nothing again.
  t.segments = segments_of(job_.recomputed() == plan::RecomputeRule::FullExceptLast ? LaunchQueue{} : t.again.queue, all, t.ready);
  t.weight_segments = segments_of({}, weights, t.ready);
  if (gathers_every_pass(job_)) add_sharded(part, t);
}

/// Experts that ranks share out are gathered and scattered by themselves, among the ranks that have copies of them (torchtitan wraps them
/// apart; Megatron-FSDP: expert data parallelism).
void StepTimer::add_sharded(const Part& part, PartTime& t) const {
  const double weight_bytes = frameworks::gathered_bytes(job_, precision_, part.repeated);
  const double wire_bytes = precision_.element_bytes == 2 && !job_.recipe.fp32_reduction.value_or(job_.profile.reduces_in_fp32) ? 2 : 4;
  const double pieces = job_.profile.gathers_layerwise ? 1 : kOperatorGathers;
  const double frozen_bytes = part.repeated && job_.recipe.frozen_bytes > 0 ? job_.recipe.frozen_bytes : weight_bytes;
  const auto& experts = part.expert_weights;
  const auto bytes_of = [&](const Weights& w) { return w.trained * weight_bytes + (w.all - w.trained) * frozen_bytes; };
  const auto travel = [&](CollectiveKind kind, double bytes, const PlacedGroup& group) {
    return bytes > 0 && group.ranks > 1 ? pieces * collective(kind, bytes / pieces, group) : 0;
  };
  t.gather_bytes = bytes_of(part.read_weights() - experts);
  t.experts.gather_bytes = bytes_of(experts);
  t.experts.gather = travel(CollectiveKind::AllGather, t.experts.gather_bytes, groups_.expert_copies);
  t.gather = travel(CollectiveKind::AllGather, t.gather_bytes, groups_.shards) + t.experts.gather;
  t.experts.gradients = experts.trained;
  t.experts.scatter = travel(CollectiveKind::ReduceScatter, experts.trained * wire_bytes, groups_.expert_copies);
  const double sent = (part.weights.trained - experts.trained) * wire_bytes;
  t.sum_of_copies = pieces * sum_of_copied_bytes(sent / pieces);
  t.scatter = travel(CollectiveKind::ReduceScatter, sent, groups_.shards) + t.sum_of_copies + t.experts.scatter;
}

TimedStep StepTimer::timed(const PassStep& step, std::size_t index, double exchange_seconds) const {
  TimedStep t;
  t.source = static_cast<std::uint32_t>(index);
  t.weight_gradient = step.weight_gradient;
  t.exchange = step.exchange.has_value();
  t.queue = t.exchange ? on_both(kKernelsPerExchange * rates_.host, exchange_seconds) : costmodel::queue_of(step.row, rates_);
  if (!t.exchange) t.queue = slower(t.queue, clock_);
  t.queue = scaled(t.queue, slowdown_ / (step.once_a_step ? job_.micro_batches : 1));
  return t;
}

TimedPass StepTimer::pass(const std::vector<PassStep>& steps, bool backward) const {
  TimedPass kernels, all;
  double attention = 0;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (steps[i].exchange) continue;
    kernels.add(timed(steps[i], i, 0));
    if (costmodel::is_attention(steps[i].row.kind)) attention += costmodel::time_of(steps[i].row, rates_);
  }
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const auto& e = steps[i].exchange;
    const bool ring = e && e->axis == ExchangeAxis::Context;
    all.add(timed(steps[i], i, !e ? 0 : ring ? ring_seconds(*e, kernels, attention, backward) : exchange_seconds(*e, backward)));
    if (e) continue;
    const auto& row = steps[i].row;
    const auto kind = static_cast<std::size_t>(row.kind);
    if (costmodel::is_of_bytes(row.kind))
      all.memory += row.bytes / rates_.bytes_per_second[kind] * row.count;
    else if (row.work > 0)
      all.matrix += row.work / rates_.flops_per_second[kind] * row.count;
  }
  return all;
}

double StepTimer::exchange_seconds(const Exchange& e, bool backward) const {
  if (e.axis == ExchangeAxis::Expert) return expert_seconds(e);
  const auto& plan = job_.plan;
  const bool on = job_.recipe.tensor_overlap.value_or(job_.profile.tensor_overlap);
  double hidden = on ? c_[C::TensorOverlap] : 0;
  // The sum of the input's gradient runs beside the gradient of the weight.
  if (backward && (job_.profile.backward_tensor_overlap || plan.sequence_parallel)) hidden = std::max(hidden, 0.5 * c_[C::TensorOverlap]);
  const double shared = job_.recipe.parallel_blocks ? 0.5 : 1;
  return shared * (1 - hidden) * seconds(e.kind, e.bytes, groups_.tensor);
}

/// Tokens on their way to their experts or back. Dispatchers that know the nodes send a token once to every node where it has experts, and
/// there pass it on (DeepSeek-AI 2024, section 3.2.2): of k choices among N nodes N·(1 - (1 - 1/N)^k) are different.
double StepTimer::expert_seconds(const Exchange& e) const {
  const auto& group = groups_.expert;
  const double hidden = model_.capture.overlapped_experts ? c_[C::TensorOverlap] : 0;
  const double nodes = group.per_node > 0 ? static_cast<double>(group.ranks) / group.per_node : 1, choices = model_.expert_choices;
  const double bytes = e.bytes * model_.expert_load;  // the rank with most tokens ends last
  double seconds = this->seconds(e.kind, bytes, group);
  const bool by_node = job_.recipe.dispatches_by_node.value_or(job_.profile.dispatches_by_node);
  if (by_node && e.kind == CollectiveKind::AllToAll && nodes > 1 && choices > 1) {
    const double different = nodes * (1 - std::pow(1 - 1 / nodes, choices)) / choices;
    const double inside = this->seconds(e.kind, bytes, {{group.per_node, group.per_node}, group.kinds});
    seconds = std::max(inside, this->seconds(e.kind, bytes * different, group));
  }
  return (1 - hidden) * seconds;
}

/// What the attention does not hide of its keys and values on their way round.
double StepTimer::ring_seconds(const Exchange& e, const TimedPass& kernels, double attention, bool backward) const {
  const bool inside = groups_.context.per_node >= groups_.context.ranks;
  const auto& network = links_.among(groups_.context.kinds);
  const double rate = inside ? network.inside_rate(2, c_) : network.shift_rate(groups_.context, c_);
  const double around = e.bytes * (job_.plan.cp - 1) / rate;
  if (backward) return std::max(0.0, 2 * around - 0.5 * kernels.kernels) + kRingExposedBackward * around;
  return std::max(0.0, around - attention - 0.5 * kernels.kernels) + kRingExposedForward * around;
}

bool StepTimer::is_recomputed(const Part& part, const PassStep& step, int& products) const {
  switch (job_.recomputed()) {
    case plan::RecomputeRule::None:
    case plan::RecomputeRule::Budget:  // refused by plan_rules.cpp
      return false;
    case plan::RecomputeRule::Full:
    case plan::RecomputeRule::FullExceptLast:
      // Recomputation that stops early ends with the last tensor that the backward pass reads.
      return !(job_.profile.checkpoint_stops_early && !model_.image && part.last_product && step.node >= *part.last_product);
    case plan::RecomputeRule::Selective:
      return !model_.fused_attention && !step.exchange && costmodel::is_attention(step.row.kind);
    case plan::RecomputeRule::SelectiveOps:
      if (step.exchange) return false;
      if (step.row.kind == RateKind::Matmul) return products++ % 2 == 1;
      return costmodel::is_of_bytes(step.row.kind);
  }
  return false;
}

/// Activations travel beside the kernels of a block, and the next one waits where that takes longer (Rhu et al. 2016).
void StepTimer::add_transfers(const Part& part, Recomputed recompute, PartTime& t) const {
  const double bytes = pass_bytes(part, recompute, job_, model_).offloaded;
  if (bytes <= 0) return;
  const double seconds = bytes / device_.host_bandwidth->value.value();
  const auto waiting = [&](double beside) { return TimedStep{on_both(0, std::max(0.0, seconds - beside)), kHostTransfer, true, false}; };
  t.forward.add(waiting(t.forward.queue.device));
  TimedPass fetched;
  fetched.add(waiting(t.again.queue.device + t.backward.queue.device));
  for (const auto& step : t.again.steps) fetched.add(step);
  t.again = fetched;
}

TimedPass StepTimer::recomputed(const Part& part, const TimedPass& forward) const {
  TimedPass again;
  if (!part.repeated && !model_.image) return again;
  int products = 0;
  for (const auto& step : forward.steps)
    if (is_recomputed(part, part.forward[step.source], products)) again.add(step);
  return again;
}

double StepTimer::seconds(CollectiveKind kind, double bytes, const PlacedGroup& group) const {
  return links_.among(group.kinds).seconds(kind, bytes, group, c_);
}

double StepTimer::collective(CollectiveKind kind, double bytes, const PlacedGroup& group) const {
  return slowdown_ * seconds(kind, bytes, group);
}

/// Every rank has its own part of what was sharded among its group, and the ranks that have the same part of others sum that.
double StepTimer::sum_of_copied_bytes(double bytes) const {
  if (groups_.copies.ranks == 1) return 0;
  return collective(CollectiveKind::AllReduce, bytes / groups_.shards.ranks, groups_.copies);
}

double StepTimer::sum_of_copies(double elements) const {
  return sums_whole_gradients(job_) ? 0 : sum_of_copied_bytes(elements * gradient_bytes(job_, precision_));
}

double StepTimer::reduction(double elements) const {
  const double bytes = elements * gradient_bytes(job_, precision_);
  const bool whole = sums_whole_gradients(job_);
  const double seconds =
      collective(whole ? CollectiveKind::AllReduce : CollectiveKind::ReduceScatter, bytes, whole ? groups_.replicas : groups_.shards) +
      sum_of_copies(elements);
  if (!job_.recipe.parameter_servers || groups_.nodes == 1) return seconds;
  const auto& network = links_.among(groups_.replicas.kinds);
  return std::max(seconds, slowdown_ * 2 * bytes / (network.card_rate(c_) * network.devices_per_node()));
}

double StepTimer::parameter_gather(double elements) const {
  return collective(CollectiveKind::AllGather, elements * gathered_bytes_, groups_.shards);
}

double StepTimer::send(double bytes, const StepTimer& other) const {
  const NodeKinds both = kind_ == other.kind_ ? NodeKinds{kind_} : NodeKinds{std::min(kind_, other.kind_), std::max(kind_, other.kind_)};
  const bool between_nodes = groups_.stages_between_nodes || !are_alike(node_, other.node_);
  return slowdown_ * links_.among(both).send(bytes, between_nodes, c_, {groups_.nodes_of_stage, groups_.nodes});
}

double StepTimer::accumulation(double parameters) const {
  if (job_.micro_batches < 2 || job_.recipe.optimizer == "none" || job_.profile.fused_accumulation) return 0;
  const double wide = precision_.element_bytes == 4 ? 4 : job_.profile.state.gradients, narrow = precision_.element_bytes;
  const double shards = job_.plan.zero >= 2 ? groups_.shards.ranks : 1;
  return slowdown_ * (2 * wide + narrow) * parameters / shards / memory_;
}

double StepTimer::cast(double parameters) const {
  const bool casts = precision_.element_bytes == 2 && precision_.autocast && job_.plan.zero < 3 && job_.profile.masters_cast;
  return casts ? slowdown_ * parameters * kCastBytes / memory_ : 0;
}

/// In f32; beside it recipes with 16-bit weights write those, and take the norm of all gradients before they are clipped, where the
/// optimizer smooths gradients.
double StepTimer::update_bytes(const Weights& own) const {
  constexpr double kBytes = 4;
  const bool mixed = precision_.element_bytes != 4 && graph::has_moments(graph::optimizer_row(job_.recipe.optimizer));
  return kBytes * (own.moved + (mixed ? own.trained : 0));
}

/// Gradients are rounded before they travel and come back as wide as they were: each way both are passed over.
double StepTimer::narrowing_bytes(double all, double own) const {
  const double narrow = gradient_bytes(job_, precision_), wide = precision_.element_bytes == 4 ? 4 : job_.profile.state.gradients;
  const bool narrows = job_.plan.compression.type_on_the_way() && has_replicas(job_) && wide > narrow;
  return narrows ? (narrow + wide) * (all + own) : 0;
}

double StepTimer::update(const Weights& weights, double tensors) const {
  if (job_.recipe.optimizer == "none") return 0;
  const bool composed = job_.profile.composed_optimizer && graph::optimizer_row(job_.recipe.optimizer).slots.size() >= 2;
  const Weights own = 1.0 / (job_.plan.zero > 0 ? groups_.shards.ranks : 1) * weights;
  const double bytes = (composed ? kComposedBytes * own.trained : update_bytes(own)) + narrowing_bytes(weights.trained, own.trained);
  const double per_tensor = composed ? kComposedKernels : kKernelsPerTensor;
  const double launches = job_.profile.fused_optimizer && !composed ? kFusedOptimizerKernels : per_tensor * tensors;
  const double issued = slowdown_ * launches * kOptimizerLaunch;  // the host goes through the tensors wherever it has them updated
  if (job_.plan.offload == plan::Offload::Optimizer) return issued + update_on_host(own);
  const double products = own.product_flops / rates_.flops_per_second[static_cast<std::size_t>(RateKind::Matmul)];
  return issued + slowdown_ * (c_[C::OptimizerBytes] * bytes / memory_ + products);
}

/// Gradients go to the host, which updates what it keeps and sends weights back meanwhile (Ren et al., USENIX ATC 2021, section 4; table 4:
/// a billion parameters take 0.22 s, half of what the memory of a DGX-2's host would allow).
double StepTimer::update_on_host(const Weights& own) const {
  constexpr double kShareOfPeak = 0.5;
  const int sharing = std::min(node_.devices, job_.plan.ranks());
  const double host = update_bytes(own) * sharing / (kShareOfPeak * node_.host_memory_bandwidth->value.value());
  const double link = device_.host_bandwidth->value.value();
  const double out = own.trained * gradient_bytes(job_, precision_) / link, back = own.trained * precision_.element_bytes / link;
  return slowdown_ * (out + std::max(host, back));
}

double StepTimer::tied_embedding_bytes() const {
  if (job_.plan.pp == 1 || !job_.profile.tied_embedding_reduction) return 0;
  double shared = 0;
  for (const auto& part : model_.parts) shared += part.shared_weights.trained;
  return shared * gradient_bytes(job_, precision_);
}

double StepTimer::coordination() const {
  if (groups_.replicas.ranks < 2 || job_.profile.coordination == costmodel::Coordination::None) return 0;
  return slowdown_ * 1e-3 * c_[job_.profile.coordination == costmodel::Coordination::Horovod ? C::CoordinationHorovod : C::CoordinationDdp];
}

double StepTimer::interference() const {
  if (gathers_every_pass(job_)) return c_[C::ShardedOverlap];
  return c_[job_.profile.tuned_overlap ? C::OverlapInterferenceTuned : C::OverlapInterference];
}

bool has_fp8_weights(const costmodel::Precision& precision) {
  using costmodel::Scaling;
  return precision.arithmetic == costmodel::Arithmetic::Fp8 &&
         (precision.scaling == Scaling::Tensor || precision.scaling == Scaling::Block);
}

double gathered_bytes(const FrameworkJob& job, const costmodel::Precision& precision, bool of_block) {
  const bool usual = job.profile.gathers_fp8 && precision.scaling == costmodel::Scaling::Tensor;
  if (of_block && has_fp8_weights(precision) && job.recipe.fp8_gather.value_or(usual)) return 1;
  return precision.element_bytes == 2 ? 2 : 4;
}

double gradient_bytes(const FrameworkJob& job, const costmodel::Precision& precision) {
  if (const auto type = job.plan.compression.type_on_the_way()) return static_cast<double>(size_of(*type));
  if (precision.element_bytes == 4) return 4;
  if (precision.autocast) return job.profile.gradient_bytes_amp;
  return precision.brain ? job.profile.gradient_bytes_bf16 : job.profile.gradient_bytes_fp16;
}

bool gathers_every_pass(const FrameworkJob& job) {
  return job.plan.zero >= 3 && job.plan.zero_group != 1 && has_replicas(job) && job.plan.pp == 1;
}

bool keeps_whole_gradients(const FrameworkJob& job) { return !gathers_every_pass(job) && !scatters_every_micro_batch(job); }

bool sums_whole_gradients(const FrameworkJob& job) {
  return job.plan.zero == 0 || (job.plan.zero == 1 && job.profile.sharded_after_all_reduce);
}

bool scatters_every_micro_batch(const FrameworkJob& job) { return job.plan.zero == 2 && job.plan.zero_group != 1 && has_replicas(job); }

bool has_replicas(const FrameworkJob& job) { return job.plan.dp * job.plan.cp > 1; }

bool overlaps(const FrameworkJob& job) { return job.profile.gradient_overlap && job.plan.overlap; }

}  // namespace rehearsal::predict::frameworks
