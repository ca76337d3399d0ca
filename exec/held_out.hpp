#pragma once
// How well a training does on data that it is not trained on, every so many steps.

#include <cstdint>
#include <functional>

#include "exec/checkpoint/manifest.hpp"
#include "exec/trained_model.hpp"

namespace rehearsal::exec {

struct EvaluationReport {
  std::int64_t step = 0;
  EvaluationResult result;
  bool best = false;  ///< no loss before was as low
};

struct HeldOutOptions {
  std::int64_t every = 0;       ///< steps; 0: never
  std::int64_t stop_after = 0;  ///< evaluations one after the other without a lower loss end the training; 0: none do
  std::function<EvaluationResult(const StoredValues&)> evaluate;    ///< on rank 0
  std::function<void(const EvaluationReport&)> on_evaluation = {};  ///< on rank 0
};

class HeldOut {
 public:
  HeldOut(const HeldOutOptions& options, Executor& executor, const Training& training)
      : options_(options), executor_(executor), training_(training) {}

  [[nodiscard]] bool due(std::int64_t step) const { return options_.every > 0 && step % options_.every == 0; }
  /// Collective; true when the loss is the lowest so far. Throws BadInput when the data gives none.
  [[nodiscard]] bool evaluate(std::int64_t step, EvaluatedSoFar&);
  [[nodiscard]] bool gains_no_more(const EvaluatedSoFar& so_far) const {
    return options_.stop_after > 0 && so_far.without_gain >= options_.stop_after;
  }

 private:
  const HeldOutOptions& options_;
  Executor& executor_;
  const Training& training_;
};

}  // namespace rehearsal::exec
