#pragma once
// A predictor that answers as another one, for those that change some of its answers.

#include "predict/predictor.hpp"

namespace rehearsal::predict {

class PredictorAround : public Predictor {
 public:
  /// `inner` must outlive it.
  explicit PredictorAround(Predictor& inner) : inner_(inner) {}

  [[nodiscard]] const platforms::Platform& platform() const override { return inner_.platform(); }
  [[nodiscard]] const platforms::Platform& platform_for(const plan::Plan& plan) const override { return inner_.platform_for(plan); }
  [[nodiscard]] std::span<const std::vector<std::string>> orders_of_nodes() const override { return inner_.orders_of_nodes(); }
  [[nodiscard]] const costmodel::FrameworkProfile& framework() const override { return inner_.framework(); }
  [[nodiscard]] const costmodel::FrameworkProfile& framework_for(const plan::Plan& plan) const override {
    return inner_.framework_for(plan);
  }
  [[nodiscard]] const graph::Graph& graph() const override { return inner_.graph(); }
  [[nodiscard]] std::int64_t batch() const override { return inner_.batch(); }
  [[nodiscard]] const SplitLimits& limits() override { return inner_.limits(); }
  [[nodiscard]] std::vector<plan::Violation> violations(const plan::Plan& plan) override { return inner_.violations(plan); }
  [[nodiscard]] const costmodel::CostModel& cost_model_for(const plan::Plan& plan) const override { return inner_.cost_model_for(plan); }
  [[nodiscard]] const Workload* workload_for(const plan::Plan& plan) const override { return inner_.workload_for(plan); }
  [[nodiscard]] Assessment closed(const plan::Plan& plan) override { return inner_.closed(plan); }
  [[nodiscard]] Outlook outlook(const plan::Plan& plan) override { return inner_.outlook(plan); }
  [[nodiscard]] PlayableStep playable(const plan::Plan& plan) override { return inner_.playable(plan); }
  [[nodiscard]] PlayableStep priced(plan::Program program) override { return inner_.priced(std::move(program)); }
  [[nodiscard]] Assessment played(const PlayableStep& step, StepEvaluator& evaluator, Timeline* timeline) override {
    return inner_.played(step, evaluator, timeline);
  }

 protected:
  [[nodiscard]] Predictor& inner() const { return inner_; }

 private:
  Predictor& inner_;
};

}  // namespace rehearsal::predict
