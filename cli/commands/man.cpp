#include <algorithm>
#include <filesystem>
#include <ostream>

#include <CLI/CLI.hpp>

#include "base/atomic_file.hpp"
#include "base/error.hpp"
#include "base/names.hpp"
#include "cli/command.hpp"
#include "cli/help/help_page.hpp"

namespace rehearsal::cli {
namespace {

/// rehearse.1, rehearse-estimate.1, ...
int write_all(const CLI::App& root, const std::string& folder, Terminal& terminal) {
  std::error_code problem;
  std::filesystem::create_directories(folder, problem);
  if (problem) throw BadInput(folder, "cannot be made: " + problem.message());
  auto commands = shown_commands(root);
  commands.insert(commands.begin(), &root);
  for (const auto* command : commands) {
    const auto page = help_page(*command);
    auto name = page.command;
    std::ranges::replace(name, ' ', '-');
    write_file_atomically(folder + "/" + name + ".1", man_page(page, REHEARSAL_VERSION));
  }
  terminal.say("wrote " + std::to_string(commands.size()) + " pages to " + folder);
  return 0;
}

}  // namespace

Action add_man(CLI::App& app) {
  struct Options {
    std::string command, folder;
  };
  auto o = std::make_shared<Options>();
  app.add_option("COMMAND", o->command, "whose page is printed; left out: that of rehearse as a whole");
  app.add_option("-o,--output", o->folder, "a folder that the pages of all commands are written to");
  return [o, root = app.get_parent()](Terminal& terminal) {
    if (!o->folder.empty() && !o->command.empty())
      throw WrongUsage("--output", "writes the pages of all commands, and prints none; leave it out, or COMMAND");
    if (!o->folder.empty()) return write_all(*root, o->folder, terminal);
    const CLI::App* shown = root;
    if (!o->command.empty()) {
      Names names;
      for (const auto* command : shown_commands(*root)) names.push_back(command->get_name());
      const auto name = known_name("man", o->command, names);
      shown = root->get_subcommands([&](const CLI::App* c) { return c->get_name() == name; }).front();
    }
    terminal.out() << man_page(help_page(*shown), REHEARSAL_VERSION) << std::flush;
    return 0;
  };
}

}  // namespace rehearsal::cli
