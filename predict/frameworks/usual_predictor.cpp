#include "predict/frameworks/usual_predictor.hpp"

#include "predict/frameworks/usual_profile.hpp"
#include "predict/predictor_by_plan.hpp"

namespace rehearsal::predict::frameworks {
namespace {

class UsualPredictor final : public PredictorByPlan {
 public:
  UsualPredictor(std::unique_ptr<Predictor> others, std::unique_ptr<Predictor> sharded, const plan::Plan& asked)
      : PredictorByPlan(is_sharded(asked) ? *sharded : *others), others_(std::move(others)), sharded_(std::move(sharded)) {}

 private:
  [[nodiscard]] Predictor& of(const plan::Plan& plan) const override { return is_sharded(plan) ? *sharded_ : *others_; }

  std::unique_ptr<Predictor> others_, sharded_;
};

}  // namespace

std::unique_ptr<Predictor> usual_predictor(std::unique_ptr<Predictor> others, std::unique_ptr<Predictor> sharded, const plan::Plan& asked) {
  return std::make_unique<UsualPredictor>(std::move(others), std::move(sharded), asked);
}

}  // namespace rehearsal::predict::frameworks
