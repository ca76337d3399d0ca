#include "predict/frameworks/predictor.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "base/error.hpp"
#include "costmodel/power.hpp"
#include "graph/training.hpp"
#include "predict/bottleneck.hpp"
#include "predict/frameworks/closed_step.hpp"
#include "predict/frameworks/lower.hpp"
#include "predict/frameworks/memory.hpp"
#include "predict/frameworks/plan_rules.hpp"
#include "predict/frameworks/program.hpp"
#include "predict/violations.hpp"

namespace rehearsal::predict::frameworks {
namespace {

constexpr double kUnseen = 1.5;  // wider where no published run of the device entered the fit

/// A plan on its way to an answer.
struct Question {
  FrameworkJob job;
  const FoldedModel* model = nullptr;
  std::vector<std::optional<StepTimer>> timers;
  std::optional<StagedStep> step;
};

class FrameworkPredictor final : public Predictor {
 public:
  FrameworkPredictor(Training training, const platforms::Platform& platform, const costmodel::FrameworkProfile& profile,
                     costmodel::Site site)
      : platform_(platform),
        profile_(profile),
        precision_(std::move(training.precision)),
        optimizer_(graph::optimizer_row(training.optimizer).name),
        model_(std::move(training.model), Grain::Blocks),
        site_(std::move(site)),
        network_(platform),
        cost_model_(platform.nodes.front().device, {}, costmodel::profile("rehearse"), "f32") {
    for (std::size_t g = 0; g < platform.nodes.size(); ++g)
      static_cast<void>(costmodel::precision_of(platform.nodes[g].device, precision_));  // refuses what a device cannot compute
    hash_ = model_.whole().hash();
    tokens_ = static_cast<double>(tokens_per_sample(model_.whole()));
    limits_ = model_.limits();
  }

  [[nodiscard]] const platforms::Platform& platform() const override { return platform_; }
  [[nodiscard]] const costmodel::FrameworkProfile& framework() const override { return profile_; }
  [[nodiscard]] const graph::Graph& graph() const override { return model_.whole(); }
  [[nodiscard]] std::int64_t batch() const override { return model_.batch(); }
  [[nodiscard]] const SplitLimits& limits() override { return limits_; }
  [[nodiscard]] const costmodel::CostModel& cost_model() const override { return cost_model_; }

  [[nodiscard]] std::vector<plan::Violation> violations(const plan::Plan& plan) override {
    auto violations = plan_violations({plan, profile_, platform_, limits_, batch()});
    if (!violations.empty()) return violations;
    try {
      static_cast<void>(staged(plan));
    } catch (const Refusal& refusal) {
      violations.push_back({"plan", refusal.what(), "use smaller degrees"});
    }
    return violations;
  }

  [[nodiscard]] Assessment closed(const plan::Plan& plan) override {
    const auto question = staged(plan);
    return assessed(*question, memory_of(*question->step), timed(*question));
  }

  [[nodiscard]] Assessment closed_if_fits(const plan::Plan& plan) override {
    const auto question = staged(plan);
    const auto memory = memory_of(*question->step);
    if (!fits(*question, memory)) {
      Assessment a;
      set_memory(*question, memory, a);
      a.plan = plan;
      a.step = Seconds(std::numeric_limits<double>::infinity());
      return a;
    }
    return assessed(*question, memory, timed(*question));
  }

  [[nodiscard]] PlayableStep playable(const plan::Plan& plan) override {
    const auto question = staged(plan);
    auto priced = program_of(*question->step, *question->model);
    priced.program.model_hash = hash_;
    priced.program.plan = plan;
    return {std::move(priced.program), std::move(priced.costs)};
  }

  [[nodiscard]] Assessment played(const PlayableStep& step, StepEvaluator& evaluator, Timeline* timeline) override {
    auto cost = evaluator.evaluate({step.program, step.costs, platform_, cost_model_, timeline != nullptr});
    const auto question = staged(step.program.plan);
    StepTime time;
    time.seconds = cost.step.value();
    const auto contents = closed_step(*question->step);
    time.matrix_share = std::min(1.0, contents.matrix_share * contents.seconds / time.seconds);
    time.memory_share = std::min(1.0, contents.memory_share * contents.seconds / time.seconds);
    time.exposed = cost.breakdown.exposed_communication.value();
    auto a = assessed(*question, memory_of(*question->step), time);
    const double site = a.step / cost.step;
    a.breakdown = cost.breakdown.scaled(site);
    a.limiting_rank = cost.limiting_rank;
    a.imbalance = cost.imbalance * site;
    a.bottleneck = bottleneck_of(cost.breakdown);
    a.events = cost.events;
    if (timeline != nullptr) *timeline = std::move(cost.timeline);
    return a;
  }

