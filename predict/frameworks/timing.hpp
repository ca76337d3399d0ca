#pragma once
// How long everything lasts that a step of a framework is made of, on ranks of one stage and one kind of nodes.

#include <vector>

#include "costmodel/cost_model.hpp"
#include "costmodel/kernel_rows.hpp"
#include "predict/frameworks/framework_job.hpp"
#include "predict/frameworks/model_part.hpp"
#include "predict/frameworks/node_links.hpp"

namespace rehearsal::predict::frameworks {

/// Source of a step that is none of the part: waiting for activations on their way to the host or back.
inline constexpr std::uint32_t kHostTransfer = ~std::uint32_t{0};

struct TimedStep {
  costmodel::LaunchQueue queue;
  std::uint32_t source = 0;  ///< index of the step in Part::forward or Part::backward
  bool exchange = false, weight_gradient = false;
};

/// Steps of a pass in a row.
struct TimedPass {
  std::vector<TimedStep> steps;
  costmodel::LaunchQueue queue;
  double kernels = 0, exchanges = 0;  ///< seconds of the device
  double matrix = 0, memory = 0;      ///< of these in arithmetic, and in bytes of element-wise kernels
  void add(const TimedStep&);
};

/// Gradients of parameters that are whole after a step of the backward pass.
struct ReadyGradients {
  std::size_t steps = 0;  ///< of the backward pass that have run by then
  double elements = 0;
};

/// A run of backward steps up to the next gradients that are ready, or to the end (no elements).
struct BackwardSegment {
  costmodel::LaunchQueue queue;
  double elements = 0;
};

/// What ranks exchange of experts that they share out, under ZeRO-3: nothing where every rank has its own ones whole.
struct ExpertMessages {
  double gather_bytes = 0, gradients = 0;  ///< elements of gradients
  double gather = 0, scatter = 0;          ///< seconds
};

struct PartTime {
  TimedPass forward;
  TimedPass again;  ///< what the backward pass fetches and computes again before it begins
  TimedPass backward;
  std::vector<ReadyGradients> ready;
  costmodel::LaunchQueue whole_backward;                     ///< again, then backward
  costmodel::LaunchQueue input_gradients, weight_gradients;  ///< the same for schedules that put off gradients of weights
  std::vector<BackwardSegment> segments;                     ///< of whole_backward
  std::vector<BackwardSegment> weight_segments;              ///< of weight_gradients
  double gather = 0, scatter = 0;                            ///< of one repetition's parameters and gradients among the replicas (ZeRO-3)
  double gather_bytes = 0;                                   ///< of what `gather` gathers, but for experts
  ExpertMessages experts;                                    ///< seconds are in `gather` and `scatter`
  double sum_of_copies = 0;  ///< of `scatter`: groups of replicas with copies of each other's parts sum them
};

/// What is computed again of a repetition of a part: what the plan says, or nothing where the plan says it of other repetitions.
enum class Recomputed : std::uint8_t { AsPlanned, Nothing };

/// Ranks on nodes of one kind whose groups lie alike: all take equally long.
struct RanksAlike {
  std::size_t kind = 0;
  RankGroups groups;
  friend bool operator==(const RanksAlike&, const RanksAlike&) = default;
};

class StepTimer {
 public:
  StepTimer(const ModelParts&, const FrameworkJob&, const NodeLinks&, const costmodel::Constants&, RanksAlike);

  /// The same at a share of the device's clock: kernels take as much longer, what travels does not.
  [[nodiscard]] StepTimer at_clock(double share) const;

  [[nodiscard]] const ModelParts& model() const { return model_; }
  [[nodiscard]] const std::vector<PartTime>& parts() const { return parts_; }
  [[nodiscard]] const PartTime& time_of(std::size_t part, Recomputed recompute) const {
    return (recompute == Recomputed::Nothing ? kept_parts_ : parts_)[part];
  }
  /// A sum of so many gradients over the replicas, as the plan's ZeRO makes it.
  [[nodiscard]] double reduction(double elements) const;
  /// The part of it by which groups of replicas that have copies of each other's parts add these up; 0 where there is one group.
  [[nodiscard]] double sum_of_copies(double elements) const;
  /// Bytes of one gathered parameter, in the mean over those that are trained.
  [[nodiscard]] double gathered_bytes() const { return gathered_bytes_; }
  /// Updated parameters back to all replicas.
  [[nodiscard]] double parameter_gather(double elements) const;
  /// Of so many bytes to a stage next to it, or from there, which these are the ranks of.
  [[nodiscard]] double send(double bytes, const StepTimer& other) const;
  /// Gradients of a micro-batch are added to those of the ones before; 0 where that costs nothing.
  [[nodiscard]] double accumulation(double parameters) const;
  /// 16-bit copies of fp32 weights, made for every micro-batch.
  [[nodiscard]] double cast(double parameters) const;
  [[nodiscard]] double update(const Weights&, double tensors) const;
  /// Of the gradients of an embedding that first and last stage share, which they exchange; 0 where they share none.
  [[nodiscard]] double tied_embedding_bytes() const;
  /// A fixed cost of every data-parallel step.
  [[nodiscard]] double coordination() const;
  /// Messages are moved by the threads that compute.
  [[nodiscard]] bool host_progressed() const { return costmodel::host_progressed(device_); }
  /// Share of its speed that computation loses while gradients or parameters travel.
  [[nodiscard]] double interference() const;

