#pragma once
// A predictor that has others answer, and decides plan by plan which.

#include "predict/predictor_around.hpp"

namespace rehearsal::predict {

/// What does not depend on a plan is that of `inner`.
class PredictorByPlan : public PredictorAround {
 public:
  using PredictorAround::PredictorAround;

  [[nodiscard]] const costmodel::FrameworkProfile& framework_for(const plan::Plan& plan) const override {
    return of(plan).framework_for(plan);
  }
  [[nodiscard]] const costmodel::CostModel& cost_model_for(const plan::Plan& plan) const override { return of(plan).cost_model_for(plan); }
  [[nodiscard]] const Workload* workload_for(const plan::Plan& plan) const override { return of(plan).workload_for(plan); }
  [[nodiscard]] std::vector<plan::Violation> violations(const plan::Plan& plan) override { return of(plan).violations(plan); }
  [[nodiscard]] Assessment closed(const plan::Plan& plan) override { return of(plan).closed(plan); }
  [[nodiscard]] Outlook outlook(const plan::Plan& plan) override { return of(plan).outlook(plan); }
  [[nodiscard]] PlayableStep playable(const plan::Plan& plan) override { return of(plan).playable(plan); }
  [[nodiscard]] Assessment played(const PlayableStep& step, StepEvaluator& evaluator, Timeline* timeline) override {
    return of(step.program.plan).played(step, evaluator, timeline);
  }

 protected:
  /// The one that answers for the plan.
  [[nodiscard]] virtual Predictor& of(const plan::Plan&) const = 0;
};

}  // namespace rehearsal::predict
