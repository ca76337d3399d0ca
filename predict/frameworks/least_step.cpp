#include "predict/frameworks/least_step.hpp"

#include <algorithm>

namespace rehearsal::predict::frameworks {
namespace {

constexpr double kRounding = 1 - 1e-9;  // the closed form adds up in another order

/// Seconds of a chunk's kernels.
struct LeastPasses {
  costmodel::LaunchQueue forward, backward;
  costmodel::LaunchQueue first_gradients;  ///< what the stage before waits for
  costmodel::LaunchQueue kept_gradients;   ///< the same of a micro-batch of which nothing is computed again
  costmodel::LaunchQueue again;            ///< of `backward`, what is computed again
  double messages = 0;                     ///< gathers and scatters of sharded parameters in both passes, one after the other
  Weights weights;
  double tensors = 0;  ///< that are trained
};

LeastPasses passes_of(const StagedStep& step, const StepTimer& timer, const Chunk& chunk) {
  LeastPasses p;
  const bool gathers = gathers_every_pass(step.job);
  for (const auto& piece : chunk) {
    const auto& part = timer.time_of(piece.part, piece.recompute);
    const double n = piece.count;
    p.forward = p.forward.then(part.forward.queue.repeated(piece.count));
    p.backward = p.backward.then(part.whole_backward.repeated(piece.count));
    p.first_gradients =
        p.first_gradients.then((step.schedule->splits_backward ? part.input_gradients : part.whole_backward).repeated(piece.count));
    p.kept_gradients = p.kept_gradients.then(part.backward.queue.repeated(piece.count));
    p.again = p.again.then(part.again.queue.repeated(piece.count));
    if (gathers) p.messages += n * (part.gather * (step.job.recipe.keeps_gathered ? 1 : 2) + part.scatter);
  }
  p.weights = weights_of(timer.model(), chunk);
  p.tensors = trained_tensors_of(timer.model(), chunk);
  return p;
}

/// One kind of replica.
class ReplicaBound {
 public:
  ReplicaBound(const StagedStep& step, const ReplicaKind& lane) : step_(step), lane_(lane) {
    for (std::size_t c = 0; c < step.chunks.size(); ++c) chunks_.push_back(passes_of(step, timer(step.stage_of(c)), step.chunks[c]));
  }

  [[nodiscard]] StepTime most() const {
    StepTime most;
    double before = 0, behind = 0;  // the way of a micro-batch to this chunk, and from it back to the first one
    std::vector<bool> seen(static_cast<std::size_t>(step_.shape.stages), false);
    for (std::size_t c = 0; c < chunks_.size(); ++c) {
      const int stage = step_.stage_of(c);
      if (!seen[static_cast<std::size_t>(stage)]) {
        seen[static_cast<std::size_t>(stage)] = true;
        const double seconds = stage_seconds(stage, before, behind);
        if (seconds > most.seconds) most.seconds = seconds, most.stage = stage;
      }
      before += chunks_[c].forward.both + send(c);
      behind += (spares_last() ? chunks_[c].kept_gradients : chunks_[c].first_gradients).both + send(c);
    }
    return most;
  }

 private:
  /// Nothing is computed again of the micro-batch behind whose gradients a step ends.
  [[nodiscard]] bool spares_last() const { return step_.job.recomputed() == plan::RecomputeRule::FullExceptLast; }
  [[nodiscard]] const StepTimer& timer(int stage) const { return *lane_.timers[static_cast<std::size_t>(stage)]; }

  [[nodiscard]] double send(std::size_t c) const {
    const int from = step_.stage_of(c);
    if (c + 1 == chunks_.size() || step_.stage_of(c + 1) == from) return 0;
    return timer(from).send(step_.boundary_bytes(c), timer(step_.stage_of(c + 1)));
  }

  [[nodiscard]] double stage_seconds(int stage, double before, double behind) const {
    const auto& timer = this->timer(stage);
    const double m = step_.shape.micro_batches;
    double messages = 0, tensors = 0;
    Weights weights;
    for (int n = 0; n < step_.shape.chunks; ++n) {
      const auto& p = chunks_[step_.chunk_of(stage, n)];
      weights += p.weights, tensors += p.tensors, messages += p.messages;
    }
    const double updated = timer.update(weights, tensors) + reduced_apart(timer, stage) + timer.coordination();
    // The device's kernels follow each other, and so does what the host does to launch them.
    const double device = m * timer.cast(weights.all);
    const double whole = std::max(device + own(stage, &LeastPasses::backward, &costmodel::LaunchQueue::device),
                                  own(stage, &LeastPasses::backward, &costmodel::LaunchQueue::host));
    const double back = std::max(device + own(stage, &LeastPasses::first_gradients, &costmodel::LaunchQueue::device),
                                 own(stage, &LeastPasses::first_gradients, &costmodel::LaunchQueue::host));
    return std::max({before + whole + updated, before + back + behind, m * messages});
  }

  /// Forward and (first) backward passes of all micro-batches through a stage's chunks.
  [[nodiscard]] double own(int stage, costmodel::LaunchQueue LeastPasses::*backward, double costmodel::LaunchQueue::*clock) const {
    double seconds = 0;
    for (int n = 0; n < step_.shape.chunks; ++n) {
      const auto& p = chunks_[step_.chunk_of(stage, n)];
      seconds += step_.shape.micro_batches * (p.forward.*clock + (p.*backward).*clock);
      if (spares_last()) seconds -= p.again.*clock;
    }
    return seconds;
  }

  /// Sums of gradients that nothing runs beside, and parameters that come back from them.
  [[nodiscard]] double reduced_apart(const StepTimer& timer, int stage) const {
    if (!has_replicas(step_.job) || overlaps(step_.job) || gathers_every_pass(step_.job)) return 0;
    const double capacity = bucket_elements(step_.job, step_.job.precision_on(lane_.devices.groups[static_cast<std::size_t>(stage)]));
    double seconds = 0, parameters = 0;
    for (int n = 0; n < step_.shape.chunks; ++n) {
      const auto& chunk = step_.chunks[step_.chunk_of(stage, n)];
      for (const double bucket : gradient_buckets(timer, chunk, capacity)) seconds += timer.reduction(bucket);
      parameters += weights_of(timer.model(), chunk).trained;
    }
    return seconds + (step_.job.plan.zero > 0 ? timer.parameter_gather(parameters) : 0);
  }

  const StagedStep& step_;
  const ReplicaKind& lane_;
  std::vector<LeastPasses> chunks_;
};

}  // namespace

StepTime least_step(const StagedStep& step) {
  StepTime most;
  for (const auto& lane : step.lanes)
    if (auto own = ReplicaBound(step, lane).most(); own.seconds > most.seconds) most = own, most.first_rank = lane.devices.first_rank;
  most.seconds *= kRounding;
  add_contents(step, most);
  return most;
}

}  // namespace rehearsal::predict::frameworks
