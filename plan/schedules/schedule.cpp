#include "plan/schedules/schedule.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/table.hpp"
#include "plan/schedules/schedule_rows.hpp"

namespace rehearsal::plan {
namespace {

/// A backward slot after which nothing of its pass is held any more.
bool releases(const PipelineSlot& slot, bool splits) { return slot.backward && (!splits || slot.part != GradientPart::Input); }

}  // namespace

int ScheduleRow::in_flight(int stage, const PipelineShape& s) const {
  if (asynchronous) return ahead(stage, s) + 1;
  std::vector<int> held(static_cast<std::size_t>(s.micro_batches), 0);  // passes of a micro-batch that are not over
  int first = 0, last = 0, most = 1;
  for (const auto& slot : order(stage, s)) {
    auto& passes = held[static_cast<std::size_t>(slot.micro_batch)];
    passes += slot.backward ? (releases(slot, splits_backward) ? -1 : 0) : 1;
    if (!slot.backward) first = std::min(first, slot.micro_batch), last = std::max(last, slot.micro_batch);
    while (first < s.micro_batches && held[static_cast<std::size_t>(first)] == 0) ++first;
    while (last > first && held[static_cast<std::size_t>(last)] == 0) --last;
    if (!slot.backward) most = std::max(most, last - first + 1);
  }
  return most;
}

int ScheduleRow::activations(int stage, const PipelineShape& s) const {
  if (asynchronous) return ahead(stage, s) + 1;
  int held = 0, most = 0;
  for (const auto& slot : order(stage, s)) {
    held += slot.backward ? (releases(slot, splits_backward) ? -1 : 0) : 1;
    most = std::max(most, held);
  }
  return most;
}

double ScheduleRow::bubble(int stages, int micro_batches) const {
  const PassTimes times;
  const auto seconds = idle(shape(stages, micro_batches), times);
  ensure(plain() && seconds.has_value(), "the bubble of a plain schedule is known");
  return *seconds / (micro_batches * times.sum());
}

std::span<const ScheduleRow> schedule_table() {
  static const auto kTable = rows_of(kSchedules);
  return kTable;
}

const ScheduleRow& schedule(std::string_view name) {
  std::string known;
  for (const auto& row : schedule_table()) {
    if (row.name == name) return row;
    known += (known.empty() ? "" : ", ") + std::string(row.name);
  }
  throw BadInput("schedule", "'" + std::string(name) + "' is not known; known schedules: " + known);
}

int part_of(ChunkPlacement placement, const PipelineShape& s, int stage, int chunk) {
  const bool back = placement != ChunkPlacement::Looped && chunk % 2 == 1;
  const int along = back ? s.stages - 1 - stage : stage;
  return placement == ChunkPlacement::Both ? along : chunk * s.stages + along;
}

int parts(ChunkPlacement placement, const PipelineShape& s) { return placement == ChunkPlacement::Both ? s.stages : s.stages * s.chunks; }

}  // namespace rehearsal::plan
