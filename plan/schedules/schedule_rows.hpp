#pragma once
// The rows of the schedule table, one function each, and what their files share.

#include "plan/schedules/schedule.hpp"

namespace rehearsal::plan {

using ScheduleOfRow = ScheduleRow();
ScheduleOfRow gpipe, one_f_one_b, interleaved, breadth_first, zero_bubble_h1, zero_bubble_v, dual_pipe, dual_pipe_v, pipedream,
    pipedream_2bw;

/// In the order of schedule_table().
inline constexpr ScheduleOfRow* kSchedules[] = {gpipe,         one_f_one_b, interleaved, breadth_first, zero_bubble_h1,
                                                zero_bubble_v, dual_pipe,   dual_pipe_v, pipedream,     pipedream_2bw};

/// Of schedules that send micro-batches round all stages once for every chunk: (p-1) chunks' passes instead of (p-1) stages'. With fewer
/// micro-batches than stages the first one has not come around when the last one has gone by: v (p - m) + m - 1.
[[nodiscard]] std::optional<double> idle_of_loops(const PipelineShape&, const PassTimes&);

/// Writes the slots of a stage; each chunk's micro-batches come in order.
class SlotList {
 public:
  explicit SlotList(int chunks)
      : forwards_(static_cast<std::size_t>(chunks)),
        backwards_(static_cast<std::size_t>(chunks)),
        weights_(static_cast<std::size_t>(chunks)) {}

  void forward(int chunk) { slots_.push_back({false, next(forwards_, chunk), chunk}); }
  void backward(int chunk) { slots_.push_back({true, next(backwards_, chunk), chunk}), ++weights_[static_cast<std::size_t>(chunk)]; }
  void input_gradient(int chunk) { slots_.push_back({true, next(backwards_, chunk), chunk, GradientPart::Input}); }
  void weight_gradient(int chunk) { slots_.push_back({true, next(weights_, chunk), chunk, GradientPart::Weights}); }
  /// Input and weights one after the other.
  void both_gradients(int chunk) { input_gradient(chunk), weight_gradient(chunk); }
  [[nodiscard]] int forwards(int chunk) const { return forwards_[static_cast<std::size_t>(chunk)]; }
  [[nodiscard]] int backwards(int chunk) const { return backwards_[static_cast<std::size_t>(chunk)]; }
  [[nodiscard]] int weight_gradients(int chunk) const { return weights_[static_cast<std::size_t>(chunk)]; }
  /// Without micro-batches that do not exist.
  [[nodiscard]] std::vector<PipelineSlot> take(int micro_batches) {
    std::erase_if(slots_, [&](const PipelineSlot& slot) { return slot.micro_batch >= micro_batches; });
    return std::move(slots_);
  }

 private:
  static int next(std::vector<int>& counters, int chunk) { return counters[static_cast<std::size_t>(chunk)]++; }
  std::vector<PipelineSlot> slots_;
  std::vector<int> forwards_, backwards_, weights_;
};

}  // namespace rehearsal::plan
