#include "cli/platform_options.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/arithmetic.hpp"
#include "base/error.hpp"
#include "base/join.hpp"
#include "base/names.hpp"
#include "cli/framework_rules.hpp"
#include "cli/help/help_page.hpp"
#include "cli/measurements.hpp"
#include "cli/on_this_machine.hpp"
#include "cli/plan_context.hpp"
#include "plan/batch_shares.hpp"
#include "plan/lowering/algorithms.hpp"
#include "platforms/catalog.hpp"
#include "platforms/settings.hpp"
#include "platforms/usual_figures.hpp"
#include "predict/changes.hpp"
#include "predict/frameworks/framework_predictor.hpp"
#include "predict/frameworks/recipe.hpp"
#include "predict/frameworks/usual_predictor.hpp"
#include "predict/frameworks/usual_profile.hpp"
#include "predict/input_predictor.hpp"
#include "predict/lowered_predictor.hpp"
#include "predict/placed_predictor.hpp"
#include "predict/ruled_predictor.hpp"
#include "predict/stragglers.hpp"
#include "search/search.hpp"

namespace rehearsal::cli {
namespace {

std::unique_ptr<plan::Backend> backend_for(const platforms::Device& device, const std::string& machine,
                                           std::vector<std::string>& warnings) {
  if (device.kind != platforms::DeviceKind::Cpu) return std::make_unique<plan::TableBackend>(true);
  auto kernels = cpu_kernels(machine);
  if (!kernels.doubt.empty()) warnings.push_back(kernels.doubt);
  return std::move(kernels.backend);
}

/// With limits for plans, which say themselves in which order they fill groups of nodes.
platforms::Platform load_all_groups(const PlatformOptions& o) {
  auto platform = platforms::load(o.platform);
  if (o.nodes) platform = platforms::with_limits(platform, o.nodes, {});
  if (const auto count = platforms::most_devices(platform); o.nodes && o.devices && *o.devices > count)
    throw BadInput("--devices " + std::to_string(*o.devices),
                   "are more than the " + std::to_string(count) + " of --nodes " + std::to_string(*o.nodes) + "; leave one of them out");
  if (o.devices) platform = platforms::with_limits(platform, {}, o.devices);
  for (const auto& [key, value] : o.settings) platform = platforms::with_setting(platform, key, value);
  if (o.power_cap) platform.name += " at " + std::to_string(std::lround(*o.power_cap)) + " W";
  return costmodel::with_costs(std::move(platform), o.costs);
}

/// Profiles of frameworks know no f64, and a step that trains nothing is none.
void require_known_training(const ModelOptions& model, const graph::Graph& graph) {
  if (model.dtype == "f64")
    throw Refusal("--dtype f64: no profile of a framework says what training in f64 costs; use f32, or --framework rehearse");
  if (std::ranges::none_of(graph.tensors(), [](const auto& t) { return t.role == graph::TensorRole::Parameter; }))
    throw Refusal("nothing in this model can be trained: it has no floating-point parameter that is not frozen");
}

}  // namespace

platforms::Platform load_platform(const PlatformOptions& o) {
  auto platform = load_all_groups(o);
  if (platform.nodes.size() == 1) return platform;
  if (o.nodes) platform = platforms::with_nodes(platform, *o.nodes);
  return o.devices ? platforms::with_devices(platform, *o.devices) : platform;
}

void PlatformOptions::add_to(CLI::App& app) {
  {
    const OptionGroup group(app, "Where and how it runs");
    app.add_option("--platform", platform, kPlatformHelp)->required();
  }
  add_without_platform_to(app);
}

void PlatformOptions::add_without_platform_to(CLI::App& app) {
  const OptionGroup group(app, "Where and how it runs");
  app.add_option("--nodes", nodes, "how many nodes of it");
  app.add_option("--devices", devices, "how many devices of it");
  app.add_option("--machine", machine, "measurements: machine.json as calibrate and learn write it");
  app.add_option("--framework", framework,
                 "how the job is run: rehearse (our own execution) or a framework such as megatron-core, torchtitan, pytorch; left out: "
                 "what runs on such "
                 "devices today");
  app.add_option("--recipe", recipe, "KEY=VALUE,...: what recipes of a --framework choose besides the plan; the keys are listed below");
  app.add_option("--imbalance", imbalance,
                 "tokens among experts: balanced (default), zipf:S, or a file with a JSON list of a number for each");
  app.add_option("--jitter", jitter,
                 "ranks are not equally quick in every step: standard deviation of the time that one computes, as a share of it (0.1)");
  app.add_option("--plan", plan, "compact text such as dp=8,pp=2, or a plan file");
  add_costs_to(app);
}

void PlatformOptions::add_costs_to(CLI::App& app) {
  const OptionGroup group(app, "Prices");
  app.add_option("--price", costs.dollars_per_device_hour, "dollars for a device and hour, over what the platform says");
  app.add_option("--pue", costs.pue, "power of the building over power of the machines");
  app.add_option("--carbon", costs.grams_per_kilowatt_hour, "grams of CO2 for a kWh of electricity");
}

/// Our own execution of a training.
struct JobSetup::Own {
  Own(const ModelOptions& options, const PlatformOptions& o, const platforms::Platform& platform, std::vector<std::string>& warnings)
      : training(load_training(options, warnings, ModelUse::Predict)),
        backends(backends_of(platform, o.machine, warnings)),
        models(models_of(options, o, platform, warnings)),
        job{training,         std::make_shared<const graph::LogicalDims>(training.graph), platform, *backends.front(), models.front(),
            peak_key(options)} {
    for (const auto& model : models) job.models.push_back(&model);
  }

