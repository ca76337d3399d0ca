#pragma once
// When a rank's instructions began and ended: by the clock of the host, or by marks in the order of a device's work, which are read when
// the step has ended.

#include <vector>

#include "exec/kernels/compute_device.hpp"
#include "predict/step_cost.hpp"

namespace rehearsal::exec {

class PlayedTimes {
 public:
  explicit PlayedTimes(ComputeDevice& device) : device_(device) {}

  /// Before the first instruction of a step that is recorded.
  void begin_step();
  /// What is done between these two is the instruction, of which body, number and micro-batch are read.
  void begin();
  void end(predict::TimedInstruction instruction);
  /// All of the step, in order.
  [[nodiscard]] std::vector<predict::TimedInstruction> take();

 private:
  struct Marks {
    std::int64_t begin = 0, end = 0;
  };
  ComputeDevice& device_;
  double began_ = 0, busy_before_ = 0;
  std::int64_t mark_ = 0;
  std::vector<predict::TimedInstruction> played_;
  std::vector<Marks> marks_;  ///< beside them; of devices only
};

}  // namespace rehearsal::exec
