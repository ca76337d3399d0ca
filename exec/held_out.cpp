#include "exec/held_out.hpp"

#include <cmath>

#include "base/error.hpp"
#include "exec/checkpoint/checkpoint.hpp"

namespace rehearsal::exec {

bool HeldOut::evaluate(std::int64_t step, EvaluatedSoFar& so_far) {
  auto& world = training_.world;
  const auto values = trained_values(executor_, training_);
  EvaluationReport report{step, {}, false};
  const auto evaluate = [&] {
    report.result = options_.evaluate(values);
    if (!report.result.loss) throw BadInput("--eval", "has no target, so that there is no loss to compare");
  };
  world.wait_for_rank_0(evaluate, "the evaluation");
  const double loss = world.sum(report.result.loss.value_or(0));
  const bool best = std::isfinite(loss) && loss < so_far.lowest_loss;
  so_far = best ? EvaluatedSoFar{loss, step, 0} : EvaluatedSoFar{so_far.lowest_loss, so_far.lowest_at, so_far.without_gain + 1};
  report.best = best;
  if (world.rank() == 0 && options_.on_evaluation) options_.on_evaluation(report);
  return best;
}

}  // namespace rehearsal::exec