  /// By group of nodes; groups of processors have one, and all others.
  static std::vector<std::shared_ptr<plan::Backend>> backends_of(const platforms::Platform& platform, const std::string& machine,
                                                                 std::vector<std::string>& warnings) {
    std::shared_ptr<plan::Backend> of_processors, of_others;
    std::vector<std::shared_ptr<plan::Backend>> backends;
    for (const auto& group : platform.nodes) {
      auto& one = group.device.kind == platforms::DeviceKind::Cpu ? of_processors : of_others;
      if (!one) one = backend_for(group.device, machine, warnings);
      backends.push_back(one);
    }
    return backends;
  }

  [[nodiscard]] std::unique_ptr<predict::Predictor> predictor() const {
    predict::BackendsOfGroups of_groups;
    for (const auto& backend : backends) of_groups.push_back(backend.get());
    return predict::lowered_predictor(job, of_groups);
  }

  /// By group of nodes.
  static std::vector<costmodel::CostModel> models_of(const ModelOptions& options, const PlatformOptions& o,
                                                     const platforms::Platform& platform, std::vector<std::string>& warnings) {
    auto measured = measured_for(o.machine, platform, warnings);
    std::vector<costmodel::CostModel> models;
    for (std::size_t n = 0; n < measured.size(); ++n)
      models.emplace_back(platform.nodes[n].device, std::move(measured[n]), peak_key(options));
    return models;
  }