 private:
  using PartsKey = std::tuple<Degrees, Grain, std::size_t>;

  [[nodiscard]] FrameworkJob job_of(const plan::Plan& plan) const {
    const PlanQuestion asked{plan, profile_, platform_, limits_, batch()};
    FrameworkJob job{platform_,
                     profile_,
                     plan,
                     precision_,
                     static_cast<double>(batch()),
                     static_cast<double>(asked.micro_batch()),
                     asked.micro_batches(),
                     *recompute_named(plan.recompute),
                     {}};
    job.recipe.optimizer = optimizer_;
    job.recipe.fp32_reduction = profile_.reduces_in_fp32;
    job.recipe.channels_last = profile_.channels_last;
    job.recipe.channels_last_single = profile_.channels_last_single;
    return job;
  }

  const FoldedModel& model_for(const FrameworkJob& job) {
    if (grain_of(model_, job) == Grain::Blocks) return model_;
    if (!by_nodes_) by_nodes_ = std::make_unique<FoldedModel>(model_.whole(), Grain::Nodes);
    return *by_nodes_;
  }

  const ModelParts& parts(const FrameworkJob& job, const FoldedModel& model, std::size_t group) {
    const auto& p = job.plan;
    const PartsKey key{{job.micro_batch, p.tp, p.cp, p.ep, p.sequence_parallel && p.tp > 1}, grain_of(model_, job), group};
    auto& known = parts_[key];
    if (!known) known = std::make_unique<ModelParts>(parts_of(model, job, group));
    return *known;
  }

  std::unique_ptr<Question> staged(const plan::Plan& plan) {
    if (const auto faults = plan_violations({plan, profile_, platform_, limits_, batch()}); !faults.empty())
      throw Refusal("plan " + plan::to_text(plan) + (faults.size() > 1 ? " has " + std::to_string(faults.size()) + " faults: " : ": ") +
                    to_text(faults));
    auto question = std::make_unique<Question>(Question{job_of(plan), nullptr, {}, {}});
    question->model = &model_for(question->job);
    question->timers.resize(platform_.nodes.size());
    std::set<std::size_t> groups;
    for (const auto& lane : device_groups_of_stages(platform_, plan)) groups.insert(lane.begin(), lane.end());
    for (const auto group : groups)
      question->timers[group].emplace(parts(question->job, *question->model, group), question->job, network_, constants().values, group);
    question->step.emplace(frameworks::staged(question->job, question->timers));
    return question;
  }

  static const costmodel::ConstantsFile& constants() { return costmodel::published_constants(); }

  /// With the clock that a limit of power leaves.
  [[nodiscard]] static StepTime timed(const Question& q) { return closed_step(*q.step); }

  [[nodiscard]] bool fits(const Question& q, const RankMemory& m) const {
    Assessment a;
    set_memory(q, m, a);
    return a.fits();
  }

  void set_memory(const Question& q, const RankMemory& m, Assessment& a) const {
    const auto site = costmodel::effect_of(site_, q.job.device().name, "memory", costmodel::kNoMechanism);
    const double reading = device_reading(m, profile_, constants().values) * std::exp(site.log_factor);
    const auto group = q.step->lanes.front().groups[static_cast<std::size_t>(m.stage)];
    a.memory_bytes = static_cast<std::int64_t>(reading);
    a.memory_capacity = static_cast<std::int64_t>(q.job.device(group).memory.value.value());
    a.memory_log_factor = constants().evidence.of("memory") * (known_device(q) ? 1 : kUnseen) * site.narrowing;
    a.worst_rank = first_rank_of(q.job.plan, m.stage);
    a.memory_by_category.assign(static_cast<std::size_t>(plan::MemoryCategory::Count), 0);
    const auto set = [&](plan::MemoryCategory category, double bytes) {
      a.memory_by_category[static_cast<std::size_t>(category)] = static_cast<std::int64_t>(bytes);
    };
    set(plan::MemoryCategory::Parameters, m.weights);
    set(plan::MemoryCategory::Gradients, m.gradients);
    set(plan::MemoryCategory::OptimizerState, m.optimizer);
    set(plan::MemoryCategory::Activations, m.activations);
    set(plan::MemoryCategory::Communication, m.gathered);
    set(plan::MemoryCategory::Workspace, std::max(0.0, reading - m.all()));
  }

