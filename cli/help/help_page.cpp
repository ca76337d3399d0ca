#include "cli/help/help_page.hpp"

#include <algorithm>

#include <CLI/CLI.hpp>

#include "base/join.hpp"
#include "cli/text/wrap.hpp"
#include "plan/plan_keys.hpp"
#include "predict/frameworks/recipe.hpp"

namespace rehearsal::cli {
namespace {

constexpr const char* kOwnGroup = "Options";  ///< what CLI11 calls those that nobody gave a title

std::string full_name(const CLI::App& app) {
  const auto* parent = app.get_parent();
  return (parent == nullptr ? "" : full_name(*parent) + " ") + app.get_name();
}

/// What CLI11 says of the type, shorter: INT is N, TEXT:{a,b} is a|b.
std::string value_of(const CLI::Option& option) {
  auto type = option.get_type_name();
  if (option.get_items_expected_max() == 0) return {};
  if (const auto begin = type.find('{'), end = type.find('}'); begin != std::string::npos && end != std::string::npos) {
    type = type.substr(begin + 1, end - begin - 1);
    std::ranges::replace(type, ',', '|');
    return type;
  }
  type = type.substr(0, type.find(':'));
  return type == "INT" || type == "UINT" ? "N" : type == "FLOAT" ? "X" : type;
}

/// The description, with the default where the option has one and does not tell it itself.
std::string text_of(const std::string& description, std::string fallback) {
  for (const auto* around : {"[]", "{}", "\"\""})
    if (fallback.size() > 1 && fallback.front() == around[0] && fallback.back() == around[1])
      fallback = fallback.substr(1, fallback.size() - 2);
  if (fallback.empty() || description.find("default") != std::string::npos) return description;
  return description + (description.empty() ? "" : " ") + "(default: " + fallback + ")";
}

HelpEntry entry_of(const CLI::Option& option) {
  const bool repeats = option.get_items_expected_max() > 1;
  const bool argument = option.get_positional() && option.nonpositional() == false;
  auto text = text_of(option.get_description(), option.get_default_str());
  if (option.get_required() && !argument) text += " (required)";
  return {argument ? option.get_name(true) : option.get_name(false, true), argument ? "" : value_of(option) + (repeats ? " ..." : ""),
          text};
}

HelpGroup plan_keys_group() {
  const plan::Plan neutral;
  HelpGroup group{"Keys of a plan, as in --plan dp=8,tp=2,zero=1", {}};
  for (const auto& key : plan::plan_keys()) {
    const auto left_out = key.description.find("left out") == std::string_view::npos ? key.print(neutral) : std::string();
    group.entries.push_back({std::string(key.key), "", text_of(plan::description_of(key), left_out)});
  }
  return group;
}

HelpGroup recipe_keys_group() {
  HelpGroup group{"Keys of a recipe, as in --recipe frozen=nf4,chunked_loss=on", {}};
  for (const auto& row : predict::frameworks::recipe_table())
    group.entries.push_back({std::string(row.key) + "=" + std::string(row.values), "", std::string(row.description)});
  return group;
}

std::vector<HelpGroup> command_groups(const CLI::App& app) {
  std::vector<HelpGroup> groups;
  for (const auto* command : shown_commands(app)) {
    const bool grouped = app.get_parent() == nullptr && command->get_group() != "Subcommands";  // those of a command have its own group
    const auto title = grouped ? command->get_group() : std::string("Commands");
    if (groups.empty() || groups.back().title != title) groups.push_back({title, {}});
    groups.back().entries.push_back({command->get_name(), "", command->get_description()});
  }
  return groups;
}

/// Own options first, then those that commands share, last what all of them have.
std::vector<HelpGroup> option_groups(const CLI::App& app) {
  auto titles = app.get_groups();
  std::ranges::stable_sort(titles, {}, [](const std::string& t) { return t == kOwnGroup ? 0 : t == kOutputGroup ? 2 : 1; });
  std::vector<HelpGroup> groups;
  for (const auto& title : titles) {
    if (title.empty()) continue;
    HelpGroup group{title, {}};
    for (const auto* option : app.get_options([&](const CLI::Option* o) { return o->get_group() == title && o->nonpositional(); }))
      group.entries.push_back(entry_of(*option));
    if (!group.entries.empty()) groups.push_back(std::move(group));
  }
  return groups;
}

std::string usage_word(const std::string& word, bool needed) { return needed ? " " + word : " [" + word + "]"; }

/// "rehearse report [TRACE ...] [OPTIONS]": in brackets what may be left out.
std::string usage_of(const CLI::App& app, const std::string& command, const std::vector<const CLI::Option*>& arguments) {
  std::string usage = command;
  for (const auto* argument : arguments)
    usage += usage_word(argument->get_name(true) + (argument->get_items_expected_max() > 1 ? " ..." : ""), argument->get_required());
  if (!app.get_subcommands([](const CLI::App*) { return true; }).empty())
    usage += usage_word("COMMAND", app.get_require_subcommand_min() > 0);
  return usage + " [OPTIONS]";
}

std::vector<std::string> examples_of(const CLI::App& app) {
  std::vector<std::string> examples;
  for (auto& line : split(app.get_footer(), '\n'))
    if (!line.empty()) examples.push_back(std::move(line));
  return examples;
}

void append_group(std::string& text, const HelpGroup& group, std::size_t columns) {
  constexpr std::size_t kIndent = 28;
  text += "\n" + group.title + ":\n";
  for (const auto& entry : group.entries) {
    std::string left = "  " + entry.name + (entry.value.empty() ? "" : " " + entry.value);
    if (!entry.text.empty()) {
      left += left.size() + 2 > kIndent ? "\n" + std::string(kIndent, ' ') : std::string(kIndent - left.size(), ' ');
      left += hanging(entry.text, kIndent, columns);
    }
    text += left + "\n";
  }
}

/// Text that troff takes as it is.
std::string for_troff(const std::string& text) {
  std::string safe;
  for (const char c : text) safe += c == '\\' ? std::string("\\e") : c == '-' ? std::string("\\-") : std::string(1, c);
  return safe.starts_with('.') || safe.starts_with('\'') ? "\\&" + safe : safe;
}

std::string upper(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return text;
}

}  // namespace

std::vector<const CLI::App*> shown_commands(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App* c) { return !c->get_group().empty(); });
}

