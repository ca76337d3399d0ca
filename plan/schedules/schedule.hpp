#pragma once
// Pipeline schedules as rows: the order in which a stage runs forward and backward passes of micro-batches.

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace rehearsal::plan {

struct PipelineSlot {
  bool backward = false;
  int micro_batch = 0;
};

struct ScheduleRow {
  std::string_view name;         ///< "gpipe", "1f1b"
  std::string_view description;  ///< with its source
  std::vector<PipelineSlot> (*slots)(int stage, int stages, int micro_batches);
  /// Micro-batches whose activations a stage holds at once at most.
  int (*in_flight)(int stage, int stages, int micro_batches);
  /// Bubble time ÷ ideal time when every stage takes the same forward and backward time and messages are free.
  double (*bubble)(int stages, int micro_batches);
};

[[nodiscard]] std::span<const ScheduleRow> schedule_table();
/// Throws BadInput naming the schedule and listing the known ones.
[[nodiscard]] const ScheduleRow& schedule(std::string_view name);

}  // namespace rehearsal::plan
