// Schedules of one chunk a stage whose pipe fills and drains.
#include <string>

#include "plan/schedules/schedule_rows.hpp"

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

/// One forward, one backward in turn, the forward passes as many micro-batches ahead as stages follow this one.
std::vector<PipelineSlot> without_flush_order(int stage, const PipelineShape& s) {
  std::vector<PipelineSlot> slots;
  for (int m = 0; m < s.micro_batches; ++m) {
    slots.push_back({false, m + s.stages - 1 - stage});
    slots.push_back({true, m});
  }
  return slots;
}

/// p - 1 stages wait for the first micro-batch and for the last gradient.
std::optional<double> fill_and_drain(const PipelineShape& s, const PassTimes& t) { return (s.stages - 1) * t.sum(); }

/// Steps follow each other without a flush: once the pipe is full nobody waits.
std::optional<double> none(const PipelineShape&, const PassTimes&) { return 0.0; }

int stashed(int stage, const PipelineShape& s) { return s.stages - stage; }
int two(int, const PipelineShape&) { return 2; }

std::string refuse_micro_batches(const PipelineShape& s) {
  if (s.micro_batches == 1) return "";
  return "pipedream updates after every micro-batch, so a step has one, not " + std::to_string(s.micro_batches) +
         "; leave micro_batch out (pipedream-2bw sums the gradients of several)";
}

std::string refuse_few_micro_batches(const PipelineShape& s) {
  if (s.micro_batches >= s.stages - 1) return "";
  return "pipedream-2bw keeps two versions of the weights, which is enough from " + std::to_string(s.stages - 1) +
         " micro-batches on for " + std::to_string(s.stages) + " stages, not " + std::to_string(s.micro_batches) +
         "; use a smaller micro_batch";
}

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
                  without_flush_order, none};
  row.asynchronous = true;
  row.gradients = "a stage's gradients are those of its weights as many updates ago as stages follow it";
  row.versions = stashed;
  row.refusal = refuse_micro_batches;
  return row;
}

ScheduleRow pipedream_2bw() {
  ScheduleRow row{
      "pipedream-2bw",
      "1F1B without a flush, gradients of a step summed, two versions of the weights (Narayanan et al., ICML 2021, section 3.1). "
      "Different mathematics: every step's gradients are those of the weights before the last update",
      without_flush_order, none};
  row.asynchronous = true;
  row.gradients = "gradients are those of the weights before the last update";
  row.versions = two;
  row.refusal = refuse_few_micro_batches;
  return row;
}

}  // namespace rehearsal::plan
