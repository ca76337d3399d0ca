#include "predict/frameworks/compose.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

namespace rehearsal::predict::frameworks {
namespace {

using C = costmodel::Coefficient;
using costmodel::CollectiveKind;
using costmodel::LaunchQueue;
using costmodel::RowTimes;

constexpr double kOverlapWindow = 0.9;   // of the backward pass: the first gradients are not there at once
constexpr double kOperatorGathers = 12;  // gathers of one layer where parameters are fetched operator by operator
constexpr double kRecomputedLaunches = 0.95, kRecomputedOpLaunches = 0.7;
constexpr double kFusedOptimizerKernels = 40, kKernelsPerTensor = 3, kOptimizerLaunch = 5e-6;
constexpr double kKernelsPerReduction = 2;
constexpr double kCastBytes = 6;                                           // read fp32, write 16 bits
constexpr double kSpatialExchanges = 40, kSpatialExchangeSeconds = 30e-6;  // halos of one step where a sample is split

/// Bytes that an update reads and writes per parameter: gradients, weights, moments, 16-bit copies.
struct OptimizerBytes {
  std::string_view name;
  double mixed, single;
  bool moments = false;  ///< of first and second order
};
constexpr OptimizerBytes kOptimizers[] = {{"adam", 32, 28, true}, {"adamw", 32, 28, true}, {"lamb", 44, 40, true},
                                          {"sgd", 20, 20},        {"momentum", 20, 20},    {"lars", 28, 28},
                                          {"adadelta", 28, 28},   {"rmsprop", 24, 24},     {"adagrad", 20, 20}};

/// Moments, their quotient, decay and the difference as single operators in fp32: 18 of them, 8 bytes with one operand, 12 with two.
constexpr double kComposedKernels = 18, kComposedBytes = 180;

/// Times of one repetition of a part, for one micro-batch.
struct PartTime {
  RowTimes forward, backward;
  double forward_tensor = 0, backward_tensor = 0;          ///< exposed tensor- and context-parallel communication
  double again = 0, again_launches = 0, again_tensor = 0;  ///< recomputation
  double repeats = 1;
  LaunchQueue forward_pass, backward_pass;  ///< with communication, recomputation in the backward pass
  [[nodiscard]] LaunchQueue passes() const { return forward_pass.then(backward_pass); }
  [[nodiscard]] double seconds() const { return std::max(passes().host, passes().device); }
  [[nodiscard]] double launches() const { return forward.launches + backward.launches + again_launches; }
};

class Composer {
 public:
  Composer(const ModelRows& model, const AnalyticJob& job, const costmodel::Network& network, const costmodel::Constants& c)
      : model_(model),
        job_(job),
        plan_(job.plan),
        network_(network),
        c_(c),
        rates_(costmodel::rates_of(job.device(), job.precision, {job.framework, model.image}, c)),
        memory_(costmodel::memory_rate(job.device(), c)) {
    for (const auto& part : model.parts) times_.push_back(time_of(part));
  }

  StepTime step();

 private:
  PartTime time_of(const Part&) const;
  void add_tensor_parallel(const Part&, PartTime&) const;
  void add_context_parallel(const Part&, PartTime&) const;
  void add_experts(const Part&, PartTime&) const;
  void add_recomputation(const Part&, PartTime&) const;
  void queue_passes(const Part&, PartTime&) const;
  void gather_around(const Part&, PartTime&) const;
  [[nodiscard]] double replica(StepTime&) const;
  [[nodiscard]] LaunchQueue passes(std::size_t only, double repeats) const;
  [[nodiscard]] LaunchQueue beside(double host, double device) const;
  [[nodiscard]] static LaunchQueue on_device(double seconds) { return {0, seconds, seconds}; }
  [[nodiscard]] double single_stage() const;
  [[nodiscard]] std::vector<double> block_stages(std::size_t block) const;
  [[nodiscard]] std::vector<double> balanced_stages() const;
  [[nodiscard]] double cast_seconds() const;
  [[nodiscard]] double accumulation_seconds() const;
  [[nodiscard]] double gradients(StepTime&) const;
  [[nodiscard]] double backward_window() const;
  [[nodiscard]] double update() const;
  [[nodiscard]] double coordination() const;
  [[nodiscard]] int replicas_per_node() const;
  [[nodiscard]] double collective(CollectiveKind kind, double bytes) const {
    return network_.seconds(kind, bytes, {plan_.dp, replicas_per_node()}, c_);
  }
  [[nodiscard]] double nodes() const {
    const double ranks = static_cast<double>(plan_.dp) * plan_.tp * plan_.pp * plan_.cp;
    return std::max(1.0, ranks / network_.devices_per_node());
  }

