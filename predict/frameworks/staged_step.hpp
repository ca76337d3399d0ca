#pragma once
// A step split over the stages of a pipeline: what the closed form and the Program of a framework are both made from.

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <tuple>
#include <vector>

#include "plan/schedules/schedule.hpp"
#include "predict/frameworks/stage_parts.hpp"

namespace rehearsal::predict::frameworks {

/// What the stages of one kind of replica run on.
struct ReplicaKind {
  StageDevices devices;
  std::vector<const StepTimer*> timers;  ///< by stage
};

struct StagedStep {
  const FrameworkJob& job;
  const plan::ScheduleRow* schedule = nullptr;
  plan::PipelineShape shape;
  std::span<const Chunk> chunks;   ///< in the order in which a micro-batch passes them
  std::vector<ReplicaKind> lanes;  ///< kinds of replicas; the slowest sets the pace
  std::span<const int> held;       ///< by stage: passes of chunks whose activations it keeps at once

  /// Which chunk of the model a stage's own chunk is.
  [[nodiscard]] std::size_t chunk_of(int stage, int own) const {
    return static_cast<std::size_t>(plan::part_of(schedule->placement, shape, stage, own));
  }
  /// Stage on which a chunk of the model is.
  [[nodiscard]] int stage_of(std::size_t chunk) const { return stage_of_chunk[chunk]; }
  /// Does the stage of a chunk sum the gradients of its last pass behind it, beside the sums of the stages before? It would wait for
  /// them, and a sum beside the pass would slow what they wait for. Megatron-Core's schedules do so: all stages but the first reduce in
  /// the bubble (core/pipeline_parallel/schedules.py, `grad_sync_func`).
  [[nodiscard]] bool sums_in_bubble(std::size_t chunk) const {
    return stage_of(chunk) != stage_of(0) && chunk == chunk_of(stage_of(chunk), 0);
  }
  /// Seconds that so many bytes take from a stage on nodes of a kind to another stage; where that is on several kinds, the longest.
  [[nodiscard]] double send_seconds(StagePlace from, int to, double bytes) const;
  /// Bytes of what a chunk hands to the next one, on one rank.
  [[nodiscard]] double boundary_bytes(std::size_t chunk) const;
  std::vector<int> stage_of_chunk;
};

/// Of every stage on every kind of nodes that a job's plan has ranks on; those whose ranks lie alike share one.
class Timers {
 public:
  /// The model's parts on nodes of a kind, which outlive the timers.
  using PartsOn = std::function<const ModelParts&(std::size_t kind)>;
  Timers(const FrameworkJob&, const NodeLinks&, const costmodel::Constants&, const PartsOn&);
  [[nodiscard]] const StepTimer& of(StagePlace place) const { return *places_.at(place); }

 private:
  std::vector<std::pair<RanksAlike, std::unique_ptr<const StepTimer>>> owned_;
  std::map<StagePlace, const StepTimer*> places_;
};

/// Cuts one plan after the other: what many of them share is found once.
class Stager {
 public:
  /// The step lives no longer than this, the job and the timers. Throws Refusal where the schedule is none that the framework has, or the
  /// model has fewer pieces than the pipeline has chunks. `timers`: those of another place in memory are taken for others.
  [[nodiscard]] StagedStep staged(const FrameworkJob&, const Timers&);
  /// To be called before timers that have been used end.
  void forget(const Timers&);

 private:
  using ShapeKey = std::tuple<const plan::ScheduleRow*, int, int, int>;  ///< stages, chunks, micro-batches
  std::map<ShapeKey, std::vector<int>> held_;
  using CutKey = std::tuple<plan::ChunkPlacement, int, int, int>;  ///< stages, chunks, recomputed blocks
  std::map<const Timers*, std::map<CutKey, std::vector<Chunk>>> cuts_;
};

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
