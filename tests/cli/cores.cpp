// How many threads a rank computes with: a trace says it.
#include <nlohmann/json.hpp>

#include "exec/comm/usable_cores.hpp"
#include "tests/cli/rehearse.hpp"

namespace {

/// Threads of a training of two steps, started with `before`.
int threads_of(const std::string& before) {
  const TemporaryFolder folder;
  const auto said = run_shell(before + " " REHEARSAL_COMMAND " run " + kGpt + " --batch 4 --steps 2 --trace " + (folder / "trace.json"));
  INFO(said.err);
  REQUIRE(said.status == 0);
  return nlohmann::json::parse(text_of(folder / "trace.json")).at("threads");
}

const std::string kMpirun = REHEARSAL_MPIRUN " --oversubscribe ";

}  // namespace

TEST_CASE("a rank computes with the cores that it may use") {
  const int cores = rehearsal::exec::usable_cores();
  CHECK(threads_of("env -u OMP_NUM_THREADS") == cores);
  CHECK(threads_of("env -u OMP_NUM_THREADS taskset -c " + std::to_string(rehearsal::exec::first_usable_processor())) == 1);
  CHECK(threads_of("OMP_NUM_THREADS=3") == 3);
}

TEST_CASE("ranks share the cores of their node, unless they are bound to some") {
  const int cores = rehearsal::exec::usable_cores();
  CHECK(threads_of("env -u OMP_NUM_THREADS " + kMpirun + "--bind-to none -n 2") == std::max(1, cores / 2));
  CHECK(threads_of("env -u OMP_NUM_THREADS " + kMpirun + "--bind-to core -n 1") == 1);
  // Open MPI 4 says so where it binds a rank to one core by itself; 5 does not.
  if (run_shell(kMpirun + "-n 1 env").out.find("OMPI_MCA_orte_bound_at_launch") != std::string::npos)
    CHECK(threads_of("env -u OMP_NUM_THREADS " + kMpirun + "-n 1") == cores);
  const auto one = std::to_string(rehearsal::exec::first_usable_processor());
  CHECK(threads_of("env -u OMP_NUM_THREADS taskset -c " + one + " " + kMpirun + "-n 1") == 1);
}

TEST_CASE("a number of threads that is none is refused") {
  check_failure(rehearse(std::string("run ") + kGpt + " --batch 4 --steps 1", 0, "OMP_NUM_THREADS=many "), 1, {"OMP_NUM_THREADS", "many"});
}
