#include "predict/lowered_predictor.hpp"

#include <algorithm>

#include "graph/op_schema.hpp"
#include "plan/lowering/spread_decompositions.hpp"
#include "predict/lowered_bounds.hpp"
#include "predict/placed_predictor.hpp"
#include "predict/violations.hpp"

namespace rehearsal::predict {
namespace {

/// Down to whole GiB or MiB, as people write a memory.
std::int64_t round_budget(Bytes memory) {
  const auto bytes = static_cast<std::int64_t>(memory.value());
  for (const std::int64_t unit : {1LL << 30, 1LL << 20})
    if (bytes >= 8 * unit) return bytes / unit * unit;
  return bytes;
}

class LoweredPredictor final : public Predictor {
 public:
  explicit LoweredPredictor(const Workload& job) : job_(job) {}

  [[nodiscard]] const platforms::Platform& platform() const override { return job_.platform; }
  [[nodiscard]] const costmodel::FrameworkProfile& framework() const override { return costmodel::own_framework(); }
  [[nodiscard]] const graph::Graph& graph() const override { return job_.training.graph; }
  [[nodiscard]] std::int64_t batch() const override { return job_.training.batch; }
  [[nodiscard]] const costmodel::CostModel& cost_model_for(const plan::Plan&) const override { return job_.model; }
  [[nodiscard]] const Workload* workload_for(const plan::Plan&) const override { return &job_; }

  [[nodiscard]] const SplitLimits& limits() override {
    if (known_) return limits_;
    known_ = true;
    if (!job_.rules->use) job_.rules->use = plan::use_of_dimensions(job_.training, *job_.dims);
    const auto& use = *job_.rules->use;
    if (!use.experts.empty()) limits_.experts = job_.dims->atoms().size(use.experts.front());
    if (!use.sequence.empty()) limits_.sequence = job_.dims->atoms().size(use.sequence.front());
    limits_.image_axes = use.image_axes;
    limits_.stages = static_cast<std::int64_t>(graph().nodes().size());
    limits_.two_copies = true;
    limits_.attention_forms = {plan::AttentionForm::Gather, plan::AttentionForm::Ring};
    if (!job_.dims->named("heads").empty())
      limits_.attention_forms.insert(limits_.attention_forms.begin() + 1, plan::AttentionForm::AllToAll);
    using Rule = plan::RecomputeRule;
    limits_.recompute = {{}, {Rule::Selective}, {Rule::Budget, round_budget(least_memory())}, {Rule::Full}};
    limits_.weights = !use.weights.empty();
    limits_.batch_statistics = std::any_of(graph().nodes().begin(), graph().nodes().end(),
                                           [](const graph::Node& n) { return graph::schema(n).batch_statistics != 0; });
    limits_.decompositions = plan::decomposes(graph());
    return limits_;
  }

  [[nodiscard]] std::vector<plan::Violation> violations(const plan::Plan& plan) override { return all_violations(job_, plan); }

  [[nodiscard]] Assessment closed(const plan::Plan& plan) override {
    const auto evaluator = closed_form_evaluator();
    return assess(job_, lower_or_say_all(job_, plan), *evaluator, false, nullptr);
  }

  [[nodiscard]] Outlook outlook(const plan::Plan& plan) override { return bounds_.outlook(plan); }

  [[nodiscard]] PlayableStep playable(const plan::Plan& plan) override { return priced(lower_or_say_all(job_, plan)); }

  [[nodiscard]] PlayableStep priced(plan::Program program) override {
    auto costs = cost_of(job_, program);
    return {std::move(program), std::move(costs)};
  }

  [[nodiscard]] Assessment played(const PlayableStep& step, StepEvaluator& evaluator, Timeline* timeline) override {
    StepCost cost;
    auto assessment = assess(job_, step.program, evaluator, timeline != nullptr, &cost);
    if (timeline != nullptr) *timeline = std::move(cost.timeline);
    return assessment;
  }

 private:
  /// Of all devices: what lets a plan fit wherever it runs.
  [[nodiscard]] Bytes least_memory() const {
    const auto memory = [](const platforms::NodeGroup& nodes) { return nodes.device.memory.value; };
    return memory(*std::ranges::min_element(job_.platform.nodes, {}, memory));
  }

  Workload job_;
  LoweredBounds bounds_{job_};
  SplitLimits limits_;
  bool known_ = false;
};

/// Of Platform::nodes: what the others wait for, whichever order they are written down in.
std::size_t slowest_group(const platforms::Platform& platform, const std::string& arithmetic) {
  const auto speed = [&](const platforms::NodeGroup& group) {
    return std::pair{group.device.peak(arithmetic).value_or(FlopsPerSecond(0)).value(), group.device.name};
  };
  return static_cast<std::size_t>(std::ranges::min_element(platform.nodes, {}, speed) - platform.nodes.begin());
}

}  // namespace

std::unique_ptr<Predictor> lowered_predictor(const Workload& job, const BackendsOfGroups& backends) {
  return placed_predictor(job.platform, [job, backends](const platforms::Platform& part, const platforms::NodeOrder& groups) {
    require_peaks(part, job.peak_key);
    std::vector<const costmodel::CostModel*> models;
    for (const auto group : groups)
      if (!job.models.empty()) models.push_back(job.models[group]);
    const auto slowest = slowest_group(part, job.peak_key);
    const auto& model = models.empty() ? job.model : *models[slowest];
    const auto& backend = backends.empty() ? job.backend : *backends[groups[slowest]];
    return std::make_unique<LoweredPredictor>(
        Workload{job.training, job.dims, part, backend, model, job.peak_key, job.rules, std::move(models)});
  });
}

}  // namespace rehearsal::predict
