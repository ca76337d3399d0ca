#include "predict/frameworks/framework_predictor.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/arithmetic.hpp"
#include "base/error.hpp"
#include "costmodel/power.hpp"
#include "plan/plan_keys.hpp"
#include "predict/bottleneck.hpp"
#include "predict/checkpoint_size.hpp"
#include "predict/frameworks/closed_step.hpp"
#include "predict/frameworks/framework_program.hpp"
#include "predict/frameworks/kind_of_model.hpp"
#include "predict/frameworks/least_step.hpp"
#include "predict/frameworks/memory.hpp"
#include "predict/frameworks/questions.hpp"
#include "predict/frameworks/recipe.hpp"
#include "predict/memory_risk.hpp"
#include "predict/placed_predictor.hpp"
#include "predict/playing.hpp"

namespace rehearsal::predict::frameworks {
namespace {

using Question = Questions::Question;

class FrameworkPredictor final : public Predictor {
 public:
  FrameworkPredictor(TrainingRequest training, const platforms::Platform& platform, const costmodel::FrameworkProfile& profile,
                     costmodel::Site site)
      : platform_(platform), profile_(profile), site_(std::move(site)), cost_model_(platform.nodes.front().device, {}, "f32") {
    for (const auto& nodes : platform.nodes)
      static_cast<void>(costmodel::precision_of(nodes.device, training.precision));  // refuses what a device cannot compute
    const std::string optimizer(graph::optimizer_row(training.optimizer).name);
    if (graph::optimizer_row(optimizer).decomposes)
      throw Refusal("how long " + profile.name + " takes for the decompositions of matrices that " + optimizer +
                    " needs was never measured; use --framework rehearse, which computes them on the host, or muon");
    const auto without = training.recipe.without();
    questions_ = std::make_unique<Questions>(
        std::move(training.model), TrainingSetting{platform, profile, std::move(training.precision), optimizer, std::move(training.recipe)},
        constants().values);
    hash_ = graph().hash();
    kind_ = kind_of_model(questions_->model());
    parameters_ = parameters_of_model(questions_->model());
    tokens_ = static_cast<double>(tokens_per_sample(graph()));
    const auto uses = graph::parameter_uses(graph());
    for (std::size_t t = 0; t < uses.size(); ++t) {
      if (graph().tensors()[t].role != graph::TensorRole::Parameter) continue;
      const auto update = graph::update_size(graph::optimizer_row(optimizer), uses[t], without);
      weights_ += {update.elements, update.elements, update.state, update.moved, update.product_flops};
    }
  }

  [[nodiscard]] const platforms::Platform& platform() const override { return platform_; }
  [[nodiscard]] const costmodel::FrameworkProfile& framework() const override { return profile_; }
  [[nodiscard]] const graph::Graph& graph() const override { return questions_->model().whole(); }
  [[nodiscard]] std::int64_t batch() const override { return questions_->model().batch(); }
  [[nodiscard]] const SplitLimits& limits() override { return questions_->limits(); }
  [[nodiscard]] const costmodel::CostModel& cost_model_for(const plan::Plan&) const override { return cost_model_; }

  [[nodiscard]] std::vector<plan::Violation> violations(const plan::Plan& plan) override {
    auto violations = questions_->violations(plan);
    if (!violations.empty()) return violations;
    try {
      const auto& question = questions_->ask(plan);
      require_room_on_host(question, memory_of(question.step));
    } catch (const Refusal& refusal) {
      violations.push_back({"plan", refusal.what(), "use smaller degrees"});
    }
    return violations;
  }

  [[nodiscard]] Assessment closed(const plan::Plan& plan) override {
    const auto& question = questions_->ask(plan);
    return assessed(question, memory_of(question.step), closed_step(question.step));
  }

