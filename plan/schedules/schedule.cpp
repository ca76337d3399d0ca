#include "plan/schedules/schedule.hpp"

#include <algorithm>
#include <array>
#include <string>

#include "base/error.hpp"
#include "base/join.hpp"

namespace rehearsal::plan {
namespace {

std::vector<PipelineSlot> gpipe_slots(int, int, int micro_batches) {
  std::vector<PipelineSlot> slots;
  for (int m = 0; m < micro_batches; ++m) slots.push_back({false, m});
  for (int m = 0; m < micro_batches; ++m) slots.push_back({true, m});
  return slots;
}

int gpipe_in_flight(int, int, int micro_batches) { return micro_batches; }

int one_f_one_b_in_flight(int stage, int stages, int micro_batches) { return std::min(micro_batches, stages - stage); }

std::vector<PipelineSlot> one_f_one_b_slots(int stage, int stages, int micro_batches) {
  std::vector<PipelineSlot> slots;
  const int ahead = one_f_one_b_in_flight(stage, stages, micro_batches);  // forwards before the first backward
  for (int m = 0; m < ahead; ++m) slots.push_back({false, m});
  for (int m = 0; m < micro_batches; ++m) {
    slots.push_back({true, m});
    if (m + ahead < micro_batches) slots.push_back({false, m + ahead});
  }
  return slots;
}

/// p - 1 stages wait for the first micro-batch and for the last gradient: (p-1)(f+b) of idle time against m(f+b) of work.
double fill_and_drain_bubble(int stages, int micro_batches) { return static_cast<double>(stages - 1) / micro_batches; }

constexpr std::array kTable{
    ScheduleRow{"gpipe", "all forward passes, then all backward passes (Huang et al., GPipe, NeurIPS 2019, section 2.3)", gpipe_slots,
                gpipe_in_flight, fill_and_drain_bubble},
    ScheduleRow{"1f1b",
                "one forward, one backward in turn once the pipe is full, flushed at the end of the step; holds fewer activations "
                "(PipeDream-Flush: Narayanan et al., Memory-Efficient Pipeline-Parallel DNN Training, ICML 2021, section 3.2)",
                one_f_one_b_slots, one_f_one_b_in_flight, fill_and_drain_bubble},
};

}  // namespace

std::span<const ScheduleRow> schedule_table() { return kTable; }

const ScheduleRow& schedule(std::string_view name) {
  for (const auto& row : kTable)
    if (row.name == name) return row;
  throw BadInput("schedule", "'" + std::string(name) + "' is not known; known schedules: " + joined(kTable, ", ", &ScheduleRow::name));
}

}  // namespace rehearsal::plan