 private:
  void time_parts();
  void time(const Part&, Recomputed, PartTime&) const;
  [[nodiscard]] TimedStep timed(const PassStep&, std::size_t index, double exchange_seconds) const;
  [[nodiscard]] TimedPass pass(const std::vector<PassStep>&, bool backward) const;
  void add_transfers(const Part&, Recomputed, PartTime&) const;
  void add_sharded(const Part&, PartTime&) const;
  [[nodiscard]] double update_bytes(const Weights&) const;
  [[nodiscard]] double narrowing_bytes(double all, double own) const;
  [[nodiscard]] double update_on_host(const Weights& own) const;
  [[nodiscard]] TimedPass recomputed(const Part&, const TimedPass& forward) const;
  [[nodiscard]] bool is_recomputed(const Part&, const PassStep&, int& products) const;
  [[nodiscard]] double exchange_seconds(const Exchange&, bool backward) const;
  [[nodiscard]] double expert_seconds(const Exchange&) const;
  [[nodiscard]] double ring_seconds(const Exchange&, const TimedPass& kernels, double attention, bool backward) const;
  [[nodiscard]] double seconds(costmodel::CollectiveKind kind, double bytes, const PlacedGroup&) const;
  [[nodiscard]] double collective(costmodel::CollectiveKind kind, double bytes, const PlacedGroup&) const;
  [[nodiscard]] double sum_of_copied_bytes(double bytes) const;
  [[nodiscard]] double mean_gathered_bytes() const;

  const ModelParts& model_;
  const FrameworkJob& job_;
  const NodeLinks& links_;
  const costmodel::Constants& c_;
  const platforms::NodeGroup& node_;
  const platforms::Device& device_;
  costmodel::Precision precision_;
  std::size_t kind_;
  RankGroups groups_;
  costmodel::RateTable rates_;
  double memory_ = 0, gathered_bytes_ = 0;
  double slowdown_ = 1;  ///< of everything, by stragglers among many nodes
  double clock_ = 1;     ///< of the device, as a share of its own
  std::vector<PartTime> parts_;
  std::vector<PartTime> kept_parts_;  ///< where some blocks are not recomputed
};

/// Whether weights may be gathered in 8 bits: those of fp8 products with scales per tensor or block. Scales along what a product sums over,
/// per row or of 32 values (mxfp8), are other ones in the backward pass, which therefore needs the weights in 16 bits.
[[nodiscard]] bool has_fp8_weights(const costmodel::Precision&);
/// Bytes of one gathered parameter, of a block that repeats (fp8 products are there) or of what is around the blocks.
[[nodiscard]] double gathered_bytes(const FrameworkJob&, const costmodel::Precision&, bool of_block);
/// Bytes of one gradient element on the wire.
[[nodiscard]] double gradient_bytes(const FrameworkJob&, const costmodel::Precision&);
/// Whether the replicas sum gradients block by block and gather parameters before every pass (ZeRO-3, FSDP). Pipelines gather once a step.
[[nodiscard]] bool gathers_every_pass(const FrameworkJob&);
/// Whether gradients are summed whole, on every replica.
[[nodiscard]] bool sums_whole_gradients(const FrameworkJob&);
/// Whether a rank keeps its part of the gradients alone, and so takes in its part of the sum after every micro-batch (ZeRO-2, Rajbhandari
/// et al., SC 2020, section 7.1; DeepSpeed's stage 2, FSDP's SHARD_GRAD_OP).
[[nodiscard]] bool scatters_every_micro_batch(const FrameworkJob&);
/// Whether a rank adds up whole gradients until the step's last pass. Pipelines do, also under ZeRO-3: PyTorch's stages scatter them, and
/// let go of gathered parameters, after the last micro-batch.
[[nodiscard]] bool keeps_whole_gradients(const FrameworkJob&);
/// Whether several ranks have the same parameters and other samples or tokens.
[[nodiscard]] bool has_replicas(const FrameworkJob&);
/// Whether sums of gradients and gathers of parameters run beside the passes.
[[nodiscard]] bool overlaps(const FrameworkJob&);

}  // namespace rehearsal::predict::frameworks