  const ModelRows& model_;
  const AnalyticJob& job_;
  const ParallelPlan& plan_;
  const costmodel::Network& network_;
  const costmodel::Constants& c_;
  costmodel::RateTable rates_;
  double memory_;
  std::vector<PartTime> times_;
};

PartTime Composer::time_of(const Part& part) const {
  PartTime t;
  t.forward = costmodel::times_of(part.forward, rates_);
  t.backward = costmodel::times_of(part.backward, rates_);
  t.repeats = part.span.repeats;
  if (plan_.micro_batch < 1 && model_.image) {  // a sample split over ranks
    for (auto* pass : {&t.forward, &t.backward}) {
      pass->all *= plan_.micro_batch;
      pass->queue = beside(pass->queue.host, pass->all);
    }
  }
  if (plan_.tp > 1) add_tensor_parallel(part, t);
  if (plan_.cp > 1) add_context_parallel(part, t);
  if (plan_.ep > 1) add_experts(part, t);
  add_recomputation(part, t);
  queue_passes(part, t);
  return t;
}

void Composer::add_tensor_parallel(const Part& part, PartTime& t) const {
  const double reductions = part.reductions * (plan_.parallel_blocks ? 0.5 : 1.0);
  const double whole = reductions * network_.seconds(CollectiveKind::AllReduce, part.reduction_bytes,
                                                     {plan_.tp, std::min(plan_.tp, network_.devices_per_node())}, c_);
  const bool on = plan_.tensor_overlap < 0 ? job_.framework.tensor_overlap : plan_.tensor_overlap > 0;
  const double hidden = on ? c_[C::TensorOverlap] : 0;
  const double behind_weights = job_.framework.backward_tensor_overlap || plan_.sequence_parallel ? 0.5 * c_[C::TensorOverlap] : 0;
  t.forward_tensor = whole * (1 - hidden);
  t.backward_tensor = whole * (1 - std::max(hidden, behind_weights));
  t.forward.launches += kKernelsPerReduction * part.reductions;
  t.backward.launches += kKernelsPerReduction * part.reductions;
}

/// Keys and values go round a ring of blocks beside the attention (Liu et al. 2023), part of it exposed.
void Composer::add_context_parallel(const Part& part, PartTime& t) const {
  constexpr double kForwardExposed = 0.15, kBackwardExposed = 0.3;
  const double rate = plan_.tp * plan_.cp <= network_.devices_per_node() ? network_.inside_rate(2, c_) : network_.card_rate(c_);
  const double around = part.key_value_bytes * (plan_.cp - 1) / rate;
  t.forward_tensor += std::max(0.0, around - t.forward.attention - 0.5 * t.forward.all) + kForwardExposed * around;
  t.backward_tensor += std::max(0.0, 2 * around - 0.5 * t.backward.all) + kBackwardExposed * around;
}

/// Tokens go to their experts and back, in either pass (Lepikhin et al., GShard, 2020).
void Composer::add_experts(const Part& part, PartTime& t) const {
  if (part.experts_bytes <= 0) return;
  const int together = std::clamp(network_.devices_per_node() / plan_.tp, 1, plan_.ep);
  const double both = 2 * network_.seconds(CollectiveKind::AllToAll, part.experts_bytes, {plan_.ep, together}, c_);
  t.forward_tensor += both;
  t.backward_tensor += both;
}

void Composer::add_recomputation(const Part& part, PartTime& t) const {
  const bool block = part.repeated || model_.image;
  if (!block) return;
  switch (plan_.recompute) {
    case Recompute::None:
      return;
    case Recompute::Full:
    case Recompute::FullExceptLast: {
      const bool stops = job_.framework.checkpoint_stops_early && !model_.image;
      t.again = t.forward.all - (stops ? costmodel::time_of(part.last_matmul, rates_) : 0);
      t.again_launches = t.forward.launches * kRecomputedLaunches;
      t.again_tensor = t.forward_tensor * (stops ? 0.5 : 1.0);
      if (plan_.recompute == Recompute::FullExceptLast) t.again *= 1 - 1 / plan_.micro_batches;
      return;
    }
    case Recompute::SelectiveOps:
      t.again = 0.5 * t.forward.matmul + t.forward.elementwise;
      t.again_launches = t.forward.launches * kRecomputedOpLaunches;
      t.again_tensor = 0.5 * t.forward_tensor;
      return;
    case Recompute::Selective:
      if (model_.fused_attention) return;
      t.again = t.forward.attention;
      t.again_launches = t.forward.attention_launches;
      return;
  }
}

LaunchQueue Composer::beside(double host, double device) const { return {host, device, std::max(host, device) + rates_.host}; }

void Composer::queue_passes(const Part& part, PartTime& t) const {
  if (plan_.zero >= 3 && plan_.dp > 1 && plan_.pp == 1) return gather_around(part, t);
  const double reductions = plan_.tp > 1 ? kKernelsPerReduction * part.reductions * rates_.host : 0;
  const auto again = beside(t.again_launches * rates_.host, t.again + t.again_tensor);
  t.forward_pass = t.forward.queue.then({reductions, t.forward_tensor, reductions + t.forward_tensor});
  t.backward_pass = t.backward.queue.then({reductions, t.backward_tensor, reductions + t.backward_tensor});
  if (t.again > 0) t.backward_pass = again.then(t.backward_pass);
}

/// A block whose parameters are gathered before each pass and whose gradients are scattered after.
void Composer::gather_around(const Part& part, PartTime& t) const {
  const double weight_bytes = job_.precision.element_bytes == 2 ? 2 : 4;
  const double host_forward = t.forward.launches * rates_.host, host_backward = (t.backward.launches + t.again_launches) * rates_.host;
  const double forward = t.forward.all + t.forward_tensor, backward = t.backward.all + t.backward_tensor + t.again + t.again_tensor;
  if (!part.repeated) {
    // Embeddings and heads: half of their gathering hides behind the neighbouring blocks.
    t.forward_pass = beside(host_forward, forward + 0.5 * collective(CollectiveKind::AllGather, part.parameters * weight_bytes));
    t.backward_pass = beside(host_backward, backward);
    return;
  }
  const double wire_bytes = plan_.fp32_reduction && job_.precision.element_bytes == 2 ? 4 : weight_bytes;
  const double pieces = job_.framework.gathers_layerwise ? 1 : kOperatorGathers;
  const double share = job_.framework.gathers_layerwise ? c_[C::ShardedOverlap] : 1;
  const double gather = pieces * collective(CollectiveKind::AllGather, part.parameters / pieces * weight_bytes);
  const double scatter = pieces * collective(CollectiveKind::ReduceScatter, part.parameters / pieces * wire_bytes);
  t.forward_pass = beside(host_forward, overlapped(forward, gather, share));
  t.backward_pass = beside(host_backward, overlapped(backward, scatter + (plan_.keeps_gathered ? 0 : gather), share));
}

/// Forward and backward passes of all parts, of part `only` `repeats` times.
LaunchQueue Composer::passes(std::size_t only, double repeats) const {
  LaunchQueue forward, backward;
  for (std::size_t p = 0; p < times_.size(); ++p) {
    const double n = p == only ? repeats : times_[p].repeats;
    forward = forward.then(times_[p].forward_pass.repeated(n));
    backward = times_[p].backward_pass.repeated(n).then(backward);
  }
  return forward.then(backward);
}

/// Gradients of every micro-batch but the first are added to the sum: read, read, written, unless the product does so as it writes.
double Composer::accumulation_seconds() const {
  if (plan_.micro_batches < 2 || plan_.optimizer == "none" || job_.framework.fused_accumulation) return 0;
  const double wide = job_.precision.element_bytes == 4 ? 4 : job_.framework.state.gradients, narrow = job_.precision.element_bytes;
  return (2 * wide + narrow) * parameters_of_rank(model_, plan_) * plan_.trained_share / (plan_.zero >= 2 ? plan_.dp : 1) / memory_;
}

double Composer::cast_seconds() const {
  const bool casts = job_.precision.element_bytes == 2 && job_.precision.autocast && plan_.zero < 3 && job_.framework.masters_cast;
  return casts ? parameters_of_rank(model_, plan_) * kCastBytes / memory_ : 0;
}

/// All micro-batches of a replica that is no pipeline: the host does not wait between them.
double Composer::single_stage() const {
  const auto once = passes(times_.size(), 0).then(on_device(cast_seconds() + accumulation_seconds()));
  return once.repeated(plan_.micro_batches).both;
}

/// Equal numbers of blocks per stage; what stands before and behind them goes with the last stage, which is the slowest.
std::vector<double> Composer::block_stages(std::size_t block) const {
  const double per_stage = times_[block].repeats / plan_.pp;
  const auto& t = times_[block];
  const auto inner = t.forward_pass.repeated(per_stage).then(t.backward_pass.repeated(per_stage)).then(on_device(accumulation_seconds()));
  std::vector<double> stages(static_cast<std::size_t>(plan_.pp), inner.both);
  stages.back() = passes(block, per_stage).then(on_device(accumulation_seconds() + cast_seconds())).both;
  return stages;
}

/// Contiguous stages of nearly equal time.
std::vector<double> Composer::balanced_stages() const {
  double total = 0, sum = 0;
  for (const auto& t : times_) total += t.seconds() * t.repeats;
  std::vector<double> stages(static_cast<std::size_t>(plan_.pp), 0.0);
  for (const auto& t : times_) {
    const double middle = sum + t.seconds() * t.repeats / 2;
    const auto stage = static_cast<std::size_t>(std::min<double>(plan_.pp - 1, std::floor(middle / total * plan_.pp)));
    stages[stage] += t.seconds() * t.repeats;
    sum += t.seconds() * t.repeats;
  }
  return stages;
}

double Composer::replica(StepTime& step) const {
  if (plan_.pp == 1) return single_stage();
  std::size_t block = 0;
  for (std::size_t p = 0; p < times_.size(); ++p)
    if (times_[p].seconds() * times_[p].repeats > times_[block].seconds() * times_[block].repeats) block = p;
  const bool blocks = !model_.image && times_[block].repeats >= plan_.pp;
  auto stages = blocks ? block_stages(block) : balanced_stages();
  const int per_stage_ranks = plan_.tp * plan_.dp * plan_.cp;
  const bool between = nodes() > 1 && per_stage_ranks >= network_.devices_per_node();
  const double boundary = model_.parts[blocks ? block : model_.parts.size() / 2].boundary_bytes;
  const double send = network_.send(boundary / plan_.tp, between, c_);
  for (auto& s : stages) s += 2 * c_[C::PipelineExposed] * send * plan_.interleave;
  double slowest = 0, sum = 0;
  for (const double s : stages) {
    slowest = std::max(slowest, s);
    sum += s;
  }
  const double seconds = pipeline_seconds(plan_.micro_batches, slowest, sum, plan_.gpipe ? 1 : plan_.interleave);
  step.bubble = seconds - plan_.micro_batches * slowest;
  return seconds;
}

double Composer::backward_window() const {
  double window = 0;
  for (const auto& t : times_) window += (t.backward.all + t.again) * t.repeats;
  return kOverlapWindow * window / plan_.pp;
}

int Composer::replicas_per_node() const {
  return std::clamp(network_.devices_per_node() / std::min(plan_.tp, network_.devices_per_node()), 1, std::max(1, plan_.dp));
}

/// Seconds of gradient reduction that do not hide behind the last backward pass.
double Composer::gradients(StepTime& step) const {
  const double reduced = parameters_of_rank(model_, plan_) * plan_.trained_share, element = gradient_bytes(job_);
  double exposed = 0;
  if (plan_.dp > 1 && (plan_.zero < 3 || plan_.pp > 1)) {
    const double weight_bytes = job_.precision.element_bytes == 2 ? 2 : 4;
    const bool whole = plan_.zero == 0 || (plan_.zero == 1 && job_.framework.sharded_after_all_reduce);
    double seconds = collective(whole ? CollectiveKind::AllReduce : CollectiveKind::ReduceScatter, reduced * element);
    if (plan_.zero > 0) seconds += collective(CollectiveKind::AllGather, reduced * weight_bytes);
    if (plan_.parameter_servers && nodes() > 1)
      seconds = std::max(seconds, 2 * reduced * element / (network_.card_rate(c_) * network_.devices_per_node()));
    step.gradient_communication = seconds;
    exposed = seconds;
    if (job_.framework.gradient_overlap && plan_.gradient_overlap) {
      const double window = backward_window();
      const double interference = c_[job_.framework.tuned_overlap ? C::OverlapInterferenceTuned : C::OverlapInterference];
      exposed = std::max(seconds - window, c_[C::OverlapTail] * seconds) + interference * std::min(seconds, window);
    }
  }
  if (plan_.pp > 1 && job_.framework.tied_embedding_reduction && !model_.parts.empty())
    exposed += network_.seconds(CollectiveKind::AllReduce, model_.parts.front().parameters * 2, {2, 1}, c_);
  return exposed;
}

double Composer::update() const {
  if (plan_.optimizer == "none") return 0;
  const auto* row = std::find_if(std::begin(kOptimizers), std::end(kOptimizers), [&](const auto& o) { return o.name == plan_.optimizer; });
  if (row == std::end(kOptimizers)) row = std::begin(kOptimizers);
  const bool composed = job_.framework.composed_optimizer && row->moments;
  const double bytes = composed ? kComposedBytes : job_.precision.element_bytes == 4 ? row->single : row->mixed;
  const double parameters = parameters_of_rank(model_, plan_) * plan_.trained_share / (plan_.zero > 0 ? plan_.dp : 1);
  double tensors = 0;
  for (const auto& part : model_.parts) tensors += part.parameter_tensors * part.span.repeats;
  const double per_tensor = composed ? kComposedKernels : kKernelsPerTensor;
  const double launches = job_.framework.fused_optimizer && !composed ? kFusedOptimizerKernels : per_tensor * tensors;
  return c_[C::OptimizerBytes] * parameters * bytes / memory_ + launches * kOptimizerLaunch;
}

double Composer::coordination() const {
  if (plan_.dp < 2 || job_.framework.coordination == costmodel::Coordination::None) return 0;
  return c_[job_.framework.coordination == costmodel::Coordination::Horovod ? C::CoordinationHorovod : C::CoordinationDdp] * 1e-3;
}

StepTime Composer::step() {
  StepTime s;
  const double compute = replica(s);
  s.exposed = gradients(s);
  s.optimizer = update();
  s.coordination = coordination();
  double matrix = 0, memory = 0;
  for (const auto& t : times_) {
    const double n = t.repeats / plan_.pp;
    s.forward += (t.forward.all + t.forward_tensor) * n;
    s.backward += (t.backward.all + t.backward_tensor + t.again + t.again_tensor) * n;
    s.tensor += (t.forward_tensor + t.backward_tensor + t.again_tensor) * n * plan_.micro_batches;
    s.recompute += t.again * n * plan_.micro_batches;
    s.host += t.passes().host * n;
    const double again = t.forward.all > 0 ? t.again / t.forward.all : 0;
    matrix += (t.forward.matrix * (1 + again) + t.backward.matrix) * n * plan_.micro_batches;
    memory += (t.forward.memory * (1 + again) + t.backward.memory) * n * plan_.micro_batches;
  }
  s.seconds = (compute + s.exposed + s.optimizer + s.coordination) * (1 + c_[C::Spread] * std::log2(nodes()));
  if (plan_.micro_batch < 1 && model_.image) s.seconds += kSpatialExchanges * kSpatialExchangeSeconds;
  s.matrix_share = std::min(1.0, matrix / s.seconds);
  s.memory_share = std::min(1.0, memory / s.seconds);
  return s;
}

}  // namespace

double pipeline_seconds(double micro_batches, double slowest, double sum, int interleave) {
  return micro_batches * slowest + (sum - slowest) / interleave;
}

double overlapped(double a, double b, double share) { return std::max(a, b) + share * std::min(a, b); }

double parameters_of_rank(const ModelRows& model, const ParallelPlan& plan) {
  double blocks = 0, rest = 0;
  for (const auto& part : model.parts) (part.span.repeats >= plan.pp && plan.pp > 1 ? blocks : rest) += part.parameters * part.span.repeats;
  if (plan.pp == 1) return rest;
  return blocks > 0 ? blocks / plan.pp + rest : rest / plan.pp;
}

double gradient_bytes(const AnalyticJob& job) {
  if (job.precision.element_bytes == 4) return 4;
  if (job.precision.autocast) return job.framework.gradient_bytes_amp;
  return job.precision.brain ? job.framework.gradient_bytes_bf16 : job.framework.gradient_bytes_fp16;
}

StepTime compose(const ModelRows& model, const AnalyticJob& job, const costmodel::Network& network, const costmodel::Constants& c) {
  return Composer(model, job, network, c).step();
}

}  // namespace rehearsal::predict::frameworks
