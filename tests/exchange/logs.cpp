// Logs of nccl-tests and OSU, and the links fitted to them.

#include "costmodel/collective_library.hpp"
#include "costmodel/constants.hpp"
#include "exchange/logs/collective_log.hpp"
#include "exchange/logs/link_fit.hpp"
#include "platforms/catalog.hpp"
#include "platforms/settings.hpp"
#include "tests/catch.hpp"

namespace rehearsal::exchange {
namespace {

using costmodel::CollectiveKind;

const std::string kHead =
    "# Collective test starting: all_reduce_perf\n"
    "#  Rank  0 Group  0 Pid      1 on     node0 device  0 [0000:04:00] NVIDIA H100\n"
    "#  Rank  1 Group  0 Pid      2 on     node0 device  1 [0000:05:00] NVIDIA H100\n"
    "#                                                              out-of-place                       in-place\n"
    "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong\n"
    "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)\n";
// NVIDIA/nccl-tests, issue 194: two H100 PCIe joined by NVLink bridges
const std::string kRows =
    "  1073741824     268435456     float     sum      -1   9306.7  115.37  115.37      0   9291.5  115.56  115.56      0\n"
    "  2147483648     536870912     float     sum      -1    18535  115.86  115.86      0    18524  115.93  115.93      0\n";

CollectiveLog read(const std::string& text, const LogHints& hints = {}) { return read_collective_log(text, "a.log", hints); }

TEST_CASE("a log of nccl-tests has its collective, ranks, nodes and out-of-place times") {
  const auto log = read(kHead + kRows + "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 115.6\n");
  CHECK(log.tool == "nccl-tests");
  CHECK(log.kind == CollectiveKind::AllReduce);
  CHECK(log.ranks == 2);
  CHECK(log.nodes == 1);
  REQUIRE(log.samples.size() == 2);
  CHECK(log.samples[0].size.value() == 1073741824);
  CHECK(log.samples[0].seconds.value() == Approx(9306.7e-6));
  CHECK(log.samples[1].seconds.value() == Approx(18535e-6));
}

TEST_CASE("what is said of a log and the log contradicts is refused") {
  CHECK_THROWS_WITH(read(kHead + kRows, {CollectiveKind::AllToAll, std::nullopt}),
                    contains("a.log: is of all-reduce, not of all-to-all; leave --kind out"));
  CHECK_THROWS_WITH(read(kHead + kRows, {std::nullopt, 4}), contains("a.log: is of 2 ranks, not of 4; leave --ranks out"));
  CHECK(read(kHead + kRows, {CollectiveKind::AllReduce, 2}).ranks == 2);
}

TEST_CASE("ranks of a node that a log contradicts, or that cannot be, are refused") {
  const auto platform = platforms::load("h100-pcie-8x");
  const auto log = read(kHead + kRows);
  CHECK_THROWS_WITH(fit_links(platform, log, "a test", 1), contains("--ranks-per-node 1: the log says itself that 2 ranks were on 1 node"));
  for (const int wrong : {0, -1, 3})
    CHECK_THROWS_WITH(fit_links(platform, log, "a test", wrong), contains("must be from 1 to 2, the ranks of the log"));
  CHECK_NOTHROW(fit_links(platform, log, "a test", 2));
}

TEST_CASE("older logs without root and name of the collective are read with --kind") {
  const std::string old =
      "#   Rank  0 Pid   1320 on a device  0 [0x00] V100\n#   Rank  1 Pid   1321 on b device  0 [0x00] V100\n"
      "#                     out-of-place                       in-place\n"
      "#       size         count      type   redop     time   algbw   busbw  error     time   algbw   busbw  error\n"
      "     1048576        262144     float     sum    931.5    1.13    1.13  0e+00    930.0    1.13    1.13  0e+00\n";
  CHECK_THROWS_WITH(read(old), contains("a.log: does not name its collective") && contains("give --kind"));
  const auto log = read(old, {CollectiveKind::AllReduce, std::nullopt});
  CHECK(log.nodes == 2);
  CHECK(log.samples.at(0).seconds.value() == Approx(931.5e-6));
}

TEST_CASE("what is wrong with a log of nccl-tests is said with file and line") {
  CHECK_THROWS_WITH(read(kHead + "  1073741824  268435456  float  sum  -1  fast  1  1  0\n"),
                    contains("a.log:7: column 6 (time in us) must be a number"));
  CHECK_THROWS_WITH(read(kHead + "  1073741824  268435456  float  sum  -1  9306.7  1  1  5\n"),
                    contains("a.log:7: results were wrong (5)"));
  CHECK_THROWS_WITH(read(kHead), contains("a.log: has no row"));
  const std::string lone = "#  Rank  0 Group  0 Pid 1 on a device  0 [0] x\n#  Rank  0 Group  0 Pid 2 on b device  0 [0] x\n";
  CHECK_THROWS_WITH(read(lone + kHead + kRows), contains("a.log:2: rank 0 is there twice") && contains("MPI=1"));
  CHECK_THROWS_WITH(read("# Collective test starting: hypercube_perf\n" + kHead + kRows), contains("a.log:1: 'hypercube_perf' is none of"));
}

TEST_CASE("OSU's sizes are of what one rank sends, and ranks are not in its logs") {
  // open-mpi/ompi, pull request 12318, prints more columns behind the mean
  const std::string reduce =
      "# OSU MPI-CUDA Reduce Latency Test v7.3\n# Datatype: MPI_CHAR.\n# Size  Avg Latency(us)  Min Latency(us)\n1  53.34  24.80\n2048  "
      "58.17  25.93\n";
  CHECK_THROWS_WITH(read(reduce), contains("give --ranks"));
  const auto log = read(reduce, {std::nullopt, 192});
  CHECK(log.kind == CollectiveKind::Reduce);
  CHECK(log.ranks == 192);
  CHECK(log.samples.at(1).size.value() == 2048);
  CHECK(log.samples.at(1).seconds.value() == Approx(58.17e-6));
  // an all-gather of 8 bytes of each of 4 ranks leaves 32 with everybody
  const auto gather = read("# OSU MPI Allgather Latency Test v7.3\n# Size  Avg Latency(us)\n8  2.5\n", {std::nullopt, 4});
  CHECK(gather.samples.at(0).size.value() == 32);
  CHECK_THROWS_WITH(read("# OSU MPI Bandwidth Test v5.6\n# Size  Bandwidth (MB/s)\n1  2.0\n"), contains("a.log:1: only latency tests"));
  CHECK_THROWS_WITH(read("# OSU MPI Latency Test v5.6\n# Size  Latency (us)\n1  quick\n"), contains("a.log:3: column 2"));
}

/// What a platform with these links would be measured to take for messages.
CollectiveLog messages_of(const platforms::Platform& platform, bool between) {
  CollectiveLog log{"OSU", std::nullopt, 2, 0, {}};
  for (double bytes = 64; bytes < 1e9; bytes *= 8)
    log.samples.push_back(
        {Bytes(bytes), Seconds(costmodel::CollectiveLibrary(platform).send(bytes, between, costmodel::published_constants().values))});
  return log;
}

TEST_CASE("links that made the times are found again") {
  const auto platform = platforms::load("dgx-a100");
  const auto other = platforms::with_setting(platforms::with_setting(platform, "nic.bandwidth", "x0.4"), "nic.latency", "x3");
  const auto fit = fit_links(platform, messages_of(other, true), "a test", 1);
  CHECK(fit.mean_before > 0.2);  // large messages seem to take 0.4 of their time
  CHECK(fit.mean_after < 1e-3);
  const auto& nic = fit.platform.nodes.front().nic;
  CHECK(nic.bandwidth.value.value() == Approx(0.4 * platform.nodes.front().nic.bandwidth.value.value()).epsilon(0.01));
  CHECK(nic.bandwidth.source == "a test");
}

TEST_CASE("ranks that the platform lays out otherwise are refused") {
  CollectiveLog log{"nccl-tests", CollectiveKind::AllReduce, 2, 2, {{Bytes(1e6), Seconds(1e-4)}}};
  CHECK_THROWS_WITH(fit_links(platforms::load("dgx-a100"), log, "a test", std::nullopt),
                    contains("1 ranks on each node") && contains("puts 2 there"));
}

}  // namespace
}  // namespace rehearsal::exchange
