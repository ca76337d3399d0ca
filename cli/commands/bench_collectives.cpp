#include <unistd.h>

#include <filesystem>
#include <fstream>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/atomic_file.hpp"
#include "base/error.hpp"
#include "cli/commands/bench_parts.hpp"
#include "cli/own_ranks.hpp"
#include "exec/bench/collective_bench.hpp"

namespace rehearsal::cli {
namespace {

using Json = nlohmann::ordered_json;

struct BenchCollectivesOptions {
  std::vector<std::size_t> sizes{8, 4096, 262144, 4194304};
  int repetitions = 9, ranks = 0;
  std::string worker;  ///< file for the result of the ranks that bench starts itself
};

Json row_of(const exec::bench::CollectiveResult& r) {
  return {{"collective", std::string(plan::name(r.kind))},
          {"algorithm", r.algorithm},
          {"message_bytes", static_cast<std::int64_t>(r.size.value())},
          {"ours_seconds", r.ours.value()},
          {"mpi_seconds", r.mpi.value()},
          {"closed_form_seconds", r.closed_form.value()},
          {"bound_seconds", r.bound.value()},
          {"ours_over_mpi", r.ours.value() / r.mpi.value()},
          {"ours_over_bound", r.ours.value() / r.bound.value()},
          {"ours_over_closed_form", r.ours.value() / r.closed_form.value()}};
}

Json result_of(const exec::bench::CollectiveBench& bench, int ranks) {
  auto rows = Json::array();
  for (const auto& r : bench.results) rows.push_back(row_of(r));
  return {{"schema", 1},
          {"ranks", ranks},
          {"latency_seconds", bench.links.latency.value()},
          {"bandwidth_bytes_per_second", bench.links.bandwidth.value()},
          {"reduction_bytes_per_second", bench.links.reduction.value()},
          {"collectives", rows}};
}

/// As one of several ranks; rank 0 has the result in its hands.
int work_of_bench_collectives(const BenchCollectivesOptions& o, Terminal& terminal) {
  return work_as_rank(terminal, "measuring", [&](exec::Communicator& world, Progress& progress) {
    const auto result = result_of(exec::bench::measure_collectives(world, {o.sizes, o.repetitions}, progress), world.size());
    if (world.rank() != 0) return;
    if (o.worker.empty())
      terminal.print(result);
    else
      write_file_atomically(o.worker, result.dump());
  });
}

int start_ranks(const BenchCollectivesOptions& o, Terminal& terminal) {
  constexpr double kLimitSeconds = 1800;
  const TemporaryFile file((std::filesystem::temp_directory_path() / ("rehearse-bench." + std::to_string(getpid()))).string());
  std::vector<std::string> arguments = {"bench", "collectives", "--worker", file.path(), "--repetitions", std::to_string(o.repetitions)};
  arguments.emplace_back("--bytes");
  for (auto size : o.sizes) arguments.push_back(std::to_string(size));
  start_own_ranks(arguments, kLimitSeconds, o.ranks);
  std::ifstream result(file.path());
  if (!result) throw EnvironmentFailure("bench: the ranks ended without a result");
  terminal.print(Json::parse(result));
  return 0;
}

}  // namespace

Action add_bench_collectives(CLI::App& collectives) {
  auto o = std::make_shared<BenchCollectivesOptions>();
  collectives.add_option("--bytes", o->sizes, "sizes of the vector, in bytes")->check(CLI::Range(std::size_t{1}, std::size_t{1} << 32));
  collectives.add_option("--repetitions", o->repetitions)->check(CLI::Range(1, 100000));
  collectives.add_option("--ranks", o->ranks, "how many to start (one per core); without effect under mpirun")->check(CLI::Range(2, 4096));
  collectives.add_option("--worker", o->worker, "used by bench itself")->group("");
  return [o](Terminal& terminal) {
    const bool is_rank = !o->worker.empty() || exec::MpiSession::launched();
    return is_rank ? work_of_bench_collectives(*o, terminal) : start_ranks(*o, terminal);
  };
}

}  // namespace rehearsal::cli