  graph::TrainingGraph training;
  std::vector<std::shared_ptr<plan::Backend>> backends;  ///< by group of nodes
  std::vector<costmodel::CostModel> models;
  predict::Workload job;
};

namespace {

/// The one that is named, else what is usual; `loaded` gets the model where it had to be looked at.
const costmodel::FrameworkProfile& framework_of(const PlatformOptions& o, const platforms::Platform& platform, const ModelOptions& model,
                                                std::optional<LoadedModel>& loaded) {
  if (o.framework.empty()) {
    const bool runs_here =
        std::ranges::all_of(platform.nodes, [](const auto& group) { return group.device.kind == platforms::DeviceKind::Cpu; });
    if (runs_here) return costmodel::own_framework();
    loaded = load_model(model);
    const auto plan = o.plan.empty() ? plan::Plan() : plan_argument(o.plan).plan;
    const bool everywhere = o.plan.empty() || !plan.searched.empty();
    return predict::frameworks::usual_framework(platform, predict::frameworks::kind_of(loaded->graph, plan),
                                                everywhere ? platforms::device_count(platform) : plan.ranks());
  }
  return costmodel::known_framework("--framework", o.framework);
}

/// An option that changes what is computed, and whether it was given a value under which a framework's step is another one.
struct OwnOption {
  const char* option;
  bool (*given)(const ModelOptions&);
};
constexpr OwnOption kOwnOptions[] = {
    {"--loss", [](const ModelOptions& o) { return !o.loss.empty() && find_name(o.loss, {"cross-entropy"}) != "cross-entropy"; }},
    {"--dropout", [](const ModelOptions& o) { return o.dropout != ModelOptions{}.dropout; }},
    // Gradients are clipped by their norm where recipes do: before updates with moments (predict/frameworks/timing.cpp).
    {"--clip-norm", [](const ModelOptions& o) { return o.clip_norm && !graph::has_moments(graph::optimizer_row(o.optimizer)); }},
    {"--clip-value", [](const ModelOptions& o) { return o.clip_value.has_value(); }},
    {"--loss-scale", [](const ModelOptions& o) { return !o.loss_scale.empty(); }}};

/// What a framework's prediction does not look at is refused, never ignored.
void require_known_options(const ModelOptions& model, const costmodel::FrameworkProfile& framework) {
  require_possible_values(model);
  std::vector<std::string_view> given;
  for (const auto& own : kOwnOptions)
    if (own.given(model)) given.emplace_back(own.option);
  if (!given.empty())
    throw Refusal(joined(given) + ": predictions of " + framework.name + " do not look at " + (given.size() == 1 ? "it" : "them") +
                  "; leave " + (given.size() == 1 ? "it" : "them") + " out, or use --framework rehearse");
}

bool is_plan_file(const std::string& text) {
  constexpr std::string_view kEnd = ".json";
  const bool named_so = text.size() > kEnd.size() && text.ends_with(kEnd);
  return named_so || (text.find('=') == std::string::npos && std::filesystem::exists(text));
}

/// Some device computes in the arithmetic that is asked for; a plan that uses others is refused when it is known.
void require_peaks(const ModelOptions& model, const platforms::Platform& platform) {
  const auto has_peak = [&](const platforms::NodeGroup& group) { return group.device.peak(peak_key(model)).has_value(); };
  if (std::ranges::any_of(platform.nodes, has_peak)) return;
  try {
    predict::require_peaks(platform, peak_key(model));
  } catch (const Refusal& none) {
    throw Refusal("--dtype " + model.dtype + ": " + none.what());
  }
}

/// What frameworks know and our own execution does not.
void require_own_choices(const ModelOptions& model, const PlatformOptions& o) {
  if (!o.imbalance.empty())
    throw Refusal("--imbalance " + o.imbalance + ": rehearse routes tokens by the model's own capacity; name another --framework");
  if (!o.recipe.empty())
    throw Refusal("--recipe " + o.recipe + ": rehearse trains as it is told by the plan; leave it out, or name another --framework");
  if (find_arithmetic(model.dtype)->predicted_alone && model.dtype != "fp8")
    throw Refusal("--dtype " + model.dtype +
                  ": scales and casts of narrow operands are known of frameworks, not of rehearse; use fp8, or name another --framework");
}

/// A plan file brings the framework and the recipe that it was searched as to the platform that it was searched on.
PlatformOptions with_framework_of_plan(PlatformOptions o) {
  if (!o.framework.empty() || o.plan.empty()) return o;
  const auto context = plan_argument(o.plan).context;
  const auto on = context.searched_on.find("platform");
  if (on == context.searched_on.end()) return o;
  if (on->second.size() != 1) throw BadInput(o.plan + ": context.searched_on.platform", "must be one platform");
  if (plain_spelling(on->second.front()) == plain_spelling(o.platform)) take_place(o, context);
  return o;
}

}  // namespace

JobSetup::JobSetup(const ModelOptions& model, const PlatformOptions& given)
    : options_(with_framework_of_plan(given)), platform_(load_all_groups(options_)) {
  const auto& o = options_;
  for (const auto& sentence : platforms::unusual_figures(platform_)) warnings_.push_back("platform " + platform_.name + ": " + sentence);
  std::optional<LoadedModel> known;
  const auto& framework = framework_of(o, platform_, model, known);
  require_peaks(model, platform_);
  add_own_measurements(framework);
  if (&framework == &costmodel::own_framework()) {
    require_own_choices(model, o);
    own_ = std::make_unique<Own>(model, o, platform_, warnings_);
    const auto adds = platform_.topology.parameters.find("adds");
    if (adds != platform_.topology.parameters.end() && adds->second.front() > 0)
      warnings_.push_back("platform " + platform_.name +
                          ": topology.adds: rehearse adds at its ranks, not in switches; sums are predicted as without");
    predictor_ = own_->predictor();
    add_input(model, o);
    add_rules(model);
    return;
  }
  require_known_options(model, framework);
  auto loaded = known ? std::move(*known) : load_model(model);
  warnings_.insert(warnings_.end(), loaded.warnings.begin(), loaded.warnings.end());
  predictor_ = predictor_as(framework, model, o, graph::with_roles(loaded.graph, roles_asked_for(model, loaded.damage), warnings_));
  add_usual_others(model, o);
  if (model.batch && predictor_->batch() != *model.batch)
    throw BadInput(model.model, "the model is written for a batch of " + std::to_string(predictor_->batch()) + ", not " +
                                    std::to_string(*model.batch) + "; export it with a dynamic batch");
  add_input(model, o);
  add_rules(model);
  if (given.framework.empty()) add_stand_ins(model);
}

std::string calibration_of(const PlatformOptions& o) {
  if (!o.machine.empty()) return o.machine;
  const auto file = platforms::file_of(o.platform);
  return file && costmodel::holds_calibration(file->string()) ? file->string() : "";
}

void JobSetup::add_own_measurements(const costmodel::FrameworkProfile& framework) {
  if (&framework == &costmodel::own_framework()) {
    options_.machine = calibration_of(options_);
    return;
  }
  const auto file = platforms::file_of(options_.platform);
  if (!options_.machine.empty() || !file) return;
  if (knows_devices(costmodel::read_site(file->string()), platform_)) options_.machine = file->string();
}

void JobSetup::add_rules(const ModelOptions& model) {
  training_job_ = training_job(model, predictor().batch());
  choosing_ = predict::with_rule(predictor(), [this](const plan::Plan& plan) { return rules_for(plan)(plan).impossible; });
}

const exchange::PlanRules& JobSetup::rules_of(const costmodel::FrameworkProfile& framework) const {
  return rules_.try_emplace(framework.product(), framework.product(), training_job_).first->second;
}

const exchange::PlanRules& JobSetup::rules_for(const plan::Plan& plan) const { return rules_of(predictor().framework_for(plan)); }

predict::Predictor& JobSetup::changing(const plan::Plan& plan) const {
  return rules_for(plan)(plan).impossible.empty() ? *choosing_ : predictor();
}

std::vector<std::string> JobSetup::left_to_program(const predict::Assessment& answer) const {
  const auto& rules = rules_of(*costmodel::find_framework(answer.framework));
  std::vector<std::string> left;
  for (const auto& v : rules(answer.plan).left_to_program) left.push_back(v.key + ": " + v.problem);
  return left;
}

/// How long the training is, and what its steps wait for: other ranks, samples.
void JobSetup::add_input(const ModelOptions& model, const PlatformOptions& o) {
  if (o.jitter) predictor_ = predict::with_jitter(std::move(predictor_), {*o.jitter});
  input_ = known_input(o.input, model, platform_);
  if (!input_.left_out.empty()) warnings_.push_back(input_.left_out);
  steps_ = steps_of(o.input.extent, input_.samples, predictor_->batch(), predictor_->graph());
  if (!input_.question) return;
  if (o.input.extent.given()) input_.question->steps = steps_;
  predictor_ = predict::with_input(std::move(predictor_), *input_.question);
}

void JobSetup::add_usual_others(const ModelOptions& model, const PlatformOptions& o) {
  if (!o.framework.empty()) return;
  const auto& asked = predictor_->framework();
  predict::frameworks::PredictorsByFramework predictors;
  for (const auto* usual : predict::frameworks::usual_frameworks(platform_, predictor_->graph()))
    if (usual != &asked && usual != &costmodel::own_framework()) predictors[usual] = predictor_as(*usual, model, o, predictor_->graph());
  if (predictors.empty()) return;
  predictors[&asked] = std::move(predictor_);
  predictor_ = predict::frameworks::usual_predictor(std::move(predictors), asked);
}

std::unique_ptr<predict::Predictor> JobSetup::predictor_as(const costmodel::FrameworkProfile& framework, const ModelOptions& model,
                                                           const PlatformOptions& o, graph::Graph graph) const {
  auto recipe = predict::frameworks::parse_recipe("--recipe", o.recipe);
  recipe.expert_load = predict::frameworks::ExpertLoad::parse("--imbalance", o.imbalance);
  take_hyperparameters(recipe, optimizer_of(model));
  require_effect(recipe, graph);
  require_known_training(model, graph);
  return predict::frameworks::framework_predictor({std::move(graph), model.dtype, model.optimizer, std::move(recipe)}, platform_, framework,
                                                  site_for(o.machine, platform_, framework));
}

void JobSetup::add_stand_ins(const ModelOptions& model) {
  stand_ins_ = std::make_unique<StandIns>(*predictor_, [this, model](const costmodel::FrameworkProfile& framework) {
    auto other = predictor_as(framework, model, options_, predictor_->graph());
    if (options_.jitter) other = predict::with_jitter(std::move(other), {*options_.jitter});
    if (input_.question) other = predict::with_input(std::move(other), *input_.question);
    return other;
  });
}

predict::Predictor& JobSetup::answering() const { return stand_ins_ ? *stand_ins_ : predictor(); }

/// Says why another framework is meant than the usual one, where one is.
std::string JobSetup::look_for_others(const ModelOptions& model, const PlatformOptions& o) {
  if (!stand_ins_ || o.plan.empty()) return "";
  const auto given = plan_argument(o.plan).plan;
  if (!given.searched.empty()) return "";
  const auto choice = stand_ins_->choice(given, is_plan_file(o.plan) ? StandIns::Named() : plan::named_keys(o.plan));
  if (choice.instead.empty()) return "";
  stand_in_ = choice.by;
  add_rules(model);
  return choice.instead;
}

JobSetup::~JobSetup() = default;

bool JobSetup::is_own() const { return own_ != nullptr; }

void AnsweredPlan::tell(const Terminal& terminal) const {
  if (!how_taken.empty() && !terminal.json()) terminal.warn(how_taken);
}

void AnsweredPlan::tell(nlohmann::ordered_json& result) const {
  if (!how_taken.empty()) result["plan_is"] = how_taken;
}

AnsweredPlan JobSetup::plan(const ModelOptions& model, const PlatformOptions& o) {
  const auto instead = look_for_others(model, o);
  auto answered = taken(model, o);
  if (!instead.empty()) answered.how_taken = instead + (answered.how_taken.empty() ? "" : "; ") + answered.how_taken;
  return answered;
}

std::string JobSetup::made_for_another(const ModelOptions& model, const plan::PlanFile& file) const {
  const auto asked = context(model, file.plan);
  if (file.context.model_hash.empty() || file.context.model_hash == asked.model_hash) return "";
  if (made_for(file.context) == made_for(asked))
    return "the plan file was made for another model of that name: " + made_for(asked) + " has changed since, or reads another file";
  return "the plan file was made for another training, " + made_for(file.context);
}

AnsweredPlan JobSetup::by_default(const ModelOptions& model) const {
  auto plan = predict::default_plan(*choosing_);
  const auto devices = platforms::device_count(platform_);
  std::string where = "all devices";
  if (plan.ranks() < devices)
    where = std::to_string(plan.ranks()) + " of " + std::to_string(devices) + " devices, since a batch of " +
            std::to_string(predictor().batch()) + " has no more equal parts, and the others idle,";
  std::string sentence = "no --plan: data parallel over " + where + " with the largest micro-batch that fits";
  if (!model.batch) sentence += "; no --batch: " + std::to_string(predictor().batch()) + " samples a step, as the model has it";
  return {std::move(plan), std::move(sentence)};
}

AnsweredPlan JobSetup::taken(const ModelOptions& model, const PlatformOptions& o) const {
  if (o.plan.empty()) return by_default(model);
  if (is_plan_file(o.plan) && !own_) {
    auto file = plan::read_plan_file(o.plan);
    if (file.plan.searched.empty()) return {file.plan, made_for_another(model, file)};
  }
  auto given = own_ ? plan_for(o.plan, own_->training) : plan_argument(o.plan).plan;
  if (given.searched.empty()) return as_usual(std::move(given), o.plan);
  auto best = best_values(given);
  auto sentence = "auto: " + plan::to_text(best) + " is the quickest";
  return {std::move(best), std::move(sentence)};
}

/// Where no value leaves a plan that the framework's configuration can say, the plan is answered as it is where all values are written.
plan::Plan JobSetup::best_values(const plan::Plan& given) const {
  try {
    return search::with_best_values(*choosing_, given);
  } catch (const Refusal&) {
    auto written = given;
    written.searched.clear();
    auto& any = changing(written);
    if (&any == choosing_.get()) throw;
    return search::with_best_values(any, given);
  }
}

/// A text leaves out what recipes set anyway: where a plan does not fit without it, it is meant.
AnsweredPlan JobSetup::as_usual(plan::Plan given, const std::string& text) const {
  if (is_plan_file(text)) return {std::move(given), {}};
  const auto usual = predict::usual_remedy(predictor(), given, plan::named_keys(text));
  if (!usual) return {std::move(given), {}};
  return {usual->assessment.plan, "as it is written the plan " + predict::shortage(predictor().closed(given)) + "; it is answered with " +
                                      joined(usual->changes, ",") + ", as recipes of " + predictor().framework_for(given).name +
                                      " have it: name these keys to have them otherwise"};
}

plan::Plan JobSetup::to_write(plan::Plan plan) const {
  if (!own_) return plan;
  const auto program = predict::lower_for(*predictor().workload_for(plan), plan);
  plan.algorithms = plan::algorithms_of(program);
  if (plan::has_uneven_shares(program.batch, program.plan)) plan.shares = program.plan.shares;
  return plan;
}

nlohmann::ordered_json JobSetup::heading(const ModelOptions& model, const predict::Assessment* answer) const {
  const auto& framework = answer == nullptr ? predictor().framework() : *costmodel::find_framework(answer->framework);
  const auto& used = answer == nullptr ? platform_ : platform_for(answer->plan);
  const auto grounds = predict::frameworks::grounds_of(framework, used);
  nlohmann::ordered_json evidence{{"rests_on", grounds.sentence}, {"published_times", grounds.times}};
  if (grounds.times > 0) evidence["median_error"] = grounds.median_error;
  nlohmann::ordered_json heading{{"schema", 1},
                                 {"model", model.model},
                                 {"platform", platform_.name},
                                 {"batch", predictor().batch()},
                                 {"dtype", model.dtype},
                                 {"framework", framework.name},
                                 {"framework_evidence", evidence},
                                 {"price_basis", costmodel::price_basis(used)}};
  if (!input_.left_out.empty()) heading["input_is"] = input_.left_out;
  return heading;
}

plan::PlanContext JobSetup::context(const ModelOptions& model, const plan::Plan& plan) const {
  std::vector<std::string> said;
  const auto hash = own_ ? own_->training.hash() : load_training(model, said, ModelUse::Predict).hash();
  const auto loss = model.loss.empty() ? "auto" : model.loss;
  return {model.model,           hash,
          predictor().batch(),   loss,
          model.dtype,           optimizer_text(model),
          training_words(model), place_words(options_, answering().framework_for(plan).name)};
}

plan::PlanFile plan_argument(const std::string& text) {
  return is_plan_file(text) ? plan::read_plan_file(text) : plan::PlanFile{plan::parse_plan(text), {}};
}

plan::Plan plan_for(const std::string& text, const graph::TrainingGraph& training) {
  const auto file = plan_argument(text);
  const auto& context = file.context;
  if (!context.model_hash.empty() && context.model_hash != training.hash())
    throw BadInput(
        text, "was made for another training, " + made_for(context) + ": give the options with which it was searched, or search again");
  return file.plan;
}

}  // namespace rehearsal::cli
