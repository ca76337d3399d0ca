#include "predict/frameworks/usual_predictor.hpp"

#include "predict/frameworks/usual_profile.hpp"
#include "predict/predictor_around.hpp"

namespace rehearsal::predict::frameworks {
namespace {

/// What does not depend on a plan is that of the plan that is asked about.
class UsualPredictor final : public PredictorAround {
 public:
  UsualPredictor(std::unique_ptr<Predictor> others, std::unique_ptr<Predictor> sharded, const plan::Plan& asked)
      : PredictorAround(is_sharded(asked) ? *sharded : *others), others_(std::move(others)), sharded_(std::move(sharded)) {}

  [[nodiscard]] const costmodel::FrameworkProfile& framework_for(const plan::Plan& plan) const override { return of(plan).framework(); }
  [[nodiscard]] std::vector<plan::Violation> violations(const plan::Plan& plan) override { return of(plan).violations(plan); }
  [[nodiscard]] Assessment closed(const plan::Plan& plan) override { return of(plan).closed(plan); }
  [[nodiscard]] Outlook outlook(const plan::Plan& plan) override { return of(plan).outlook(plan); }
  [[nodiscard]] PlayableStep playable(const plan::Plan& plan) override { return of(plan).playable(plan); }
  [[nodiscard]] Assessment played(const PlayableStep& step, StepEvaluator& evaluator, Timeline* timeline) override {
    return of(step.program.plan).played(step, evaluator, timeline);
  }

 private:
  [[nodiscard]] Predictor& of(const plan::Plan& plan) const { return is_sharded(plan) ? *sharded_ : *others_; }

  std::unique_ptr<Predictor> others_, sharded_;
};

}  // namespace

std::unique_ptr<Predictor> usual_predictor(std::unique_ptr<Predictor> others, std::unique_ptr<Predictor> sharded, const plan::Plan& asked) {
  return std::make_unique<UsualPredictor>(std::move(others), std::move(sharded), asked);
}

}  // namespace rehearsal::predict::frameworks
