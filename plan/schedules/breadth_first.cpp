#include "plan/schedules/schedule_rows.hpp"

namespace rehearsal::plan {
namespace {

/// All micro-batches pass a chunk before the next chunk begins, and on the way back the last chunk comes first.
std::vector<PipelineSlot> order_of_breadth_first(int, const PipelineShape& s) {
  SlotList slots(s.chunks);
  for (int c = 0; c < s.chunks; ++c)
    for (int m = 0; m < s.micro_batches; ++m) slots.forward(c);
  for (int c = s.chunks - 1; c >= 0; --c)
    for (int m = 0; m < s.micro_batches; ++m) slots.backward(c);
  return slots.take(s.micro_batches);
}

}  // namespace

ScheduleRow breadth_first() {
  ScheduleRow row{"breadth-first",
                  "all micro-batches pass one chunk of a stage before the next, forward, then backward: gradients are complete chunk by "
                  "chunk, which leaves time to sum them, for the activations of all micro-batches (Lamy-Poirier, Breadth-First Pipeline "
                  "Parallelism, MLSys 2023, section 4)",
                  order_of_breadth_first, idle_of_loops};
  row.chunks = 0;
  return row;
}

}  // namespace rehearsal::plan
