#pragma once
// Pipeline schedules as rows: the order in which a stage runs forward and backward passes of micro-batches through its chunks of the model.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rehearsal::plan {

/// What of a backward pass a slot runs. Zero-bubble schedules run the gradients of weights later, where a stage would wait.
enum class GradientPart : std::uint8_t { Both, Input, Weights };

struct PipelineSlot {
  bool backward = false;
  int micro_batch = 0;
  int chunk = 0;
  GradientPart part = GradientPart::Both;  ///< of a backward slot
  friend bool operator==(const PipelineSlot&, const PipelineSlot&) = default;
};

struct PipelineShape {
  int stages = 1, micro_batches = 1;
  int chunks = 1;  ///< of the model, on every stage
};

/// Where the parts of the model that follow each other lie.
enum class ChunkPlacement : std::uint8_t {
  Looped,  ///< part k on stage k mod p, chunk k / p
  V,       ///< there and back: the first p parts on stages 0 ... p-1, the next p on p-1 ... 0
  Both,    ///< every part twice: chunk 0 of stage s is part s, chunk 1 part p-1-s; each micro-batch goes through one of the two copies
};

/// Seconds of one chunk's passes, the same on every stage; a whole backward pass takes both gradients' time.
struct PassTimes {
  double forward = 1, input_gradient = 1, weight_gradient = 1;
  [[nodiscard]] double sum() const { return forward + input_gradient + weight_gradient; }
};

struct ScheduleRow {
  std::string_view name;         ///< "gpipe", "1f1b"
  std::string_view description;  ///< with its source
  /// Every slot of a stage in a step, in order. Micro-batches 0 ... m-1 pass each chunk forward, then backward (ChunkPlacement::Both: even
  /// ones chunk 0, odd ones chunk 1). Asynchronous rows: forward passes are ahead(), so the last ones are of the steps that follow (m, m+1,
  /// ...).
  std::vector<PipelineSlot> (*order)(int stage, const PipelineShape&);
  /// Idle seconds of the stage that takes longest from its first slot to its last, when messages are free; nothing where no closed form is
  /// known. Zero-bubble rows: exact as their description says.
  std::optional<double> (*idle)(const PipelineShape&, const PassTimes&);
  int chunks = 1;  ///< that it wants on a stage; 0: as many as the plan's `interleave`
  ChunkPlacement placement = ChunkPlacement::Looped;
  bool splits_backward = false;
  /// Different mathematics: passes of a micro-batch use older weights, and steps follow each other without a flush.
  bool asynchronous = false;
  std::string_view gradients = {};  ///< of which weights they are, where asynchronous
  /// Versions of the weights that a stage keeps; nullptr: 1.
  int (*versions)(int stage, const PipelineShape&) = nullptr;
  /// Why a shape cannot be scheduled; empty when it can. nullptr: every shape can.
  std::string (*refusal)(const PipelineShape&) = nullptr;

  /// One chunk and whole backward passes, step by step: what a stage of one body each can play.
  [[nodiscard]] bool plain() const { return chunks == 1 && !splits_backward && !asynchronous; }
  [[nodiscard]] std::vector<PipelineSlot> slots(int stage, int stages, int micro_batches) const {
    return order(stage, shape(stages, micro_batches));
  }
  /// Places for micro-batches that a stage needs when each takes the one of its number modulo so many: from the oldest that still has a
  /// gradient to come, to the newest that has begun.
  [[nodiscard]] int in_flight(int stage, int stages, int micro_batches) const { return in_flight(stage, shape(stages, micro_batches)); }
  [[nodiscard]] int in_flight(int stage, const PipelineShape&) const;
  /// Passes of chunks forward whose last gradient is still to come, at most.
  [[nodiscard]] int activations(int stage, const PipelineShape&) const;
  [[nodiscard]] int weight_versions(int stage, const PipelineShape& s) const { return versions == nullptr ? 1 : versions(stage, s); }
  /// Micro-batches by which forward passes of a stage are ahead of its backward passes when a step begins: one for each stage behind it
  /// where steps follow each other without a flush.
  [[nodiscard]] int ahead(int stage, const PipelineShape& s) const { return asynchronous ? s.stages - 1 - stage : 0; }
  /// Bubble time ÷ ideal time when every stage takes the same forward and backward time and messages are free. Only for plain rows.
  [[nodiscard]] double bubble(int stages, int micro_batches) const;
  [[nodiscard]] PipelineShape shape(int stages, int micro_batches) const { return {stages, micro_batches, chunks == 0 ? 1 : chunks}; }
};

[[nodiscard]] std::span<const ScheduleRow> schedule_table();
/// Throws BadInput naming the schedule and listing the known ones.
[[nodiscard]] const ScheduleRow& schedule(std::string_view name);

/// Which part of the model a chunk of a stage is, counted from the input; ChunkPlacement::Both: of its copy.
[[nodiscard]] int part_of(ChunkPlacement, const PipelineShape&, int stage, int chunk);
/// Parts that a micro-batch passes.
[[nodiscard]] int parts(ChunkPlacement, const PipelineShape&);

}  // namespace rehearsal::plan
