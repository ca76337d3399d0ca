#include "cli/completion/candidates.hpp"

#include <algorithm>

#include <CLI/CLI.hpp>

#include "base/arithmetic.hpp"
#include "cli/help/help_page.hpp"
#include "cli/model_options.hpp"
#include "costmodel/framework.hpp"
#include "graph/training.hpp"
#include "graph/zoo/zoo.hpp"
#include "jobs/policy.hpp"
#include "plan/plan_keys.hpp"
#include "platforms/catalog.hpp"
#include "predict/frameworks/recipe.hpp"
#include "predict/input/cached_shares.hpp"
#include "predict/scaling/law.hpp"
#include "search/objective.hpp"

namespace rehearsal::cli {
namespace {

using Candidates = std::vector<Completion>;

template <typename Rows, typename Name, typename Text>
Candidates of_rows(const Rows& rows, Name name, Text text, const std::string& before = {}, const std::string& behind = {}) {
  Candidates found;
  for (const auto& row : rows)
    found.push_back({before + std::string(std::invoke(name, row)) + behind, std::string(std::invoke(text, row))});
  return found;
}

constexpr auto kNoText = [](const auto&) { return std::string_view(); };
constexpr auto kItself = [](const auto& name) { return name; };

Candidates models() {
  auto found = of_rows(graph::zoo::zoo_table(), &graph::zoo::ZooRow::name, &graph::zoo::ZooRow::description, "zoo:");
  const auto presets = of_rows(graph::zoo::zoo_presets(), &graph::zoo::ZooPreset::name, kNoText, "zoo:");
  found.insert(found.end(), presets.begin(), presets.end());
  return found;
}

Candidates fidelities() { return {{"closed", "formulas"}, {"folded", "one replica played"}, {"full", "every rank played"}}; }

Candidates objectives() {
  auto found = of_rows(search::objective_table(), &search::ObjectiveRow::name, &search::ObjectiveRow::description);
  found.push_back({"pareto", "none of the four can be better without another one being worse"});
  return found;
}

/// Those that can choose a size.
Candidates laws() {
  Candidates found;
  for (const auto& law : predict::scaling::scaling_laws())
    if (law.loss != nullptr && law.best != nullptr) found.push_back({std::string(law.name), std::string(law.source)});
  return found;
}

/// Values that an option takes, wherever it stands.
struct ValueRow {
  std::string_view option;
  Candidates (*values)();
  bool list = false;  ///< several, separated by commas
};
constexpr ValueRow kValues[] = {
    {"--platform", [] { return of_rows(platforms::catalog_names(), kItself, kNoText); }},
    {"--framework",
     [] {
       return of_rows(costmodel::framework_profiles(), &costmodel::FrameworkProfile::name, &costmodel::FrameworkProfile::description);
     }},
    {"--optimizer", [] { return of_rows(graph::optimizer_table(), &graph::OptimizerRow::name, &graph::OptimizerRow::description); }},
    {"--loss", [] { return of_rows(graph::loss_table(), &graph::LossRow::name, &graph::LossRow::description); }},
    {"--dtype", [] { return of_rows(arithmetic_rows(), &ArithmeticRow::name, kNoText); }},
    {"--fidelity", fidelities},
    {"--objective", objectives},
    {"--policy", [] { return of_rows(jobs::policy_table(), &jobs::PolicyRow::name, &jobs::PolicyRow::description); }},
    {"--law", laws},
    {"--cache", [] { return of_rows(predict::cache_kinds(), &predict::CacheKind::name, &predict::CacheKind::description); }},
    {"--plan", [] { return of_rows(plan::plan_keys(), &plan::PlanKey::key, &plan::PlanKey::description, "", "="); }, true},
    {"--recipe",
     [] {
       using Row = predict::frameworks::RecipeRow;
       return of_rows(predict::frameworks::recipe_table(), &Row::key, &Row::description, "", "=");
     },
     true},
    {"--model", models},
    {"MODEL", models},
};

/// Those that begin with what was typed. Of a list only its last part counts, and the others stay before it.
Candidates matching(Candidates all, const std::string& typed, bool list) {
  const auto comma = list ? typed.rfind(',') : std::string::npos;
  const auto kept = comma == std::string::npos ? std::string() : typed.substr(0, comma + 1);
  Candidates found;
  for (auto& candidate : all)
    if (auto word = kept + candidate.word; word.starts_with(typed)) found.push_back({std::move(word), std::move(candidate.text)});
  return found;
}

/// The values of a set that the parser checks itself: TEXT:{text,json}.
Candidates of_type(const std::string& type) {
  const auto begin = type.find('{'), end = type.find('}');
  Candidates found;
  if (begin == std::string::npos || end == std::string::npos) return found;
  for (std::size_t at = begin + 1; at < end;) {
    const auto comma = std::min(type.find(',', at), end);
    found.push_back({type.substr(at, comma - at), {}});
    at = comma + 1;
  }
  return found;
}

Candidates values_of(const CLI::Option& option, const std::string& name, const std::string& typed) {
  const auto* row = std::ranges::find(kValues, name, &ValueRow::option);
  if (row != std::end(kValues)) return matching(row->values(), typed, row->list);
  return matching(of_type(option.get_type_name()), typed, false);
}

Candidates options_of(const CLI::App& command, const std::string& typed) {
  Candidates found;
  for (const auto* option : command.get_options())
    for (const auto& name : option->get_lnames())
      if (auto word = "--" + name; word.starts_with(typed)) found.push_back({word, option->get_description()});
  return found;
}

Candidates matching_commands(const CLI::App& app, const std::string& typed) {
  Candidates found;
  for (const auto* command : shown_commands(app))
    if (command->get_name().starts_with(typed)) found.push_back({command->get_name(), command->get_description()});
  return found;
}

const CLI::App* subcommand(const CLI::App& app, const std::string& name) {
  const auto found = app.get_subcommands([&](const CLI::App* c) { return c->get_name() == name; });
  return found.empty() ? nullptr : found.front();
}

/// The option that a word names and that still wants its value.
const CLI::Option* wants_value(const CLI::App& command, const std::string& word) {
  if (!word.starts_with('-') || word.find('=') != std::string::npos) return nullptr;
  const auto* option = command.get_option_no_throw(word);
  return option != nullptr && option->get_items_expected_max() > 0 ? option : nullptr;
}

/// The first argument of the command that no word was given for; nullptr when all were.
const CLI::Option* next_argument(const CLI::App& command, const std::vector<std::string>& words) {
  std::size_t given = 0;
  for (std::size_t n = 0; n + 1 < words.size(); ++n) {
    if (words[n].starts_with('-'))
      n += wants_value(command, words[n]) != nullptr ? 1 : 0;
    else
      ++given;
  }
  const auto arguments = command.get_options([](const CLI::Option* o) { return o->get_positional() && !o->nonpositional(); });
  return given < arguments.size() ? arguments[given] : nullptr;
}

}  // namespace

std::vector<Completion> candidates(const CLI::App& root, const std::vector<std::string>& words) {
  const CLI::App* command = &root;
  std::size_t first = 0;
  for (; first + 1 < words.size(); ++first) {
    const auto* next = subcommand(*command, words[first]);
    if (next == nullptr) break;
    command = next;
  }
  const std::vector<std::string> own(words.begin() + static_cast<std::ptrdiff_t>(std::min(first, words.size())), words.end());
  const auto typed = own.empty() ? std::string() : own.back();
  if (own.size() > 1)
    if (const auto* option = wants_value(*command, own[own.size() - 2])) return values_of(*option, own[own.size() - 2], typed);
  if (typed.starts_with('-')) return options_of(*command, typed);
  auto found = own.size() <= 1 ? matching_commands(*command, typed) : Candidates();
  if (const auto* argument = next_argument(*command, own)) {
    const auto values = values_of(*argument, argument->get_name(true), typed);
    found.insert(found.end(), values.begin(), values.end());
  }
  return found;
}

}  // namespace rehearsal::cli
