#pragma once
// A step dealt out to the stages of a pipeline: what the closed form and the Program of a framework are both made from.

#include <optional>
#include <vector>

#include "plan/schedules/schedule.hpp"
#include "predict/frameworks/stages.hpp"

namespace rehearsal::predict::frameworks {

/// What the stages of one kind of replica run on.
struct Lane {
  std::vector<std::size_t> groups;       ///< of nodes, by stage
  std::vector<const StepTimer*> timers;  ///< by stage
};

struct StagedStep {
  const FrameworkJob& job;
  const plan::ScheduleRow* schedule = nullptr;
  plan::PipelineShape shape;
  std::vector<Chunk> chunks;  ///< in the order in which a micro-batch passes them
  std::vector<Lane> lanes;    ///< kinds of replicas; the slowest sets the pace

  /// Which chunk of the model a stage's own chunk is.
  [[nodiscard]] std::size_t chunk_of(int stage, int own) const {
    return static_cast<std::size_t>(plan::part_of(schedule->placement, shape, stage, own));
  }
  /// Stage on which a chunk of the model is.
  [[nodiscard]] int stage_of(std::size_t chunk) const { return stage_of_chunk[chunk]; }
  /// Bytes of what a chunk hands to the next one, on one rank.
  [[nodiscard]] double boundary_bytes(std::size_t chunk) const;
  std::vector<int> stage_of_chunk;
};

/// Throws Refusal where the schedule is none that the framework has, or the model has fewer pieces than the pipeline has chunks.
/// `timers`: by group of nodes; those that the plan uses are set.
[[nodiscard]] StagedStep staged(const FrameworkJob&, const std::vector<std::optional<StepTimer>>& timers);

/// Fills buckets: gradients that are ready are summed when there are enough of them.
class BucketFiller {
 public:
  explicit BucketFiller(double capacity) : capacity_(capacity) {}
  /// Elements of a bucket that these make full; nothing while it has room.
  std::optional<double> add(double elements) {
    pending_ += elements;
    if (pending_ < capacity_) return std::nullopt;
    return take();
  }
  /// What is left at the end; nothing where that is nothing.
  std::optional<double> rest() { return pending_ > 0 ? std::optional(take()) : std::nullopt; }

 private:
  double take() {
    const double full = pending_;
    pending_ = 0;
    return full;
  }
  double capacity_, pending_ = 0;
};
/// Elements of the buckets that a chunk's gradients fill in the order in which they are whole.
[[nodiscard]] std::vector<double> gradient_buckets(const StepTimer&, const Chunk&, double capacity);
/// Elements of one bucket.
[[nodiscard]] double bucket_elements(const FrameworkJob&, const costmodel::Precision&);

}  // namespace rehearsal::predict::frameworks
