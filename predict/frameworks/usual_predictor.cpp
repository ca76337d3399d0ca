#include "predict/frameworks/usual_predictor.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

#include "predict/frameworks/usual_profile.hpp"
#include "predict/predictor_by_plan.hpp"

namespace rehearsal::predict::frameworks {
namespace {

class UsualPredictor final : public PredictorByPlan {
 public:
  UsualPredictor(PredictorsByFramework predictors, const costmodel::FrameworkProfile& asked)
      : PredictorByPlan(*predictors.at(&asked)), predictors_(std::move(predictors)), kind_(kind_of(graph())) {}

 private:
  [[nodiscard]] Predictor& of(const plan::Plan& plan) const override {
    using Kind = costmodel::ModelKind;
    const auto kind = kind_ == Kind::Other ? kind_ : is_sharded(plan) ? Kind::ShardedDecoder : Kind::Decoder;
    const auto& nodes = platform_for(plan);
    auto& known = known_[{kind, &nodes, nodes.nodes.size() > 1 ? plan.ranks() : 1}];
    if (known != nullptr) return *known;
    const auto usual = predictors_.find(&usual_framework(nodes, kind, std::max(1, plan.ranks())));
    known = usual != predictors_.end() ? usual->second.get() : &inner();
    return *known;
  }

  PredictorsByFramework predictors_;
  costmodel::ModelKind kind_;
  /// By kind, nodes in use and ranks.
  mutable std::map<std::tuple<costmodel::ModelKind, const platforms::Platform*, int>, Predictor*> known_;
};

}  // namespace

std::unique_ptr<Predictor> usual_predictor(PredictorsByFramework predictors, const costmodel::FrameworkProfile& asked) {
  return std::make_unique<UsualPredictor>(std::move(predictors), asked);
}

}  // namespace rehearsal::predict::frameworks
