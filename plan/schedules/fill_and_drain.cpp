// Schedules of one chunk a stage whose pipe fills and drains.
#include <algorithm>

#include "plan/schedules/rows.hpp"

namespace rehearsal::plan {
namespace {

std::vector<PipelineSlot> gpipe_order(int, const PipelineShape& s) {
  SlotList slots(1);
  for (int m = 0; m < s.micro_batches; ++m) slots.forward(0);
  for (int m = 0; m < s.micro_batches; ++m) slots.backward(0);
  return slots.take(s.micro_batches);
}

/// Each stage begins with as many forward passes as stages follow it, its own included.
std::vector<PipelineSlot> one_f_one_b_order(int stage, const PipelineShape& s) {
  SlotList slots(1);
  for (int m = 0; m < s.stages - stage; ++m) slots.forward(0);
  for (int m = 0; m < s.micro_batches; ++m) slots.backward(0), slots.forward(0);
  return slots.take(s.micro_batches);
}

/// p - 1 stages wait for the first micro-batch and for the last gradient.
std::optional<double> fill_and_drain(const PipelineShape& s, const PassTimes& t) { return (s.stages - 1) * t.sum(); }

/// Steps follow each other without a flush: once the pipe is full nobody waits.
std::optional<double> none(const PipelineShape&, const PassTimes&) { return 0.0; }

int stashed(int stage, const PipelineShape& s) { return std::min(s.stages - stage, std::max(1, s.micro_batches)); }
int two(int, const PipelineShape&) { return 2; }

}  // namespace

ScheduleRow gpipe() {
  return {"gpipe", "all forward passes, then all backward passes (Huang et al., GPipe, NeurIPS 2019, section 2.3)", gpipe_order,
          fill_and_drain};
}

ScheduleRow one_f_one_b() {
  return {"1f1b",
          "one forward, one backward in turn once the pipe is full, flushed at the end of the step; holds fewer activations "
          "(PipeDream-Flush: Narayanan et al., Memory-Efficient Pipeline-Parallel DNN Training, ICML 2021, section 3.2)",
          one_f_one_b_order, fill_and_drain};
}

ScheduleRow pipedream() {
  ScheduleRow row{"pipedream",
                  "1F1B without a flush, updating after every micro-batch; a stage keeps the weights that each micro-batch under way saw "
                  "(Narayanan et al., PipeDream, SOSP 2019, section 3.3). Different mathematics: stages see weights of different ages",
                  one_f_one_b_order, none};
  row.asynchronous = true;
  row.versions = stashed;
  return row;
}

ScheduleRow pipedream_2bw() {
  ScheduleRow row{
      "pipedream-2bw",
      "1F1B without a flush, gradients of a step summed, two versions of the weights (Narayanan et al., ICML 2021, section 3.1). "
      "Different mathematics: every step uses the weights of the step before the last",
      one_f_one_b_order, none};
  row.asynchronous = true;
  row.versions = two;
  return row;
}

}  // namespace rehearsal::plan