  [[nodiscard]] static int first_rank_of(const plan::Plan& plan, int stage) {
    for (const auto& axis : plan::mesh_of(plan))
      if (axis.name == "pp") return stage * axis.stride;
    return 0;
  }

  [[nodiscard]] static bool known_device(const Question& q) {
    const auto& seen = constants().evidence.devices;
    return std::find(seen.begin(), seen.end(), q.job.device().name) != seen.end();
  }

  Assessment assessed(const Question& q, const RankMemory& memory, StepTime time) const {
    const auto& model = q.step->lanes.front().timers.front()->model();
    const auto features = costmodel::site_features(time.matrix_share, time.memory_share, time.exposed / time.seconds);
    const auto site = costmodel::effect_of(site_, q.job.device().name, model.time_group(), features);
    scale(time, std::exp(site.log_factor));
    Assessment a;
    a.plan = q.job.plan;
    a.platform = platform_.name;
    a.ranks = q.job.plan.ranks();
    a.step = Seconds(time.seconds);
    const double width =
        std::exp(constants().evidence.of(std::string(model.time_group())) * (known_device(q) ? 1 : kUnseen) * site.narrowing);
    a.step_seconds = {time.seconds, time.seconds / width, time.seconds * width};
    a.samples_per_second = q.job.batch / time.seconds;
    a.tokens_per_sample = tokens_;
    a.breakdown = breakdown_of(time);
    a.limiting_rank = first_rank_of(q.job.plan, time.stage);
    a.imbalance = Seconds(time.imbalance);
    a.bottleneck = bottleneck_of(a.breakdown);
    a.evidence = {0, 1, 0};
    if (auto warning = warning_about(q.job.plan); !warning.empty()) a.warnings.push_back(std::move(warning));
    set_memory(q, memory, a);
    const auto power =
        costmodel::device_power(q.job.device(), {time.matrix_share, time.memory_share}, q.job.recipe.power_limit, constants().values);
    const double watts = power.watts * std::exp(costmodel::effect_of(site_, q.job.device().name, "energy", features).log_factor);
    a.cost = costmodel::job_cost(platform_, a.ranks, a.step, Watts(watts) * a.step * a.ranks);
    double flops = 0, peak = 0;
    for (const auto& part : model.parts) flops += part.flops * part.repeats;
    for (int rank = 0; rank < a.ranks; ++rank)
      peak += platform_.nodes.size() == 1 ? 0 : q.job.precision_on(static_cast<std::size_t>(platforms::place(platform_, rank).group)).peak;
    if (platform_.nodes.size() == 1) peak = a.ranks * q.job.precision_on(0).peak;
    a.mfu = flops * q.job.batch / (time.seconds * peak);
    return a;
  }

  static void scale(StepTime& time, double factor) {
    for (const auto part :
         {&StepTime::seconds, &StepTime::bubble, &StepTime::exposed, &StepTime::recompute, &StepTime::optimizer, &StepTime::imbalance})
      time.*part *= factor;
  }

  [[nodiscard]] static Breakdown breakdown_of(const StepTime& s) {
    Breakdown b;
    b.exposed_communication = Seconds(s.exposed);
    b.bubble = Seconds(s.bubble);
    b.recompute = Seconds(s.recompute);
    b.optimizer = Seconds(s.optimizer);
    b.compute = Seconds(std::max(0.0, s.seconds - s.exposed - s.bubble - s.recompute - s.optimizer));
    return b;
  }

  [[nodiscard]] std::string warning_about(const plan::Plan& plan) const {
    if (!limits_.batch_statistics || (plan.dp == 1 && !plan.micro_batch)) return {};
    return profile_.name + " takes the statistics of batch normalization from each micro-batch: other mathematics than those of the batch";
  }

  const platforms::Platform& platform_;
  const costmodel::FrameworkProfile& profile_;
  std::string precision_, optimizer_, hash_;
  FoldedModel model_;
  costmodel::Site site_;
  std::unique_ptr<FoldedModel> by_nodes_;
  costmodel::Network network_;
  costmodel::CostModel cost_model_;
  SplitLimits limits_;
  double tokens_ = 0;
  std::map<PartsKey, std::unique_ptr<ModelParts>> parts_;
};

}  // namespace

std::unique_ptr<Predictor> framework_predictor(Training training, const platforms::Platform& platform,
                                               const costmodel::FrameworkProfile& profile, costmodel::Site site) {
  return std::make_unique<FrameworkPredictor>(std::move(training), platform, profile, std::move(site));
}

}  // namespace rehearsal::predict::frameworks