  [[nodiscard]] Outlook outlook(const plan::Plan& plan) override {
    const auto& question = questions_->ask(plan);
    Assessment a;
    set_memory(question, memory_of(question.step), a);
    Outlook outlook{a.memory_bytes, true, a.memory_capacity, a.memory_margin, {}, {}};
    if (!outlook.fits() || !site_.corrections.empty()) return outlook;  // a site makes plans quicker or slower by what they are made of
    const auto least = least_step(question.step);
    outlook.step = Seconds(least.seconds);
    auto idle = work_of_devices(question.step);
    for (auto& devices : idle) devices.busy = {};
    outlook.cost = cost_of(question, least.seconds, watts_of(question, idle, least.seconds), 0);
    return outlook;
  }

  [[nodiscard]] PlayableStep playable(const plan::Plan& plan) override {
    const auto& question = questions_->ask(plan);
    auto priced = program_of(question.step, question.model);
    priced.program.model_hash = hash_;
    priced.program.plan = plan;
    return {std::move(priced.program), std::move(priced.costs)};
  }

  [[nodiscard]] Assessment played(const PlayableStep& step, StepEvaluator& evaluator, Timeline* timeline) override {
    auto cost = evaluator.evaluate({step.program, step.costs, platform_, cost_model_, timeline != nullptr});
    const auto& question = questions_->ask(step.program.plan);
    StepTime time;
    time.seconds = cost.step.value();
    const auto contents = closed_step(question.step);
    time.matrix_share = std::min(1.0, contents.matrix_share * contents.seconds / time.seconds);
    time.memory_share = std::min(1.0, contents.memory_share * contents.seconds / time.seconds);
    time.exposed = contents.exposed;
    time.handovers = contents.handovers;
    auto a = assessed(question, memory_of(question.step), time);
    const double site = a.step / cost.step;
    a.breakdown = cost.breakdown.scaled(site);
    a.limiting_rank = cost.limiting_rank;
    a.imbalance = cost.imbalance * site;
    a.bottleneck = bottleneck_of(cost.breakdown);
    a.events = cost.events;
    if (timeline == nullptr) return a;
    stretch(cost.timeline, site);
    *timeline = std::move(cost.timeline);
    return a;
  }

 private:
  static const costmodel::ConstantsFile& constants() { return costmodel::published_constants(); }

  /// All ranks of a node are taken to move as much as the fullest one.
  static void require_room_on_host(const Question& q, const RankMemory& m) {
    if (m.host <= 0) return;
    const auto& node = q.job.platform.nodes[q.step.lanes.front().devices.groups[static_cast<std::size_t>(m.stage)]];
    const Bytes wanted(m.host * std::min(node.devices, q.job.plan.ranks()));
    if (wanted > node.host_memory.value)
      throw Refusal("offload=" + std::string(plan::name(q.job.plan.offload)) + ": a node would hold " + to_text(wanted) +
                    " in its host's memory, " + to_text(wanted - node.host_memory.value) + " more than it has");
  }

  void set_memory(const Question& q, const RankMemory& m, Assessment& a) const {
    require_room_on_host(q, m);
    a.host_bytes = static_cast<std::int64_t>(m.host);
    const auto site = costmodel::effect_of(site_, q.job.device().name, "memory", costmodel::kNoMechanism);
    const double capacity = capacity_of(q.step, m.stage), own = std::exp(site.log_factor);
    const auto device = device_memory(m, profile_, constants().values, capacity);
    const double reading = device.reading * own;
    a.memory_bytes = static_cast<std::int64_t>(reading);
    a.memory_needed = static_cast<std::int64_t>(device.needed * own);
    a.memory_capacity = static_cast<std::int64_t>(capacity);
    const auto& evidence = constants().evidence;
    const double widening = evidence.widening_of(q.job.device()) * evidence.widening_of(profile_.name);
    const double width = std::exp(site.half_width(evidence.of("memory") * widening));
    a.memory_low = static_cast<std::int64_t>(reading / width);
    a.memory_high = static_cast<std::int64_t>(reading * width);
    a.memory_margin = largest_share(width) - 1;
    a.memory_rests_on = "tensors by their shapes; what the allocator, the driver and communicators add is fitted to published readings";
    a.worst_rank = first_rank_of(q.job.plan, m.stage);
    a.memory_by_category = by_category(m, a.memory_bytes);
  }

