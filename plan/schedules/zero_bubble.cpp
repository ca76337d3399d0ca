// Qi, Wan, Huang, Lin: Zero bubble pipeline parallelism, ICLR 2024: what a backward pass does for the weights can wait until nobody else
// has something to do.
#include <algorithm>

#include "plan/schedules/schedule_rows.hpp"

namespace rehearsal::plan {
namespace {

/// 1F1B, the weights of stage s being s micro-batches behind: every stage then holds as many as stage 0.
std::vector<PipelineSlot> h1_order(int stage, const PipelineShape& s) {
  SlotList slots(1);
  for (int m = 0; m < s.stages - stage; ++m) slots.forward(0);
  for (int m = 0; m < s.micro_batches; ++m) {
    slots.input_gradient(0);
    if (m >= stage) slots.weight_gradient(0);
    slots.forward(0);
  }
  while (slots.weight_gradients(0) < s.micro_batches) slots.weight_gradient(0);
  return slots.take(s.micro_batches);
}

/// (p-1)(f + b - w) from p micro-batches on (table 2); with fewer there are fewer w to fill in. Known while a w fits where an f or b lacks.
std::optional<double> h1_idle(const PipelineShape& s, const PassTimes& t) {
  if (t.weight_gradient > std::min(t.forward, t.input_gradient)) return std::nullopt;
  return (s.stages - 1) * (t.forward + t.input_gradient) - (std::min(s.micro_batches, s.stages) - 1) * t.weight_gradient;
}

/// Two chunks on every stage, there and back. The pipe is laid out for at least 2p - 1 micro-batches; those that do not exist are left out.
std::vector<PipelineSlot> v_order_of_zero_bubble(int stage, const PipelineShape& s) {
  const int planned = std::max(2 * s.stages - 1, s.micro_batches), rest = s.stages - stage;
  SlotList slots(2);
  for (int i = 0; i < 2 * rest - 1; ++i) slots.forward(0);
  for (int i = 0; i < stage; ++i) slots.forward(1), slots.forward(0);
  for (int i = 0; i < rest; ++i) slots.forward(1), slots.both_gradients(1);
  while (slots.forwards(1) < slots.forwards(0) || slots.forwards(0) < planned) {
    if (slots.forwards(0) < planned) slots.forward(0);
    slots.both_gradients(0);
    slots.forward(1);
    slots.both_gradients(1);
  }
  for (int i = 0; i < stage; ++i) slots.input_gradient(0), slots.input_gradient(1);
  for (int i = 0; i < rest; ++i) slots.input_gradient(0), slots.weight_gradient(0);
  while (slots.weight_gradients(1) < slots.backwards(1)) slots.weight_gradient(1);
  while (slots.weight_gradients(0) < slots.backwards(0)) slots.weight_gradient(0);
  return slots.take(s.micro_batches);
}

/// Nothing where the three passes take equally long (section 6, table 5), from 2p - 1 micro-batches on; each one that lacks leaves the
/// holes of a forward and a backward pass. Unequal passes have no closed form.
std::optional<double> v_idle_of_zero_bubble(const PipelineShape& s, const PassTimes& t) {
  if (t.forward != t.input_gradient || t.forward != t.weight_gradient) return std::nullopt;
  return 2 * std::max(0, 2 * s.stages - 1 - s.micro_batches) * t.forward;
}

}  // namespace

ScheduleRow zero_bubble_h1() {
  ScheduleRow row{
      "zb-h1",
      "1F1B whose gradients of weights fill the waits; activations as on the first stage of 1F1B (Qi et al., ICLR 2024, section "
      "2.1, table 2). The bubble is known while w takes no longer than f and b",
      h1_order, h1_idle};
  row.splits_backward = true;
  return row;
}

ScheduleRow zero_bubble_v() {
  ScheduleRow row{
      "zb-v",
      "two chunks on every stage, the second on the way back: no bubble when f, b and w take equally long, with the activations of "
      "1F1B (Qi et al., ICLR 2024, section 6)",
      v_order_of_zero_bubble, v_idle_of_zero_bubble};
  row.chunks = 2;
  row.placement = ChunkPlacement::V;
  row.splits_backward = true;
  return row;
}

}  // namespace rehearsal::plan
