#pragma once
// Steps of a training one after the other, as the plan's schedule has them: each for itself, or in rows without a flush.

#include <deque>
#include <functional>
#include <vector>

#include "exec/learning_rate.hpp"
#include "exec/play/row_end.hpp"

namespace rehearsal::exec {

/// Do ranks begin a step without having met behind the one before?
[[nodiscard]] bool runs_on(const plan::Program&);

struct RowOptions {
  LearningRate rate;
  bool record = false;
  std::vector<std::int64_t> meet_every;       ///< a row ends behind every so many steps, for each of these
  bool ends_on_nan = false;                   ///< a row ends early behind a loss that is not finite
  std::function<bool()> may_update = {};      ///< see StepRequest
  std::function<bool()> stop_requested = {};  ///< of this rank: rows end early
};

/// Plays rows of steps, and hands them out one by one. A row is one step; more where steps follow each other without a flush: ranks meet
/// behind it alone, to share out losses and write checkpoints. What its last step leaves out, the next row begins with.
class StepRows {
 public:
  struct Played {
    StepResult result;
    double rate = 1;  ///< factor of the learning rate
  };
  StepRows(Executor& executor, const Training& training, DataSource& data, const RowOptions& options)
      : executor_(executor), training_(training), data_(data), options_(options) {}

  /// `step`, counted from 0, of a run that ends before `end`.
  Played next(std::int64_t step, std::int64_t end);
  [[nodiscard]] bool between_rows() const { return played_.empty(); }

 private:
  void play(StepRow row, std::int64_t end);
  [[nodiscard]] std::int64_t steps_in_row(std::int64_t done, std::int64_t left) const;

  Executor& executor_;
  const Training& training_;
  DataSource& data_;
  const RowOptions& options_;
  std::deque<Played> played_;
};

}  // namespace rehearsal::exec
