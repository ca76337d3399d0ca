#pragma once
// A subcommand is one file in cli/commands and one row in the table of main.cpp.

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

Action add_inspect(CLI::App&);
Action add_zoo(CLI::App&);
Action add_platform(CLI::App&);
Action add_bench(CLI::App&);
Action add_history(CLI::App&);
/// Of `bench`: they have options of their own.
Action add_bench_collectives(CLI::App&);
Action add_bench_data(CLI::App&);
Action add_bench_compression(CLI::App&);
Action add_calibrate(CLI::App&);
Action add_collective(CLI::App&);
Action add_estimate(CLI::App&);
Action add_search(CLI::App&);
Action add_jobs(CLI::App&);
Action add_simulate(CLI::App&);
Action add_run(CLI::App&);
Action add_launch(CLI::App&);
Action add_evaluate(CLI::App&);
Action add_explain(CLI::App&);
Action add_compare(CLI::App&);
Action add_learn(CLI::App&);
Action add_report(CLI::App&);
Action add_export(CLI::App&);
Action add_import(CLI::App&);
Action add_validate(CLI::App&);
Action add_fit(CLI::App&);
Action add_completion(CLI::App&);
Action add_complete(CLI::App&);
Action add_man(CLI::App&);

}  // namespace rehearsal::cli