HelpPage help_page(const CLI::App& app) {
  HelpPage page{full_name(app), app.get_description(), {}, {}, examples_of(app)};
  const auto options = app.get_options([](const CLI::Option* o) { return o->get_positional() && !o->nonpositional(); });
  HelpGroup arguments{"Arguments", {}};
  for (const auto* option : options) arguments.entries.push_back(entry_of(*option));
  page.usage = usage_of(app, page.command, options);
  if (!arguments.entries.empty()) page.groups.push_back(arguments);
  for (auto& group : command_groups(app)) page.groups.push_back(std::move(group));
  for (auto& group : option_groups(app)) page.groups.push_back(std::move(group));
  if (app.get_option_no_throw("--plan") != nullptr) page.groups.push_back(plan_keys_group());
  if (app.get_option_no_throw("--recipe") != nullptr) page.groups.push_back(recipe_keys_group());
  return page;
}

std::string help_text(const HelpPage& page, std::size_t columns) {
  std::string text = hanging(page.summary, 0, columns) + "\n\nUsage: " + page.usage + "\n";
  for (const auto& group : page.groups) append_group(text, group, columns);
  if (!page.examples.empty()) text += page.examples.size() > 1 ? "\nExamples:\n" : "\nExample:\n";
  for (const auto& example : page.examples) text += "  " + example + "\n";
  return text;
}

std::string man_page(const HelpPage& page, const std::string& version) {
  auto name = page.command;
  std::ranges::replace(name, ' ', '-');
  std::string text = ".TH " + upper(name) + " 1 \"\" \"Rehearsal " + version + "\"\n.SH NAME\n" + for_troff(name) + " \\- " +
                     for_troff(page.summary) + "\n.SH SYNOPSIS\n.B " + for_troff(page.usage) + "\n";
  for (const auto& group : page.groups) {
    text += ".SH " + for_troff(upper(group.title)) + "\n";
    for (const auto& entry : group.entries)
      text += ".TP\n\\fB" + for_troff(entry.name) + "\\fR" + (entry.value.empty() ? "" : " " + for_troff(entry.value)) + "\n" +
              (entry.text.empty() ? "\\&" : for_troff(entry.text)) + "\n";
  }
  if (!page.examples.empty()) text += ".SH EXAMPLES\n";
  for (const auto& example : page.examples) text += ".nf\n" + for_troff(example) + "\n.fi\n";
  return text;
}

OptionGroup::OptionGroup(CLI::App& app, const std::string& title) : app_(app), before_(app.option_defaults()->get_group()) {
  app_.option_defaults()->group(title);
}
OptionGroup::~OptionGroup() { app_.option_defaults()->group(before_); }

}  // namespace rehearsal::cli
