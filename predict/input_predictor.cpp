#include "predict/input_predictor.hpp"

#include <algorithm>
#include <map>

#include "plan/lowering/lowering.hpp"
#include "predict/bottleneck.hpp"
#include "predict/plan_input.hpp"
#include "predict/predictor_around.hpp"

namespace rehearsal::predict {
namespace {

/// Asks another evaluator for a step of this pace, and knows what it said.
class Paced final : public StepEvaluator {
 public:
  Paced(StepEvaluator& evaluator, const InputPace& pace) : evaluator_(evaluator), pace_(pace) {}
  [[nodiscard]] std::string_view name() const override { return evaluator_.name(); }
  [[nodiscard]] StepCost evaluate(const EvaluationRequest& request) override {
    auto cost =
        evaluator_.evaluate({request.program, request.costs, request.platform, request.model, request.keep_timeline, pace_, request.kind});
    said_ = cost.step;
    return cost;
  }
  [[nodiscard]] Seconds said() const { return said_; }

 private:
  StepEvaluator& evaluator_;
  InputPace pace_;
  Seconds said_;
};

class InputPredictor final : public PredictorAround {
 public:
  InputPredictor(std::unique_ptr<Predictor> owned, const InputQuestion& question)
      : PredictorAround(*owned), owned_(std::move(owned)), question_(question), rests_on_(grounds_of_input(question, platform())) {}

  [[nodiscard]] Assessment closed(const plan::Plan& plan) override {
    auto a = inner().closed(plan);
    add_input(a, of(a.plan), platform_for(a.plan), rests_on_);
    return in_training(std::move(a));
  }

  [[nodiscard]] Outlook outlook(const plan::Plan& plan) override {
    auto outlook = inner().outlook(plan);
    if (!has_place(plan)) return outlook;
    const double least = outlook.step.value();
    const auto& input = of(plan);
    const double first = question_.steps > 0 ? std::min(question_.steps, input.epoch_steps) / question_.steps : 0;
    const auto of_epoch = [&](const InputTimes& times) { return times.step({least, least, least}).value; };
    outlook.step = Seconds(first * of_epoch(input.first) + (1 - first) * of_epoch(input.later));
    return outlook;
  }

  /// Once as if samples were there, and again, at their pace, where that makes the step longer.
  [[nodiscard]] Assessment played(const PlayableStep& step, StepEvaluator& evaluator, Timeline* timeline) override {
    const auto& input = of(step.program.plan);
    Paced alone(evaluator, {});
    auto a = inner().played(step, alone, timeline);
    const auto computing = a;
    add_input(a, input, platform_for(a.plan), rests_on_);
    if (a.step_seconds.value <= computing.step_seconds.value) return in_training(std::move(a));
    // Sites and power limits stretch what an evaluator says, and not the storage.
    const double stretch = computing.step / alone.said();
    Paced paced(evaluator, {Seconds(input.later.pace.value / stretch), Seconds(input.later.beside.value / stretch)});
    if (timeline != nullptr) timeline->clear();
    const auto waiting = inner().played(step, paced, timeline);
    return in_training(with_times_of(waiting, Seconds(input.later.pace.value), std::move(a)));
  }

 private:
  /// A step of no length of training in particular is one of the epochs behind the first.
  [[nodiscard]] Assessment in_training(Assessment a) const {
    return question_.steps > 0 ? mean_of_training(std::move(a), question_.steps) : a;
  }

  /// What was played stands over what was reckoned; its interval stays that of computing and input. One step that is played has its first
  /// samples at once, and may end before as many come; of many none does.
  static Assessment with_times_of(const Assessment& played, Seconds pace, Assessment a) {
    const Seconds step = std::max(played.step, pace);
    set_waiting_step(a, {step.value(), std::min(a.step_seconds.low, step.value()), std::max(a.step_seconds.high, step.value())});
    a.input->later = a.step_seconds;
    a.breakdown = played.breakdown;
    a.breakdown.io += step - played.step;
    a.bottleneck = bottleneck_of(played.breakdown);
    a.limiting_rank = played.limiting_rank;
    a.imbalance = played.imbalance;
    a.events += played.events;
    return a;
  }

  /// Where there are too few devices, or axes do not divide each other, closed() says so.
  [[nodiscard]] bool has_place(const plan::Plan& plan) const {
    int ranks = 1;
    for (const auto& axis : plan::mesh_of(plan)) ranks *= axis.size;
    return ranks == plan.ranks() && ranks <= platforms::device_count(platform_for(plan));
  }

  /// Plans that lay ranks out alike on the same nodes have the same.
  const StepInput& of(const plan::Plan& plan) {
    std::vector<std::tuple<std::string, int, int>> mesh;
    for (const auto& axis : plan::mesh_of(plan)) mesh.emplace_back(axis.name, axis.size, axis.stride);
    const auto& nodes = platform_for(plan);
    const auto [known, fresh] = known_.try_emplace({&nodes, std::move(mesh)});
    if (fresh) known->second = input_of(question_, nodes, plan, batch());
    return known->second;
  }

  std::unique_ptr<Predictor> owned_;
  InputQuestion question_;
  std::string rests_on_;
  std::map<std::pair<const platforms::Platform*, std::vector<std::tuple<std::string, int, int>>>, StepInput> known_;
};

}  // namespace

std::unique_ptr<Predictor> with_input(std::unique_ptr<Predictor> inner, const InputQuestion& question) {
  check_input(question, inner->platform());
  return std::make_unique<InputPredictor>(std::move(inner), question);
}

}  // namespace rehearsal::predict
