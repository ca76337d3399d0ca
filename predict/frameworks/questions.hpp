#pragma once
// Plans on their way to answers: a job, its model split, timed and cut into stages. What plans share is made once.

#include <map>
#include <memory>
#include <string>

#include "costmodel/constants.hpp"
#include "predict/frameworks/folded_model.hpp"
#include "predict/frameworks/plan_rules.hpp"
#include "predict/frameworks/stage_clocks.hpp"

namespace rehearsal::predict::frameworks {

/// What is trained, on what, by whom.
struct TrainingSetting {
  const platforms::Platform& platform;
  const costmodel::FrameworkProfile& profile;
  std::string precision;  ///< as costmodel::precision_of() reads it
  std::string optimizer;  ///< a row of graph::optimizer_table()
  Recipe recipe;          ///< what the framework does not choose itself
};

class Questions {
 public:
  Questions(graph::Graph model, TrainingSetting setting, const costmodel::Constants& constants);
  Questions(const Questions&) = delete;
  Questions& operator=(const Questions&) = delete;

  [[nodiscard]] const FoldedModel& model() const { return model_; }
  [[nodiscard]] const SplitLimits& limits() const { return limits_; }
  /// Everything that stands in a plan's way but what only the model's operators know.
  [[nodiscard]] std::vector<plan::Violation> violations(const plan::Plan&) const;

  struct Question {
    Question(FrameworkJob asked, const FoldedModel& of, Stager& stager, const Timers& timers)
        : job(std::move(asked)), model(of), step(stager.staged(job, timers)) {}
    Question(const Question&) = delete;
    Question& operator=(const Question&) = delete;

    FrameworkJob job;
    const FoldedModel& model;
    StagedStep step;
    StageClocks clocks;  ///< where the recipe lowers them
  };
  /// The answer lives until the next call. Throws Refusal when the plan cannot be used.
  const Question& ask(const plan::Plan&);

 private:
  using PartsKey = std::tuple<Degrees, Grain, std::size_t>;
  /// What timers look at: plans that differ in their schedule alone share them.
  using TimersKey = std::tuple<Degrees, Grain, int, int, int, int, plan::Recompute, plan::Offload, std::string, bool, std::optional<DType>>;
  struct Timed {
    FrameworkJob job;
    const FoldedModel* model;
    std::optional<Timers> timers;  ///< of the job
  };

  [[nodiscard]] PlanQuestion asked(const plan::Plan& plan) const {
    return {plan, setting_.profile, setting_.platform, limits_, model_.batch()};
  }
  [[nodiscard]] FrameworkJob job_of(const plan::Plan&) const;
  const FoldedModel& by_nodes();
  const ModelParts& parts(const FrameworkJob&, const FoldedModel&, std::size_t group);
  const Timed& timed(const FrameworkJob&);

  TrainingSetting setting_;
  FoldedModel model_;
  std::unique_ptr<FoldedModel> by_nodes_;
  NodeLinks links_;
  const costmodel::Constants& constants_;
  SplitLimits limits_;
  std::map<PartsKey, std::unique_ptr<ModelParts>> parts_;
  std::map<TimersKey, std::unique_ptr<Timed>> timed_;
  Stager stager_;
  std::unique_ptr<Question> last_;
};

}  // namespace rehearsal::predict::frameworks
