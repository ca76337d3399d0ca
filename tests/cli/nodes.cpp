// rehearse calibrate under mpirun on two nodes: network namespaces, joined by a network of known rate and delay.
#include <unistd.h>

#include <cmath>
#include <filesystem>

#include "tests/cli/rehearse.hpp"

namespace {

constexpr double kBytesPerSecond = 100e6 / 8, kDelay = 0.004;

/// Whether this process may make namespaces and network cards.
bool may_make_nodes() {
  return ::geteuid() == 0 && std::filesystem::exists("/dev/net/tun") && run_shell("unshare --net --uts true").status == 0;
}

Ended on_two_nodes(const std::string& arguments) {
  return run_shell("python3 scripts/namespaces --nodes 2 --rate 100Mbit --delay 4ms mpirun -n 2 \"" REHEARSAL_COMMAND "\" " + arguments);
}

/// Seconds that `collective` predicts for our ring all-reduce of so many bytes between two ranks of different nodes.
double predicted(const std::string& machine, std::size_t bytes) {
  const auto doc = result_of(rehearse("collective --format json --platform " + machine + " --machine " + machine + " --ranks 2 --sizes " +
                                      std::to_string(bytes) + "B"));
  for (const auto& row : doc.at("collectives"))
    if (row.at("algorithm") == "ring") return row.at("seconds");
  return 0;
}

/// A rank occupies a device; these nodes have one each.
void keep_one_device(const std::string& machine) {
  auto doc = nlohmann::json::parse(text_of(machine));
  doc["platform"]["nodes"][0]["devices"] = 1;
  write_text(machine, doc.dump());
}

}  // namespace

TEST_CASE("calibrate on two nodes measures the link between them, and the all-reduce over it is as predicted") {
  if (!may_make_nodes()) {
    WARN("not tested: network namespaces and cards need root");
    return;
  }
  const TemporaryFolder folder;
  const auto machine = folder / "machine.json";
  const auto doc = result_of(on_two_nodes("calibrate --quick --format json -o " + machine));
  CHECK(doc.at("nodes") == 2);
  CHECK(doc.at("context").at("ranks") == "2 on 2 nodes");
  const auto& link = doc.at("node_link");
  CHECK(std::abs(link.at("latency_seconds").get<double>() / kDelay - 1) < 0.1);
  CHECK(std::abs(link.at("bandwidth_bytes_per_second").get<double>() / kBytesPerSecond - 1) < 0.1);
  keep_one_device(machine);
  const auto bench = result_of(on_two_nodes("bench --format json collectives --bytes 65536 524288 --repetitions 3"));
  int compared = 0;
  for (const auto& row : bench.at("collectives")) {
    if (row.at("collective") != "all-reduce" || row.at("algorithm") != "ring") continue;
    INFO(row.dump());
    CHECK(std::abs(predicted(machine, row.at("message_bytes")) / row.at("ours_seconds").get<double>() - 1) < 0.15);
    ++compared;
  }
  CHECK(compared == 2);
}

TEST_CASE("when a rank of another node dies, it is named and the job ends") {
  if (!may_make_nodes()) return;
  const TemporaryFolder folder;
  const auto metrics = folder / "m.jsonl", pid = folder / "pid.";
  const std::string rank = "sh -c 'echo $$ > " + pid + "$OMPI_COMM_WORLD_RANK; exec \"" REHEARSAL_COMMAND "\" \"$@\"' rank ";
  const auto ended =
      run_shell("touch " + metrics + "; ( while [ \"$(wc -l < " + metrics + ")\" -lt 4 ]; do sleep 0.05; done; kill -KILL $(cat " + pid +
                "1) ) & python3 scripts/namespaces --rate 1Gbit --delay 100us mpirun -n 2 " + rank + "run " + kGpt +
                " --batch 4 --steps 100000000 --metrics " + metrics);
  INFO(ended.err);
  CHECK(ended.status != 0);
  CHECK_THAT(ended.err, contains("process rank 1 "));
}

TEST_CASE("calibrate says what a launcher has to start") {
  check_failure(rehearse("calibrate --quick -o /nowhere/machine.json", 1), 1, {"calibrate", "one rank"});
  check_failure(rehearse("calibrate --quick -o /nowhere/machine.json", 2), 1, {"/nowhere"});
}
