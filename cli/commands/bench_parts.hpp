#pragma once
// Benchmarks that have options of their own: subcommands of `bench`.

#include "cli/command.hpp"

namespace rehearsal::cli {

[[nodiscard]] Action add_bench_collectives(CLI::App&);
[[nodiscard]] Action add_bench_data(CLI::App&);
[[nodiscard]] Action add_bench_compression(CLI::App&);

}  // namespace rehearsal::cli
