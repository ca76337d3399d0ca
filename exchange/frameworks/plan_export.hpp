#pragma once
// A plan as another framework's configuration: flags, a file, or a module of it.

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/training.hpp"
#include "plan/plan.hpp"

namespace rehearsal::exchange {

/// The training that a configuration is to describe.
struct TrainingJob {
  plan::Plan plan;
  std::string model;       ///< file, zoo: or hf: reference as given; empty: nobody said
  std::int64_t batch = 0;  ///< global samples of one optimizer step
  std::string loss;        ///< empty: of classes, by the model's end
  std::string dtype = "f32";
  graph::OptimizerSettings optimizer;  ///< every value given
  double clip_norm = 0;                ///< 0: gradients are not clipped
  std::string loss_scale;              ///< empty: none; a number, or dynamic

  [[nodiscard]] std::int64_t replica_batch() const { return plan.replica_batch(batch); }
  [[nodiscard]] std::int64_t micro_batch() const { return plan.slot_batch(batch); }
  [[nodiscard]] double optimizer_value(std::string_view name) const;
};

/// What is written down for a framework, and what it cannot do.
class Sheet {
 public:
  /// A value of a dotted key ("optimizer.params.lr"), as the framework writes values; "" of flags without one.
  void set(std::string key, std::string value) { settings_.emplace_back(std::move(key), std::move(value)); }
  /// What the program that reads the configuration says itself, a line each.
  void note(std::string line) { notes_.push_back(std::move(line)); }
  void refuse(std::string_view key, std::string problem, std::string remedy) {
    refusals_.push_back({std::string(key), std::move(problem), std::move(remedy)});
  }
  /// The framework can do it, and no configuration says so: its user's program does.
  void leave_to_program(std::string_view key, std::string problem, std::string remedy) {
    left_to_program_.push_back({std::string(key), std::move(problem), std::move(remedy)});
  }
  [[nodiscard]] const std::vector<std::pair<std::string, std::string>>& settings() const { return settings_; }
  [[nodiscard]] const std::vector<std::string>& notes() const { return notes_; }
  [[nodiscard]] const std::vector<plan::Violation>& refusals() const { return refusals_; }
  [[nodiscard]] const std::vector<plan::Violation>& left_to_program() const { return left_to_program_; }

 private:
  std::vector<std::pair<std::string, std::string>> settings_;
  std::vector<std::string> notes_;
  std::vector<plan::Violation> refusals_, left_to_program_;
};

/// What becomes of one key: of plan_keys(), or of the training beside the plan (kTrainingKeys).
struct ExportRule {
  std::string_view key;
  void (*write)(const TrainingJob&, Sheet&);  ///< nullptr: of a plan's key, any value but the neutral one is refused
  std::string_view problem{}, remedy{};       ///< of such a key

  void apply(const TrainingJob&, Sheet&) const;
};

/// What a configuration says beside the plan; every framework has a rule for each.
inline constexpr std::array<std::string_view, 6> kTrainingKeys{"model", "loss", "dtype", "optimizer", "clip_norm", "loss_scale"};

struct FrameworkRow {
  std::string_view name;         ///< as --for names it
  std::string_view release;      ///< whose flags these are
  std::string_view description;  ///< what is written, and what reads it
  std::span<const ExportRule> rules;
  std::string (*text)(const Sheet&);
  std::array<std::string_view, 2> profiles{};  ///< of predictions, of what these configurations start; empty: none is it alone
};

[[nodiscard]] std::span<const FrameworkRow> framework_rows();

/// The configuration. Throws BadInput for a name that is no framework's, or a batch that its replicas do not divide; throws Refusal with a
/// line for every key that the framework cannot do ("zero: ...; remedy").
[[nodiscard]] std::string exported(std::string_view framework, const TrainingJob&);

/// What the framework that is predicted under this name cannot do of a plan, whatever its configuration says of the training beside it.
struct PlanRefusals {
  std::vector<plan::Violation> impossible, left_to_program;
};
class PlanRules {
 public:
  /// `profile`: a name of a framework's profile; one that nothing is exported for has no rules. `job`: of any plan.
  PlanRules(std::string_view profile, TrainingJob job);
  [[nodiscard]] bool empty() const { return row_ == nullptr; }
  [[nodiscard]] PlanRefusals operator()(const plan::Plan&) const;

 private:
  [[nodiscard]] Sheet written(const plan::Plan&) const;

  const FrameworkRow* row_ = nullptr;
  TrainingJob job_;
  std::vector<std::string> always_;  ///< keys of the training that are refused for every plan
};

}  // namespace rehearsal::exchange
