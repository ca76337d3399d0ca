#pragma once
// The options by which commands name machines, their calibration and how jobs run on them.

#include <map>
#include <memory>
#include <optional>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "cli/input_options.hpp"
#include "cli/model_options.hpp"
#include "cli/stand_ins.hpp"
#include "cli/terminal.hpp"
#include "costmodel/money.hpp"
#include "exchange/frameworks/plan_export.hpp"
#include "predict/predictor.hpp"

namespace rehearsal::cli {

inline constexpr const char* kPlatformHelp = "a platform file, or a name of the catalogue (rehearse platform list)";

struct PlatformOptions {
  std::string platform, machine, framework, plan, recipe, imbalance;
  std::optional<double> jitter;
  std::optional<std::int64_t> nodes, devices;
  costmodel::CostOverrides costs;
  InputOptions input;
  std::optional<double> power_cap;  ///< watts, of what the platform is called among several that differ in them (cli/power_caps.hpp)
  std::vector<std::pair<std::string, std::string>> settings;  ///< figures of the platform that are to be others (platforms/settings.hpp)

  void add_to(CLI::App&);
  /// All but --platform, for commands that take several.
  void add_without_platform_to(CLI::App&);
  void add_costs_to(CLI::App&);  ///< --price, --pue, --carbon
};

/// The platform that the options name, with as many nodes or devices as they say.
[[nodiscard]] platforms::Platform load_platform(const PlatformOptions&);

/// The calibration that our own execution is predicted from: --machine, else the platform's file where it holds one; empty: none.
[[nodiscard]] std::string calibration_of(const PlatformOptions&);

/// A plan, and what a user who wrote something else must be told about it.
struct AnsweredPlan {
  plan::Plan plan;
  std::string how_taken;  ///< a sentence; empty where the plan is the one that was written

  /// The sentence as a warning, or, for results in JSON, in the key "plan_is".
  void tell(const Terminal&) const;
  void tell(nlohmann::ordered_json& result) const;
};

/// What estimate, search, simulate and explain work on, kept alive together.
class JobSetup {
 public:
  JobSetup(const ModelOptions&, const PlatformOptions&);
  ~JobSetup();
  [[nodiscard]] predict::Predictor& predictor() const { return stand_in_ != nullptr ? *stand_in_ : *predictor_; }
  /// For plans that a user names beside each other: each as plan() takes it by itself.
  [[nodiscard]] predict::Predictor& answering() const;
  /// For plans that nobody named: it refuses what the framework's configuration cannot say, too.
  [[nodiscard]] predict::Predictor& choosing() const { return *choosing_; }
  /// choosing(); predictor() where the plan that is to be changed is one that choosing() refuses.
  [[nodiscard]] predict::Predictor& changing(const plan::Plan&) const;
  /// "pp: its stages are made by the program ...": what of a plan the framework's configuration leaves to its user's program.
  [[nodiscard]] std::vector<std::string> left_to_program(const predict::Assessment&) const;
  /// All that plans may use.
  [[nodiscard]] const platforms::Platform& platform() const { return platform_; }
  /// What this plan uses of it.
  [[nodiscard]] const platforms::Platform& platform_for(const plan::Plan& plan) const { return predictor().platform_for(plan); }
  /// The file of measurements that predictions rest on; empty where there is none.
  [[nodiscard]] const std::string& machine() const { return options_.machine; }
  [[nodiscard]] const std::vector<std::string>& warnings() const { return warnings_; }
  /// Of the training that is asked about; 1 where nothing says how long it is.
  [[nodiscard]] double steps() const { return steps_; }
  /// Is it our own execution that is asked about?
  [[nodiscard]] bool is_own() const;
  /// The plan given by --plan (text or file), or the default one. Where no framework is named and the usual one has no room for the plan,
  /// the predictor is another framework's from then on.
  [[nodiscard]] AnsweredPlan plan(const ModelOptions&, const PlatformOptions&);
  [[nodiscard]] plan::PlanContext context(const ModelOptions&, const plan::Plan&) const;
  /// The plan with what a prediction chose for it and a run on ranks that do not know their links could not.
  [[nodiscard]] plan::Plan to_write(plan::Plan) const;
  /// The keys with which the results of all of them begin; of an answer, whose framework may be another and which may not use all devices.
  [[nodiscard]] nlohmann::ordered_json heading(const ModelOptions&, const predict::Assessment* answer = nullptr) const;

 private:
  struct Own;
  void add_input(const ModelOptions&, const PlatformOptions&);
  void add_rules(const ModelOptions&);
  /// A platform's file that holds measurements serves as --machine, too, where none is named.
  void add_own_measurements(const costmodel::FrameworkProfile&);
  /// Where no framework is named, plans of another kind than the one that is given are predicted as they are usually run.
  void add_usual_others(const ModelOptions&, const PlatformOptions&);
  /// Where no framework is named, plans that the usual one has no room for are predicted as another runs them.
  void add_stand_ins(const ModelOptions&);
  [[nodiscard]] std::unique_ptr<predict::Predictor> predictor_as(const costmodel::FrameworkProfile&, const ModelOptions&,
                                                                 const PlatformOptions&, graph::Graph) const;
  [[nodiscard]] const exchange::PlanRules& rules_of(const costmodel::FrameworkProfile&) const;
  [[nodiscard]] const exchange::PlanRules& rules_for(const plan::Plan&) const;
  [[nodiscard]] std::string look_for_others(const ModelOptions&, const PlatformOptions&);
  [[nodiscard]] AnsweredPlan by_default(const ModelOptions&) const;
  [[nodiscard]] AnsweredPlan taken(const ModelOptions&, const PlatformOptions&) const;
  /// A sentence that says so; empty where the file's plan was made for this training, or does not say for which.
  [[nodiscard]] std::string made_for_another(const ModelOptions&, const plan::PlanFile&) const;
  [[nodiscard]] plan::Plan best_values(const plan::Plan&) const;
  [[nodiscard]] AnsweredPlan as_usual(plan::Plan, const std::string& text) const;

  std::vector<std::string> warnings_;
  PlatformOptions options_;
  platforms::Platform platform_;
  std::unique_ptr<Own> own_;
  std::unique_ptr<predict::Predictor> predictor_;
  std::unique_ptr<StandIns> stand_ins_;     ///< nullptr where a framework is named, and under our own execution
  predict::Predictor* stand_in_ = nullptr;  ///< answers for the plan of plan() instead
  exchange::TrainingJob training_job_;
  mutable std::map<std::string, exchange::PlanRules, std::less<>> rules_;  ///< by product, of those that were asked for
  std::unique_ptr<predict::Predictor> choosing_;
  KnownInput input_;
  double steps_ = 1;
};

/// A plan by compact text or by file name (ending in .json, or an existing file).
[[nodiscard]] plan::PlanFile plan_argument(const std::string& text);
/// The same, which must have been made for this training when it names one. Throws BadInput.
[[nodiscard]] plan::Plan plan_for(const std::string& text, const graph::TrainingGraph&);

}  // namespace rehearsal::cli
