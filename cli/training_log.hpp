#pragma once
// How a training tells how far it is: a line drawn over on a terminal, lines where its output is kept.

#include <cstdint>
#include <string>

#include "cli/terminal.hpp"
#include "exec/trainer.hpp"

namespace rehearsal::cli {

struct LogOptions {
  std::int64_t last_step = 1, batch = 1;
  std::int64_t tokens = 0;  ///< of a sample; 0: it is no sequence of them
  std::int64_t every = 0;   ///< a line behind every so many steps; 0: a line a second at most, or one that is drawn over
};

/// A loss as people read it.
[[nodiscard]] std::string loss_text(double loss);

/// On rank 0. "step: 120 of 5000  loss 4.1231  812 samples/s  51968 tokens/s  ETA 0:01:20".
class TrainingLog {
 public:
  TrainingLog(const Terminal& terminal, const LogOptions& options);
  ~TrainingLog();
  TrainingLog(const TrainingLog&) = delete;
  TrainingLog& operator=(const TrainingLog&) = delete;
  void add(const exec::StepReport&);
  /// "eval: step 120 of 5000  loss 4.0312  accuracy 12.5 %  best so far"
  void add(const exec::EvaluationReport&);
  /// Takes away what may be drawn over, before another line is written.
  void clear();

 private:
  [[nodiscard]] bool due(std::int64_t step);
  [[nodiscard]] std::string line(const exec::StepReport&);

  const Terminal& terminal_;
  LogOptions options_;
  bool draws_, drawn_ = false;
  Throttle throttle_;
  std::int64_t steps_ = 0, samples_ = 0;  ///< since the line before
  double since_;                          ///< when that was
};

}  // namespace rehearsal::cli