  [[nodiscard]] static int first_rank_of(const plan::Plan& plan, int stage) {
    for (const auto& axis : plan::mesh_of(plan))
      if (axis.name == "pp") return stage * axis.stride;
    return 0;
  }

  void set_warnings(const Question& q, const ModelParts& model, Assessment& a) const {
    const auto& plan = q.job.plan;
    a.warnings = plan::keys_without_effect(plan, plan.dp * plan.cp);
    if (auto warning = warning_about(plan); !warning.empty()) a.warnings.push_back(std::move(warning));
    for (auto& sentence : choices_without_effect(q.job, model)) a.warnings.push_back(std::move(sentence));
    if (model.capture.only_in_mxfp8)
      a.warnings.push_back(profile_.name + " launches a step in " + q.job.precision +
                           " kernel by kernel, and captures it as one graph in " +
                           "mxfp8 alone, for which it has recipes; --recipe cuda_graph=on,fused_experts=on,expert_overlap=on answers as " +
                           "if it had one for this, too");
  }

  Assessment assessed(const Question& q, const RankMemory& memory, StepTime time) const {
    const auto& model = q.step.lanes.front().timers.front()->model();
    const auto work = work_of_devices(q.step);
    // What sites teach about communication is about sums and exchanges: handovers of a pipeline are small beside the waiting around them.
    const double communication = (time.exposed - time.handovers) / time.seconds;
    const auto features = costmodel::site_features(time.matrix_share, time.memory_share, communication);
    const auto site = costmodel::effect_of(site_, q.job.device().name, model.time_group(), features);
    const auto& pacing = q.job.device(busiest(work).group);
    const auto power = costmodel::device_power(pacing, busiest(work).busy.of(time.seconds), q.job.recipe.power_limit, constants().values);
    const double watts = watts_of(q, work, time.seconds);
    scale(time, std::exp(site.log_factor) * power.slowdown);
    Assessment a;
    a.plan = q.job.plan;
    a.platform = platform_.name;
    a.framework = profile_.name;
    a.ranks = q.job.plan.ranks();
    a.step = Seconds(time.seconds);
    const auto traits = traits_of(q, busiest(work).group);
    const auto& evidence = constants().evidence;
    const double width = std::exp(site.half_width(evidence.half_width(model.time_group(), traits)));
    a.new_to_us = evidence.new_in(traits);
    a.step_seconds = {time.seconds, time.seconds / width, time.seconds * width};
    a.samples_per_second = q.job.batch / time.seconds;
    a.tokens_per_sample = tokens_;
    a.breakdown = breakdown_of(time);
    a.limiting_rank = time.first_rank + first_rank_of(q.job.plan, time.stage);
    a.imbalance = Seconds(time.imbalance);
    a.bottleneck = bottleneck_of(a.breakdown);
    a.evidence = {0, 1, 0};
    set_warnings(q, model, a);
    if (power.at_least) a.warnings.push_back(below_least_clock(q.job.recipe.power_limit, pacing, power));
    set_memory(q, memory, a);
    a.checkpoint = checkpoint_size(checkpoint_bytes(q.job, weights_), a.ranks, platform_);
    a.cost = cost_of(q, time.seconds, watts, costmodel::effect_of(site_, q.job.device().name, "energy", features).log_factor);
    set_clocks(q, time, a);
    a.mfu = flops_of(model) * q.job.batch / (time.seconds * peak_of(q));
    return a;
  }

  /// As published runs are told apart.
  [[nodiscard]] costmodel::RunTraits traits_of(const Question& q, std::size_t group) const {
    const auto precision = costmodel::precision_class(q.job.precision_on(group));
    return {{q.job.device(group).name, profile_.name, std::string(precision), kind_}, static_cast<double>(q.job.plan.ranks()), parameters_};
  }

  [[nodiscard]] static std::string below_least_clock(double limit, const platforms::Device& device, const costmodel::DevicePower& power) {
    return "--recipe power: below a limit of " + to_text(Watts(limit)) + " nothing changes any more: at its lowest clock, taken to be " +
           std::to_string(std::lround(100 * costmodel::kLeastClock)) + " % of its own, " + device.name + " draws " +
           to_text(Watts(power.watts)) + " here, more than that";
  }

