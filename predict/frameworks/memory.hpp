#pragma once

#include "plan/program/program.hpp"
#include "predict/frameworks/staged_step.hpp"

namespace rehearsal::predict::frameworks {

/// Bytes of the tensors of one rank. States are sharded as ZeRO says (Rajbhandari et al. 2020); activations are what the backward pass
/// needs again, for every pass that the schedule holds (Korthikanti et al. 2022, section 4).
struct RankMemory {
  /// What comes and goes within a step, as it is at one moment.
  struct Moment {
    double gradients = 0;    ///< that there are already
    double activations = 0;  ///< that are still there, or copies that an update makes
    double at_work = 0;      ///< of these, what one node or block has while it computes
    [[nodiscard]] double all() const { return gradients + activations; }
  };

  int stage = 0;
  bool segments_grow = false;  ///< the allocator's: then what one moment leaves serves the next, whatever its sizes
  double weights = 0, gradients = 0, optimizer = 0;
  double activations = 0;  ///< where they are most
  double gathered = 0;     ///< sharded parameters that are whole for the layers at work
  double host = 0;         ///< in the host's memory
  double update = 0;       ///< what the update needs beside the states, when the activations are gone
  Moment passing;          ///< the fullest one of the passes
  Moment fullest;          ///< of the step
  double apart = 0;        ///< activations, the loss's logits, what is at work and what the update needs, as if none had another's place
  [[nodiscard]] double states() const { return weights + gradients + optimizer + gathered; }
  [[nodiscard]] double all() const { return weights + optimizer + gathered + fullest.all(); }
};

/// Of one repetition of a part.
struct PassBytes {
  double each = 0;       ///< that every pass keeps on the device
  double at_work = 0;    ///< that the pass at work has besides
  double under_way = 0;  ///< of what is offloaded: on its way to the host or back
  double offloaded = 0;  ///< that every pass keeps in the host's memory
};
[[nodiscard]] PassBytes pass_bytes(const Part&, Recomputed, const FrameworkJob&, const ModelParts&);
/// Of the activations of a block, where only some blocks are offloaded: a mean over all of them.
[[nodiscard]] double offloaded_share(const FrameworkJob&, const ModelParts&);

/// Bytes that the least device of a stage has.
[[nodiscard]] double capacity_of(const StagedStep&, int stage);
/// Of the stage that fills most of what its devices have.
[[nodiscard]] RankMemory memory_of(const StagedStep&);
[[nodiscard]] RankMemory memory_of_stage(const StagedStep&, int stage);
/// Of one stage, as it comes and goes in a step: what device_reading() adds to tensors is not in it.
[[nodiscard]] plan::MemoryOutline outline_of(const StagedStep&, int stage);
/// What a checkpoint holds: weights that are trained, and all that the optimizer keeps for them, master weights included.
[[nodiscard]] Bytes checkpoint_bytes(const FrameworkJob&, const Weights&);
inline constexpr double kMemoryInUse = 0.97;  ///< of a device: an allocator never hands out more
/// Bytes on the device: tensors, and what allocator, context and buffers of communication add.
struct MemoryReading {
  double reading = 0;  ///< what the device reports
  double needed = 0;   ///< of that, when an allocator gives back what it holds for later
};
/// PyTorch's allocator holds what was freed for requests of like size: large ones of one moment seldom have the place of another's until
/// memory is short. `capacity` in bytes.
[[nodiscard]] MemoryReading device_memory(const RankMemory&, const costmodel::FrameworkProfile&, const costmodel::Constants&,
                                          double capacity);
/// What is reported, by plan::MemoryCategory. Workspace is what it has beyond the tensors. It has less where a compiler that lays out a
/// whole step gives tensors more of each other's places than is reckoned: activations are so much less, and once they are none all alike.
[[nodiscard]] std::vector<std::int64_t> by_category(const RankMemory&, std::int64_t reported);

}  // namespace rehearsal::predict::frameworks
