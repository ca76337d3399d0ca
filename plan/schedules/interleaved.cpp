#include <algorithm>

#include "plan/block.hpp"
#include "plan/schedules/schedule_rows.hpp"

namespace rehearsal::plan {
namespace {

struct ChunkPass {
  int chunk, micro_batch;
};

/// Micro-batches go in groups of at least p, so that the first of a group has come around when the next chunk wants it; where p does not
/// divide their number groups are up to twice as large instead of leaving a small one over, which would make stages wait.
std::vector<ChunkPass> passes(const PipelineShape& s, bool backward) {
  std::vector<ChunkPass> list;
  const int groups = std::max(1, s.micro_batches / s.stages);
  for (int group = groups - 1; group >= 0; --group) {  // block() puts larger parts last, here they come first
    const auto range = block(s.micro_batches, groups, group);
    const int first = s.micro_batches - static_cast<int>(range.end);
    for (int c = 0; c < s.chunks; ++c)
      for (int m = 0; m < range.count(); ++m) list.push_back({backward ? s.chunks - 1 - c : c, first + m});
  }
  return list;
}

std::vector<PipelineSlot> order_of_interleaved(int stage, const PipelineShape& s) {
  const auto forward = passes(s, false), backward = passes(s, true);
  const int groups = std::max(1, s.micro_batches / s.stages);
  const auto first_group = static_cast<int>(block(s.micro_batches, groups, groups - 1).count());
  const auto ahead =
      static_cast<std::size_t>(std::min(s.micro_batches * s.chunks, (s.chunks - 1) * first_group + 2 * (s.stages - stage - 1) + 1));
  std::vector<PipelineSlot> slots;
  for (std::size_t i = 0; i < ahead; ++i) slots.push_back({false, forward[i].micro_batch, forward[i].chunk});
  for (std::size_t i = 0; i < backward.size(); ++i) {
    slots.push_back({true, backward[i].micro_batch, backward[i].chunk});
    if (ahead + i < forward.size()) slots.push_back({false, forward[ahead + i].micro_batch, forward[ahead + i].chunk});
  }
  return slots;
}

}  // namespace

std::optional<double> idle_of_loops(const PipelineShape& s, const PassTimes& t) {
  const int waits = s.micro_batches >= s.stages ? s.stages - 1 : s.chunks * (s.stages - s.micro_batches) + s.micro_batches - 1;
  return waits * t.sum();
}

ScheduleRow interleaved() {
  ScheduleRow row{"interleaved",
                  "1F1B with several chunks of the model on each stage: the bubble of one chunk instead of one stage (Narayanan et al., "
                  "Efficient large-scale language model training on GPU clusters using Megatron-LM, SC 2021, section 2.2)",
                  order_of_interleaved, idle_of_loops};
  row.chunks = 0;
  return row;
}

}  // namespace rehearsal::plan
