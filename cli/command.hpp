#pragma once
// A subcommand is one file in cli/commands/ and one row of command_rows.hpp.

#include <functional>
#include <string_view>

#include "cli/terminal.hpp"

namespace CLI {
class App;
}

namespace rehearsal::cli {

/// Runs the command with the options that were parsed; returns the exit status.
using Action = std::function<int(Terminal&)>;

struct CommandRow {
  std::string_view name, description, example;
  std::string_view group;  ///< of `rehearse --help`; empty: for scripts, not shown
  /// Adds the command's options to its parser and returns what to do once they are parsed.
  Action (*add)(CLI::App& parser);
};

}  // namespace rehearsal::cli
