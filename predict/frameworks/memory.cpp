#include "predict/frameworks/memory.hpp"

#include <algorithm>
#include <cmath>

#include "predict/frameworks/compose.hpp"

namespace rehearsal::predict::frameworks {
namespace {

using C = costmodel::Coefficient;

constexpr double kGibi = 1024.0 * 1024.0 * 1024.0;
constexpr double kGatheredCopies = 2;  // layers whose gathered parameters are there at once under ZeRO-3
constexpr double kSelectiveOpShare = 0.4, kSelectiveOpRest = 0.3;
constexpr double kLogitBytes16 = 10, kLogitBytes32 = 12;

costmodel::StateBytes state_bytes(const AnalyticJob& job) {
  costmodel::StateBytes s = job.framework.state;
  const auto& name = job.plan.optimizer;
  const bool one_slot = name == "sgd" || name == "momentum" || name == "lars" || name == "rmsprop" || name == "adagrad";
  const double slots = one_slot ? 4 : 8;  // momentum, or two moments, in fp32
  if (job.precision.element_bytes == 4) return {4, 4, slots};
  if (name == "sgd") s.optimizer = s.weights >= 4 ? 4 : 8;
  return s;
}

double kept_of(const Kept& k, const AnalyticJob& job) { return k.replicated / (job.plan.sequence_parallel ? job.plan.tp : 1) + k.split; }

double states_of(const ModelRows& model, const AnalyticJob& job) {
  const auto& p = job.plan;
  const auto bytes = state_bytes(job);
  const double shards = p.zero > 0 ? static_cast<double>(p.dp) * p.cp : 1, parameters = parameters_of_rank(model, p);
  const double trained = parameters * p.trained_share;
  double states = parameters * bytes.weights / (p.zero >= 3 ? shards : 1) + trained * bytes.gradients / (p.zero >= 2 ? shards : 1) +
                  trained * bytes.optimizer / shards;
  if (p.zero < 3) return states;
  double largest = 0;
  for (const auto& part : model.parts) largest = std::max(largest, part.parameters);
  return states + kGatheredCopies * job.precision.element_bytes * largest;
}

/// Of one block: what every block keeps, and what the one at work has besides.
struct BlockBytes {
  double each = 0, at_work = 0;
};

BlockBytes block_bytes(const Part& part, const AnalyticJob& job) {
  const double base = kept_of(part.kept, job), attention = part.kept.attention;
  const double input = part.boundary_bytes / (job.plan.sequence_parallel ? job.plan.tp : 1);
  switch (job.plan.recompute) {
    case Recompute::Full:
    case Recompute::FullExceptLast:
      return {input, base + attention};
    case Recompute::SelectiveOps:
      return {base * kSelectiveOpShare, base * kSelectiveOpRest};
    case Recompute::Selective:
      return {base, attention};
    case Recompute::None:
      break;
  }
  return {base + attention, 0};
}

/// Stages recomputed as a whole: every micro-batch keeps the input of its stage, the one at work all that its backward pass needs (Huang
/// et al. 2019, section 2.3).
double checkpointed_stages(const ModelRows& model, const AnalyticJob& job) {
  double kept = 0, boundary = 0, parts = 0;
  for (const auto& part : model.parts) {
    kept += (kept_of(part.kept, job) + part.kept.attention) * part.span.repeats;
    boundary += part.boundary_bytes * part.span.repeats;
    parts += part.span.repeats;
  }
  return kept / job.plan.pp + boundary / std::max(1.0, parts) * job.plan.micro_batches;
}

double in_flight(const ParallelPlan& p) {
  if (p.pp == 1) return 1;
  if (p.gpipe) return p.micro_batches;
  const double stages = std::min<double>(p.micro_batches, p.pp);
  return p.interleave > 1 ? stages * (1 + (p.pp - 1.0) / (static_cast<double>(p.pp) * p.interleave)) : stages;
}

}  // namespace

JobMemory memory_of(const ModelRows& model, const AnalyticJob& job) {
  const auto& p = job.plan;
  JobMemory memory{states_of(model, job), 0};
  const bool recomputes = p.recompute == Recompute::Full || p.recompute == Recompute::FullExceptLast;
  if (recomputes && job.framework.checkpoints_stages) {
    memory.activations = checkpointed_stages(model, job);
    return memory;
  }
  double rest = 0, at_work = 0;
  for (const auto& part : model.parts) {
    const bool block = part.span.repeats >= std::max(2, p.pp) || model.image;
    if (!block) {
      rest += p.pp == 1 ? kept_of(part.kept, job) + part.kept.attention : 0;
      continue;
    }
    const auto bytes = block_bytes(part, job);
    memory.activations += bytes.each * part.span.repeats / p.pp * in_flight(p);
    at_work = std::max(at_work, bytes.at_work);
  }
  if (p.pp == 1 && !model.image) rest += model.logits * (job.precision.element_bytes == 2 ? kLogitBytes16 : kLogitBytes32);
  memory.activations += at_work + rest;
  return memory;
}

double device_reading(const JobMemory& m, const AnalyticJob& job, const costmodel::Constants& c) {
  constexpr C kFactors[] = {C::MemoryFactorDeepspeed, C::MemoryFactorPytorch, C::MemoryFactorStatic};
  constexpr C kReserves[] = {C::MemoryReserveDeepspeed, C::MemoryReservePytorch, C::MemoryReserveStatic};
  const auto allocator = static_cast<std::size_t>(job.framework.allocator);
  return (m.states + m.activations) * c[kFactors[allocator]] + c[kReserves[allocator]] * kGibi;
}

}  // namespace rehearsal::predict::frameworks
