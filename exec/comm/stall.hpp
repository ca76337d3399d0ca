#pragma once
// When a rank counts as lost: how long is waited for one that says nothing.

#include <optional>
#include <vector>

namespace rehearsal::exec {

/// The one timeout of a training, in seconds: many times what a step takes. One step that was held up does not lengthen it.
class StallTime {
 public:
  /// Before any step is known but as it was predicted (0: not even that).
  explicit StallTime(double predicted_step = 0) : predicted_step_(predicted_step) {}
  /// What a step took, of the slowest rank.
  void add(double step_seconds);
  /// A minute and 100 predicted steps until three steps are known: a first step makes machine code, and predictions are of other machines.
  /// Then 20 s and 20 steps, of the median of the latest; where 20 steps take longer than 10 minutes, 10 minutes and 3 steps.
  [[nodiscard]] double seconds() const;

 private:
  double predicted_step_;
  std::vector<double> latest_;  ///< steps
};

/// How long something is waited for. A time in which nobody looked is left out: this rank computed, or was itself stopped and let go on.
class WaitingTime {
 public:
  /// To be called again and again while waiting, with now_seconds().
  void look(double now);
  void restart() { *this = {}; }
  [[nodiscard]] double seconds() const { return seconds_; }

 private:
  double seconds_ = 0;
  std::optional<double> last_look_;
};

}  // namespace rehearsal::exec
