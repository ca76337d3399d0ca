#include <algorithm>
#include <array>
#include <csignal>
#include <iostream>
#include <new>
#include <span>

#include <CLI/CLI.hpp>

#include "base/error.hpp"
#include "base/names.hpp"
#include "cli/command_rows.hpp"
#include "cli/commit.hpp"
#include "cli/help/help_page.hpp"
#include "cli/help/wrong_words.hpp"
#include "cli/lost_inputs.hpp"
#include "cli/text/wrap.hpp"

namespace {

using namespace rehearsal;
using namespace rehearsal::cli;

struct Parsed {
  CLI::App* parser = nullptr;
  Action action;
};

/// Of commands for scripts alone: shells give `complete` the word that is being typed, whose value may have no letter yet.
bool takes_unfinished_words(std::string_view command) {
  const auto* row = std::ranges::find(kCommands, command, &CommandRow::name);
  return row != kCommands.end() && row->group.empty();
}

/// "--checkpoint=", as a script writes it whose variable is not set: the parser would take the next word for the value.
void refuse_missing_values(int argc, char** argv) {
  for (const std::string_view word : std::span(argv + 1, static_cast<std::size_t>(argc) - 1))
    if (word.starts_with("--") && word.find('=') + 1 == word.size())
      throw Error(ExitStatus::Usage, std::string(word) + " has no value; give one, or leave the option out");
}

/// The same written as "--checkpoint ''", which would be taken for no --checkpoint at all.
void refuse_empty_values(const CLI::App& command) {
  for (const auto* option : command.get_options())
    if (std::ranges::any_of(option->results(), [](const auto& value) { return value.empty(); }))
      throw Error(ExitStatus::Usage, option->get_name() + " has an empty value; give one, or leave the option out");
  for (const auto* below : command.get_subcommands()) refuse_empty_values(*below);
}

/// Throws CLI::ParseError, and Error for options without a value.
void parse_words(CLI::App& app, int argc, char** argv) {
  const bool finished = !takes_unfinished_words(argv[1]);
  if (finished) refuse_missing_values(argc, argv);
  app.parse(argc, argv);
  if (finished) refuse_empty_values(app);
}

/// What stands on standard output is the answer: a command has done nothing where it could not be written.
void require_written(const Terminal& terminal) {
  if (!(terminal.out() << std::flush))
    throw Error(ExitStatus::Environment, "standard output: the answer could not be written whole; is its disk full, or is it closed?");
}

int run_command(const Parsed& parsed, Terminal& terminal) {
  try {
    refuse_lost_inputs(*parsed.parser);
    const int status = parsed.action(terminal);
    require_written(terminal);
    return status;
  } catch (const Error& error) {
    terminal.error(error.what());
    return static_cast<int>(error.status());
  } catch (const std::bad_alloc&) {
    terminal.error("memory ran out; use a smaller model or batch, or fewer ranks on this machine");
    return static_cast<int>(ExitStatus::Environment);
  } catch (const std::exception& error) {
    terminal.error(std::string("internal error: ") + error.what());
    return static_cast<int>(ExitStatus::Internal);
  }
}

/// --help and --version are answers, too.
int answer_about_itself(const CLI::App& app, const CLI::ParseError& asked, const Terminal& terminal) {
  try {
    const int status = app.exit(asked, terminal.out(), terminal.err());
    require_written(terminal);
    return status;
  } catch (const Error& error) {
    terminal.error(error.what());
    return static_cast<int>(error.status());
  }
}

void say_what_to_type_first(std::ostream& out) {
  out << "Rehearsal tells what training a neural network on a cluster costs, finds the plan that costs least, and trains by it.\n\n"
         "Type first:\n"
         "  rehearse inspect zoo:resnet50\n"
         "      what a model is\n"
         "  rehearse search zoo:llama3-8b --platform dgx-h100 --nodes 4 --batch 256 --dtype bf16 --optimizer adamw --tokens 1e11\n"
         "      the best plan, with its time, memory and money\n"
         "  rehearse run 'zoo:resnet18?image=32' --batch 4 --steps 5 --data synthetic\n"
         "      a training on this machine\n\n"
         "Models are ONNX files, zoo:NAME (rehearse zoo) or hf:config.json; machines are JSON files or names (rehearse platform list).\n"
         "`rehearse --help` lists all commands, `rehearse COMMAND --help` their options.\n"
      << std::flush;
}

/// --help and --format, which stand before or behind a command, and behind a command of its own.
void add_output_to(CLI::App& app, std::string& format) {
  const OptionGroup group(app, kOutputGroup);
  app.get_help_ptr()->group(kOutputGroup)->description("says this");
  app.add_option("--format", format, "text or json")->check(one_of({"text", "json"}))->capture_default_str();
}

std::array<Parsed, kCommands.size()> add_commands(CLI::App& app, std::string& format) {
  std::array<Parsed, kCommands.size()> parsed;
  for (std::size_t i = 0; i < kCommands.size(); ++i) {
    const auto& row = kCommands[i];
    auto* parser = app.add_subcommand(std::string(row.name), std::string(row.description))->group(std::string(row.group));
    parser->footer(std::string(row.example));
    parser->option_defaults()->always_capture_default();
    add_output_to(*parser, format);
    parsed[i] = {parser, row.add(*parser)};
    for (auto* below : parser->get_subcommands([](CLI::App*) { return true; })) add_output_to(*below, format);
  }
  return parsed;
}

}  // namespace

int main(int argc, char** argv) {
  install_interrupt_handler();
  std::signal(SIGXFSZ, SIG_IGN);  // a file larger than the shell's limit is then an error of its writer, which says so
  Terminal terminal(std::cout, std::cerr);
  CLI::App app{"Rehearsal: what training a neural network on a cluster will cost, the plan that costs least, and its real run."};
  app.name("rehearse");
  app.formatter_fn(
      [](const CLI::App* command, const std::string&, CLI::AppFormatMode) { return help_text(help_page(*command), window_columns()); });
  app.require_subcommand(1);
  std::string format = "text";
  add_output_to(app, format);
  const auto built = commit().empty() ? std::string() : " (commit " + std::string(commit()) + ")";
  app.set_version_flag("--version", REHEARSAL_VERSION + built, "says which version this is")->group(kOutputGroup);
  const auto parsed = add_commands(app, format);
  const std::string first = argc > 1 ? argv[1] : "";
  if (first.empty()) {
    say_what_to_type_first(terminal.err());
    return static_cast<int>(ExitStatus::Usage);
  }
  if (first[0] != '-' && std::ranges::find(kCommands, first, &CommandRow::name) == kCommands.end()) {
    terminal.error("'" + first + "' is no command" + suggestion(first, names_of_rows(kCommands, &CommandRow::name)) +
                   " `rehearse --help` lists them");
    return static_cast<int>(ExitStatus::Usage);
  }
  try {
    parse_words(app, argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return answer_about_itself(app, error, terminal);
    terminal.error(about_wrong_words(app, error));
    return static_cast<int>(ExitStatus::Usage);
  } catch (const Error& error) {
    terminal.error(error.what());
    return static_cast<int>(error.status());
  }
  terminal.set_json(format == "json");
  for (const auto& p : parsed)
    if (p.parser->parsed()) return run_command(p, terminal);
  return static_cast<int>(ExitStatus::Usage);
}
