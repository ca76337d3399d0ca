#include "predict/ruled_predictor.hpp"

#include "base/error.hpp"
#include "predict/predictor_around.hpp"
#include "predict/violations.hpp"

namespace rehearsal::predict {
namespace {

class RuledPredictor final : public PredictorAround {
 public:
  RuledPredictor(Predictor& inner, PlanRule rule) : PredictorAround(inner), rule_(std::move(rule)) {}

  [[nodiscard]] std::vector<plan::Violation> violations(const plan::Plan& plan) override {
    auto all = inner().violations(plan);
    const auto refused = rule_(plan);
    all.insert(all.end(), refused.begin(), refused.end());
    return all;
  }
  [[nodiscard]] Assessment closed(const plan::Plan& plan) override { return keep(plan), inner().closed(plan); }
  [[nodiscard]] Outlook outlook(const plan::Plan& plan) override { return keep(plan), inner().outlook(plan); }
  [[nodiscard]] PlayableStep playable(const plan::Plan& plan) override { return keep(plan), inner().playable(plan); }

 private:
  void keep(const plan::Plan& plan) const {
    if (const auto refused = rule_(plan); !refused.empty()) throw Refusal("plan " + plan::to_text(plan) + ": " + to_text(refused));
  }

  PlanRule rule_;
};

}  // namespace

std::unique_ptr<Predictor> with_rule(Predictor& predictor, PlanRule rule) {
  return std::make_unique<RuledPredictor>(predictor, std::move(rule));
}

}  // namespace rehearsal::predict
