// DeepSeek-V3 Technical Report (arXiv:2412.19437), section 3.2.1, figure 5: micro-batches enter at both ends of the pipe, every stage has
// two parts of the model, and each part is on two stages. DualPipeV is one half of it (deepseek-ai/DualPipe, "cut in half"): the second
// part of a stage is what follows on the way back, so that every part is on one stage.
#include <algorithm>
#include <string>

#include "plan/schedules/schedule_rows.hpp"

namespace rehearsal::plan {
namespace {

/// Slots of one stage as seen from the end of the pipe that it is nearer to: direction 0 enters there.
class Sequence {
 public:
  static Sequence of_both_ways(int stage, const PipelineShape& s) {
    return {s.stages / 2, std::min(stage, s.stages - 1 - stage), stage >= s.stages / 2, std::max((s.micro_batches + 1) / 2, s.stages)};
  }
  static Sequence of_one_half(int stage, const PipelineShape& s) {
    return {s.stages, stage, false, std::max(s.micro_batches, 2 * s.stages)};
  }

  std::vector<PipelineSlot> take() {
    fill();
    for (int i = 0; i < planned_ - 2 * half_ + own_ + 1; ++i) forward(0), whole(1), forward(1), whole(0);
    drain();
    return list_.take(planned_);
  }

 private:
  Sequence(int half, int own, bool from_far_end, int planned) : half_(half), own_(own), from_far_end_(from_far_end), planned_(planned) {}
  [[nodiscard]] int copy(int direction) const { return from_far_end_ ? 1 - direction : direction; }
  void forward(int direction) { list_.forward(copy(direction)); }
  void whole(int direction) { list_.both_gradients(copy(direction)); }
  void late(int direction) {
    list_.input_gradient(copy(direction));
    waiting_.push_back(copy(direction));
  }
  void weights() {
    list_.weight_gradient(waiting_.front());
    waiting_.erase(waiting_.begin());
  }

  void fill() {
    for (int i = 0; i < 2 * (half_ - own_ - 1); ++i) forward(0);
    for (int i = 0; i < own_ + 1; ++i) forward(0), forward(1);
    for (int i = 0; i < half_ - own_ - 1; ++i) late(1), weights(), forward(1);
  }

  void drain() {
    for (int i = 0; i < half_ - own_ - 1; ++i) whole(1), forward(1), whole(0);
    // The weights of the second half of these wait until the gradients that others want are on their way.
    for (int i = 0; i < 2 * (own_ + 1); ++i) (i <= own_ ? whole(1 - i % 2) : late(1 - i % 2));
    for (int i = 0; i < half_ - own_ - 1; ++i) weights(), late(0);
    while (!waiting_.empty()) weights();
  }

  int half_, own_;
  bool from_far_end_;
  int planned_;  ///< micro-batches of a direction that the pipe is laid out for
  SlotList list_{2};
  std::vector<int> waiting_;
};

std::vector<PipelineSlot> order_of_dual_pipe(int stage, const PipelineShape& s) {
  std::vector<PipelineSlot> slots;
  for (auto slot : Sequence::of_both_ways(stage, s).take()) {
    slot.micro_batch = 2 * slot.micro_batch + slot.chunk;  // even ones take copy 0
    if (slot.micro_batch < s.micro_batches) slots.push_back(slot);
  }
  return slots;
}

std::vector<PipelineSlot> v_order_of_dual_pipe(int stage, const PipelineShape& s) {
  auto slots = Sequence::of_one_half(stage, s).take();
  std::erase_if(slots, [&](const PipelineSlot& slot) { return slot.micro_batch >= s.micro_batches; });
  return slots;
}

/// (p/2 - 1)(f + b - w) from 2p micro-batches on, an even number of them, where b is the input's gradient and forward and backward passes
/// run one after the other, f and b take equally long and w no longer. (The report's (p/2 - 1)(F&B + B - 3W) counts a pair that overlaps as
/// one slot F&B, and B as both gradients.)
std::optional<double> idle_of_dual_pipe(const PipelineShape& s, const PassTimes& t) {
  if (s.micro_batches % 2 != 0 || s.micro_batches < 2 * s.stages) return std::nullopt;
  if (t.forward != t.input_gradient || t.weight_gradient > t.forward) return std::nullopt;
  const int pairs_before = s.stages / 2 - 1;
  return pairs_before * (t.forward + t.input_gradient - t.weight_gradient);
}

/// The same with as many pairs of chunks as there are stages.
std::optional<double> v_idle_of_dual_pipe(const PipelineShape& s, const PassTimes& t) {
  if (s.micro_batches < 2 * s.stages || t.forward != t.input_gradient || t.weight_gradient > t.forward) return std::nullopt;
  return (s.stages - 1) * (t.forward + t.input_gradient - t.weight_gradient);
}

std::string refusal(const PipelineShape& s) {
  if (s.stages % 2 != 0)
    return "dualpipe pairs the stages of both ends: " + std::to_string(s.stages) + " is odd; use an even number of stages";
  return s.micro_batches > 1 ? "" : "dualpipe feeds micro-batches from both ends, and a step has only one; use a smaller micro_batch";
}

}  // namespace

ScheduleRow dual_pipe() {
  ScheduleRow row{"dualpipe",
                  "micro-batches enter at both ends; every part of the model is on two stages, so its weights are kept twice (DeepSeek-V3 "
                  "Technical Report, 2024, section 3.2.1)",
                  order_of_dual_pipe, idle_of_dual_pipe};
  row.chunks = 2;
  row.placement = ChunkPlacement::Both;
  row.splits_backward = true;
  row.refusal = refusal;
  return row;
}

ScheduleRow dual_pipe_v() {
  ScheduleRow row{"dualpipe-v",
                  "one half of dualpipe: a micro-batch comes back through the second part of every stage, so that weights are kept once "
                  "(deepseek-ai/DualPipe, 2025)",
                  v_order_of_dual_pipe, v_idle_of_dual_pipe};
  row.chunks = 2;
  row.placement = ChunkPlacement::V;
  row.splits_backward = true;
  return row;
}

}  // namespace rehearsal::plan