  /// The devices that wait least for others: they set the pace, and are what an interval is about.
  [[nodiscard]] static const DeviceWork& busiest(const std::vector<DeviceWork>& work) {
    return *std::ranges::max_element(work, {}, [](const DeviceWork& w) { return w.busy.matrix + w.busy.memory; });
  }

  /// That all ranks draw in a step of so long.
  [[nodiscard]] static double watts_of(const Question& q, const std::vector<DeviceWork>& work, double seconds) {
    double watts = 0;
    for (const auto& w : work)
      watts +=
          w.ranks * costmodel::device_power(q.job.device(w.group), w.busy.of(seconds), q.job.recipe.power_limit, constants().values).watts;
    return watts;
  }

  static void set_clocks(const Question& q, const StepTime& time, Assessment& a) {
    if (!q.job.recipe.stage_clocks) return;
    a.stage_clocks = StageClocksAnswer{{}, q.clocks.slower, q.clocks.saved};
    for (const double watts : stage_watts(q.step, q.clocks, time.seconds, constants().values)) {
      const auto stage = a.stage_clocks->stages.size();
      a.stage_clocks->stages.push_back({q.clocks.shares.empty() ? 1 : q.clocks.shares[stage], Watts(watts)});
    }
  }

  /// Of one step of so long. `watts`: of all ranks at the clocks of their devices. `log_factor`: of what devices draw.
  [[nodiscard]] costmodel::JobCost cost_of(const Question& q, double seconds, double watts, double log_factor) const {
    const int ranks = q.job.plan.ranks();
    if (!q.clocks.shares.empty()) {
      const auto stages = stage_watts(q.step, q.clocks, seconds, constants().values);
      watts = std::accumulate(stages.begin(), stages.end(), 0.0) * ranks / static_cast<double>(stages.size());
    }
    return costmodel::job_cost(platform_, ranks, Seconds(seconds), Watts(watts * std::exp(log_factor)) * Seconds(seconds));
  }

  /// Of one sample.
  [[nodiscard]] static double flops_of(const ModelParts& model) {
    double flops = 0;
    for (const auto& part : model.parts) flops += part.computed_flops * part.repeats;
    return flops;
  }

  /// FLOP/s of all devices in use.
  [[nodiscard]] double peak_of(const Question& q) const {
    double peak = 0;
    int left = q.job.plan.ranks();
    for (std::size_t g = 0; g < platform_.nodes.size() && left > 0; ++g) {
      const int own = std::min(left, platform_.nodes[g].count * platform_.nodes[g].devices);
      peak += own * q.job.precision_on(g).peak;
      left -= own;
    }
    return peak;
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
    if (!questions_->limits().batch_statistics || (plan.dp == 1 && !plan.micro_batch)) return {};
    return profile_.name + " takes the statistics of batch normalization from each micro-batch: other mathematics than those of the batch";
  }

  const platforms::Platform& platform_;
  const costmodel::FrameworkProfile& profile_;
  costmodel::Site site_;
  costmodel::CostModel cost_model_;
  std::unique_ptr<Questions> questions_;
  std::string hash_, kind_;  ///< kind_: kind_of_model()
  double tokens_ = 0, parameters_ = 0;
  Weights weights_;
};

}  // namespace

std::unique_ptr<Predictor> framework_predictor(TrainingRequest training, const platforms::Platform& platform,
                                               const costmodel::FrameworkProfile& profile, costmodel::Site site) {
  return placed_predictor(platform, [training = std::move(training), &profile, site = std::move(site)](const platforms::Platform& part,
                                                                                                       const platforms::NodeOrder&) {
    if (const auto* row = find_arithmetic(training.precision)) require_peaks(part, row->peak);
    require_devices(training.recipe, part);
    return std::make_unique<FrameworkPredictor>(training, part, profile, site);
  });
}

}  // namespace rehearsal::predict::frameworks
