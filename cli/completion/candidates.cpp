#include "cli/completion/candidates.hpp"

#include <algorithm>

#include <CLI/CLI.hpp>

#include "base/names.hpp"
#include "cli/completion/values.hpp"
#include "cli/help/help_page.hpp"

namespace rehearsal::cli {
namespace {

/// Those that begin with what was typed, in whatever case. Of a list only its last part counts, and the others stay before it.
Completions matching(KnownValues known, const std::string& typed) {
  const auto comma = known.list ? typed.rfind(',') : std::string::npos;
  const auto kept = comma == std::string::npos ? std::string() : typed.substr(0, comma + 1);
  const auto begun = lower_case(typed);
  Completions found;
  for (auto& value : known.values)
    if (auto word = kept + value.word; lower_case(word).starts_with(begun)) found.push_back({std::move(word), std::move(value.text)});
  return found;
}

/// The values of a set that the parser checks itself: TEXT:{text,json}.
Completions of_type(const std::string& type) {
  const auto begin = type.find('{'), end = type.find('}');
  if (begin == std::string::npos || end == std::string::npos) return {};
  return completions_in(std::string_view(type).substr(begin + 1, end - begin - 1));
}

/// "platform show"; empty of the program itself.
std::string path_of(const CLI::App& command) {
  const auto* parent = command.get_parent();
  if (parent == nullptr) return {};
  const auto before = path_of(*parent);
  return before + (before.empty() ? "" : " ") + command.get_name();
}

/// `name`: as the option was typed, or that of an argument.
Completions values_of(const CLI::App& command, const CLI::Option& option, const std::string& name, const std::string& typed) {
  if (auto known = known_values(path_of(command), name)) return matching(std::move(*known), typed);
  return matching({of_type(option.get_type_name())}, typed);
}

/// "--fidelity=f": what may stand behind the sign, with what stands before it.
Completions values_behind_sign(const CLI::App& command, const std::string& typed, std::size_t sign) {
  const auto name = typed.substr(0, sign);
  const auto* option = command.get_option_no_throw(name);
  if (option == nullptr) return {};
  auto found = values_of(command, *option, name, typed.substr(sign + 1));
  for (auto& value : found) value.word.insert(0, name + "=");
  return found;
}

Completions options_of(const CLI::App& command, const std::string& typed) {
  Completions found;
  for (const auto* option : command.get_options())
    for (const auto& name : option->get_lnames())
      if (auto word = "--" + name; word.starts_with(typed)) found.push_back({word, option->get_description()});
  return found;
}

Completions matching_commands(const CLI::App& app, const std::string& typed) {
  Completions found;
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

Completions candidates(const CLI::App& root, const std::vector<std::string>& words) {
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
    if (const auto* option = wants_value(*command, own[own.size() - 2])) return values_of(*command, *option, own[own.size() - 2], typed);
  if (const auto sign = typed.find('='); typed.starts_with("--") && sign != std::string::npos)
    return values_behind_sign(*command, typed, sign);
  if (typed.starts_with('-')) return options_of(*command, typed);
  auto found = own.size() <= 1 ? matching_commands(*command, typed) : Completions();
  if (const auto* argument = next_argument(*command, own)) {
    const auto values = values_of(*command, *argument, argument->get_name(true), typed);
    found.insert(found.end(), values.begin(), values.end());
  }
  return found;
}

}  // namespace rehearsal::cli
