#include "cli/completion/values.hpp"

#include <algorithm>
#include <functional>
#include <set>
#include <sstream>

#include "base/arithmetic.hpp"
#include "base/error.hpp"
#include "base/join.hpp"
#include "cli/collective_kinds.hpp"
#include "cli/command_rows.hpp"
#include "cli/vary.hpp"
#include "costmodel/framework.hpp"
#include "exchange/frameworks/plan_export.hpp"
#include "graph/training.hpp"
#include "graph/zoo/zoo.hpp"
#include "jobs/policy.hpp"
#include "plan/lowering/role_passes.hpp"
#include "plan/plan_keys.hpp"
#include "platforms/catalog.hpp"
#include "platforms/devices.hpp"
#include "platforms/settings.hpp"
#include "predict/frameworks/recipe.hpp"
#include "predict/input/cached_shares.hpp"
#include "predict/scaling/law.hpp"
#include "search/objective.hpp"
#include "validation/embedded_records.hpp"
#include "validation/record.hpp"

namespace rehearsal::cli {
namespace {

template <typename Rows, typename Name, typename Text>
Completions of_rows(const Rows& rows, Name name, Text text, const std::string& before = {}, const std::string& behind = {}) {
  Completions found;
  for (const auto& row : rows)
    found.push_back({before + std::string(std::invoke(name, row)) + behind, std::string(std::invoke(text, row))});
  return found;
}

constexpr auto kNoText = [](const auto&) { return std::string_view(); };
constexpr auto kItself = [](const auto& name) { return std::string_view(name); };

template <typename Names>
Completions of_names(const Names& names, const std::string& behind = {}) {
  return of_rows(names, kItself, kNoText, {}, behind);
}

constexpr std::string_view kOnOrOff = "on,off";

Completions models_after(const std::string& before) {
  auto found = of_rows(graph::zoo::zoo_table(), &graph::zoo::ZooRow::name, &graph::zoo::ZooRow::description, before);
  const auto presets = of_rows(graph::zoo::zoo_presets(), &graph::zoo::ZooPreset::name, kNoText, before);
  found.insert(found.end(), presets.begin(), presets.end());
  return found;
}
Completions model_references() { return models_after("zoo:"); }
Completions models_of_zoo() { return models_after(""); }

Completions machine_names() { return of_names(platforms::catalog_names()); }

Completions names_of_commands() {
  Completions found;
  for (const auto& row : kCommands)
    if (!row.group.empty()) found.push_back({std::string(row.name), std::string(row.description)});
  return found;
}

Completions frameworks() {
  using Profile = costmodel::FrameworkProfile;
  return of_rows(costmodel::framework_profiles(), &Profile::name, &Profile::description);
}

Completions fidelities() { return {{"closed", "formulas"}, {"folded", "one replica played"}, {"full", "every rank played"}}; }

Completions objectives() {
  auto found = of_rows(search::objective_table(), &search::ObjectiveRow::name, &search::ObjectiveRow::description);
  found.push_back({"pareto", "none of the four can be better without another one being worse"});
  return found;
}

/// Those that can choose a size.
Completions choosing_laws() {
  Completions found;
  for (const auto& law : predict::scaling::scaling_laws())
    if (law.loss != nullptr && law.best != nullptr) found.push_back({std::string(law.name), std::string(law.source)});
  return found;
}

Completions arithmetics() { return of_rows(arithmetic_rows(), &ArithmeticRow::name, kNoText); }

/// Those that kernels compute in.
Completions computed_arithmetics() {
  Completions found;
  for (const auto& row : arithmetic_rows())
    if (!row.predicted_alone) found.push_back({std::string(row.name), {}});
  return found;
}

Completions collective_names() {
  return of_rows(
      kNamedCollectives, [](costmodel::CollectiveKind kind) { return costmodel::name(kind); }, kNoText);
}

Completions record_families() {
  std::istringstream records{std::string(validation::embedded_records())};
  std::set<std::string> families;
  for (const auto& record : validation::read_records(records, "validation/records/published.jsonl").records) families.insert(record.family);
  return of_names(families);
}

/// Names of passes have blanks, which shells take for ends of words; dashes are as good.
Completions pass_names() {
  Completions found;
  for (const auto& pass : plan::role_passes()) {
    std::string name(pass.name);
    std::ranges::replace(name, ' ', '-');
    found.push_back({std::move(name), std::string(pass.leaves)});
  }
  return found;
}

Completions keys_of_plans() { return of_rows(plan::plan_keys(), &plan::PlanKey::key, &plan::PlanKey::description, "", "="); }

Completions keys_of_recipes() {
  using Row = predict::frameworks::RecipeRow;
  return of_rows(predict::frameworks::recipe_table(), &Row::key, &Row::description, "", "=");
}

/// Figures of all machines of the catalogue.
std::set<std::string> figures_of_machines() {
  std::set<std::string> names;
  for (const auto& machine : platforms::catalog_names()) {
    try {
      const auto of_one = platforms::setting_names(platforms::load(machine));
      names.insert(of_one.begin(), of_one.end());
    } catch (const Error&) {
      continue;  // a file of the user's that is wrong has none to offer; who names it is told
    }
  }
  return names;
}

Completions varied_keys() {
  auto found = keys_of_plans();
  for (const auto& more : {of_names(kVariedSizes, "="), of_names(figures_of_machines(), "=")})
    found.insert(found.end(), more.begin(), more.end());
  return found;
}

struct ValueRow {
  std::string_view command;  ///< empty: all that no row above is for
  std::string_view name;
  std::string_view words;             ///< where they are no rows of a table, with commas between; help tells them, too
  Completions (*values)() = nullptr;  ///< else
  bool list = false;
};
constexpr ValueRow kValues[] = {
    // Arguments
    {"", "MODEL", "", model_references},
    {"zoo", "NAME", "", models_of_zoo},
    {"platform show", "NAME", "", machine_names},
    {"explain", "PLAN", "", keys_of_plans, true},
    {"export", "PLAN", "", keys_of_plans, true},
    {"man", "COMMAND", "", names_of_commands},
    {"completion", "SHELL", "", [] { return of_rows(shell_table(), &ShellRow::name, kNoText); }},
    {"bench", "WHAT", "import,step,simulate,search,estimate,all"},
    // What is trained, and how
    {"", "--model", "", model_references},
    {"", "--kernels-of", "", model_references},
    {"", "--loss", "", [] { return of_rows(graph::loss_table(), &graph::LossRow::name, &graph::LossRow::description); }},
    {"", "--dropout", kOnOrOff},
    {"", "--optimizer", "",
     [] { return of_rows(graph::optimizer_table(), &graph::OptimizerRow::name, &graph::OptimizerRow::description); }},
    {"", "--lr-scaling", "linear,sqrt"},
    {"", "--nesterov", kOnOrOff},
    {"", "--loss-scale", "dynamic"},
    {"evaluate", "--dtype", "f32,f64"},
    {"run", "--dtype", "", computed_arithmetics},
    {"inspect", "--dtype", "", computed_arithmetics},
    {"calibrate", "--dtype", "f32,bf16,f16"},
    {"bench", "--dtype", "f32,f64,f16,bf16"},
    {"bench data", "--dtype", "f32,f64,f16,bf16"},
    {"", "--dtype", "", arithmetics},
    {"", "--schedule", "constant,step,cosine,polynomial,linear"},
    {"", "--on-nan", "stop,skip,go"},
    {"", "--shuffle", kOnOrOff},
    {"", "--augment", "crop,flip", nullptr, true},
    {"", "--normalize", "imagenet"},
    // Where and how it runs
    {"", "--platform", "", machine_names},
    {"", "--device", "", [] { return of_names(platforms::device_names()); }},
    {"", "--framework", "", frameworks},
    {"", "--recipe", "", keys_of_recipes, true},
    {"", "--plan", "", keys_of_plans, true},
    {"calibrate", "--backend", "auto,cuda"},
    {"evaluate", "--backend", "auto,onednn,reference"},
    {"", "--backend", "auto,onednn,reference,cuda"},
    {"", "--cache", "", [] { return of_rows(predict::cache_kinds(), &predict::CacheKind::name, &predict::CacheKind::description); }},
    {"", "--dataset", "samples=,bytes=,decode=,files=,on=", nullptr, true},
    // What is asked
    {"", "--fidelity", "", fidelities},
    {"", "--through", "", fidelities},
    {"", "--objective", "", objectives},
    {"", "--limit", "", [] { return of_rows(search::limit_table(), &search::LimitRow::name, &search::LimitRow::example, "", "="); }},
    {"", "--allow", "compression,async", nullptr, true},
    {"", "--vary", "", varied_keys},
    {"", "--law", "", choosing_laws},
    {"", "--policy", "", [] { return of_rows(jobs::policy_table(), &jobs::PolicyRow::name, &jobs::PolicyRow::description); }},
    {"", "--kind", "", collective_names},
    {"", "--after", "", pass_names},
    {"", "--for", "",
     [] { return of_rows(exchange::framework_rows(), &exchange::FrameworkRow::name, &exchange::FrameworkRow::description); }},
    {"", "--family", "", record_families},
};

}  // namespace

Completions completions_in(std::string_view words) {
  Completions found;
  if (words.empty()) return found;
  for (auto& word : split(words, ',')) found.push_back({std::move(word), {}});
  return found;
}

std::optional<KnownValues> known_values(std::string_view command, std::string_view name) {
  const auto* row =
      std::ranges::find_if(kValues, [&](const ValueRow& r) { return r.name == name && (r.command.empty() || r.command == command); });
  if (row == std::end(kValues)) return std::nullopt;
  return KnownValues{row->values != nullptr ? row->values() : completions_in(row->words), row->list};
}

}  // namespace rehearsal::cli
