#include "cli/help/wrong_words.hpp"

#include <CLI/CLI.hpp>

#include "base/join.hpp"
#include "base/names.hpp"
#include "cli/help/help_page.hpp"

namespace rehearsal::cli {
namespace {

/// The command that the words name, or the program.
const CLI::App& command_of(const CLI::App& root) {
  const auto parsed = root.get_subcommands();
  return parsed.empty() ? root : *parsed.front();
}

std::string about_unknown_options(const CLI::App& command) {
  Names options;
  for (const auto* option : command.get_options())
    for (const auto& name : option->get_lnames()) options.push_back(name);
  std::string sentence;
  for (const auto& word : command.remaining()) {
    if (!word.starts_with("--")) continue;
    const auto name = word.substr(0, word.find('='));
    const auto near = nearest_name(name.substr(2), options);
    sentence += (sentence.empty() ? "" : " ") + name + " is no option of " + command.get_name() +
                (near ? "; did you mean \"--" + *near + "\"?" : ".");
  }
  if (sentence.empty()) return sentence;
  return sentence + " `" + (command.get_parent() == nullptr ? "" : command.get_parent()->get_name() + " ") + command.get_name() +
         " --help` lists them.";
}

/// Where one of several commands is wanted, and another word stands, or none.
std::string about_missing_command(const CLI::App& command) {
  Names names;
  for (const auto* each : shown_commands(command)) names.push_back(each->get_name());
  for (const auto& word : command.remaining())
    if (!word.starts_with('-'))
      return "'" + word + "' is no command of " + command.get_name() + suggestion(word, names) + " It has " + joined(names);
  return command.get_name() + " needs one of its commands: " + joined(names);
}

/// The reason for an option's value, or for an option that is missing, in our words; empty for other errors.
std::string about_option(const CLI::Option& option, const std::string& reason) {
  const auto name = option.get_name();
  if (reason == name + " is required") return reason + (option.get_description().empty() ? "" : " (" + option.get_description() + ")");
  const auto unread = "Could not convert: " + name + " = ";
  if (!reason.starts_with(unread)) return {};
  const bool whole = option.get_type_name().find("INT") != std::string::npos;
  return name + " " + reason.substr(unread.size()) + ": must be a " + (whole ? "whole number" : "number");
}

}  // namespace

std::string about_wrong_words(const CLI::App& root, const CLI::ParseError& error) {
  const CLI::App& command = command_of(root);
  if (auto sentence = about_unknown_options(command); !sentence.empty()) return sentence;
  std::string reason = error.what();
  const bool wants_command = reason == "A subcommand is required";
  if (wants_command) reason = about_missing_command(command);
  for (const auto* option : command.get_options())
    if (const auto ours = about_option(*option, reason); !ours.empty()) reason = ours;
  if (command.get_footer().empty()) return reason + "; `rehearse --help` says more";
  return (wants_command ? "" : command.get_name() + ": ") + reason + "; for example: " + command.get_footer();
}

CLI::Validator one_of(const std::vector<std::string>& names) {
  const auto check = [names](std::string& text) -> std::string {
    const Names known(names.begin(), names.end());
    const auto found = find_name(text, known);
    if (!found) return "'" + text + "' is unknown" + suggestion(text, known) + " Known: " + joined(names);
    text = *found;
    return {};
  };
  return CLI::Validator(check, "{" + joined(names, ",") + "}");
}

}  // namespace rehearsal::cli
