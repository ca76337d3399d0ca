#include <algorithm>
#include <array>
#include <iostream>
#include <new>

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

int run_command(const Parsed& parsed, Terminal& terminal) {
  try {
    refuse_lost_inputs(*parsed.parser);
    return parsed.action(terminal);
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

/// --help and --format, which stand before or behind a command.
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
  }
  return parsed;
}

}  // namespace

int main(int argc, char** argv) {
  install_interrupt_handler();
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
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
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
