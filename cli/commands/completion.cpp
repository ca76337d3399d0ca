#include <ostream>

#include <CLI/CLI.hpp>

#include "base/names.hpp"
#include "cli/command.hpp"
#include "cli/completion/candidates.hpp"

namespace rehearsal::cli {

Action add_completion(CLI::App& app) {
  auto shell = std::make_shared<std::string>();
  std::string how;
  for (const auto& row : shell_table()) how += (how.empty() ? "" : "; in ") + std::string(row.name) + ": " + std::string(row.install);
  app.add_option("SHELL", *shell, "bash, zsh or fish. To have completion in every new shell, type once in " + how)->required();
  return [shell](Terminal& terminal) {
    const auto name = known_name("completion", *shell, names_of_rows(shell_table(), &ShellRow::name));
    for (const auto& row : shell_table())
      if (row.name == name) terminal.out() << row.script << std::flush;
    return 0;
  };
}

Action add_complete(CLI::App& app) {
  auto words = std::make_shared<std::vector<std::string>>();
  app.add_option("WORDS", *words, "those behind `rehearse`, the last one as far as it was typed");
  return [words, root = app.get_parent()](Terminal& terminal) {
    for (const auto& candidate : candidates(*root, *words)) terminal.out() << candidate.word << '\t' << candidate.text << '\n';
    terminal.out() << std::flush;
    return 0;
  };
}

}  // namespace rehearsal::cli
