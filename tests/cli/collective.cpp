// What `rehearse collective` says of the vendor's library.
#include <set>

#include "tests/cli/rehearse.hpp"

namespace {

TEST_CASE("on accelerators auto is what the vendor's library chooses in a release") {
  const auto chosen = [](const std::string& options) {
    const auto answer = result_of(rehearse("collective --platform dgx-h100 --ranks 8 --format json " + options));
    std::string of_all;
    for (const auto& row : answer.at("collectives"))
      if (row.at("auto") == true) of_all += row.at("algorithm").get<std::string>() + " " + row.at("protocol").get<std::string>() + ";";
    return of_all;
  };
  CHECK(chosen("--sizes 1KB,1MB,1GB") == "library: ring LL;library: ring LL128;library: nvls Simple;");
  CHECK(chosen("--sizes 1MB,1GB --release 2.12") == "library: ring Simple;library: ring Simple;");
  CHECK(chosen("--sizes 1GB --kind all-to-all") == "library: pairs Simple;");
  const auto tpu = result_of(rehearse("collective --platform tpu-v4-pod --ranks 8 --sizes 1MB --format json"));
  CHECK(tpu.at("collectives").back().at("algorithm") == "library");  // XLA's own: no algorithm of the table
  check_failure(rehearse("collective --platform dgx-h100 --release new"), 1, {"--release new", "2.18"});
  for (const std::string unknown : {"1.9", "2.99", "3.0"})
    check_failure(rehearse("collective --platform dgx-h100 --release " + unknown), 1, {"--release " + unknown, "2.0 to 2.29"});
}

TEST_CASE("where the library of a release has nothing, all algorithms are missing") {
  // Five of a DGX-1 close no ring, trees came with 2.4.
  const auto answer = result_of(rehearse("collective --platform dgx1-v100 --ranks 5 --sizes 64MB --release 2.3 --format json"));
  for (const auto& row : answer.at("collectives")) CHECK(row.at("auto") == false);
  CHECK(answer.at("not_possible").size() > 3);
}

TEST_CASE("every algorithm and protocol of the vendor's library is there, with its time or why it cannot run") {
  const auto listed = [](const std::string& options, const char* key) {
    std::set<std::string> all;
    const auto answer = result_of(rehearse("collective --format json --sizes 1MB,1GB " + options));
    for (const auto& row : answer.at(key))
      if (row.at("protocol") != "") all.insert(row.at("algorithm").get<std::string>() + " " + row.at("protocol").get<std::string>());
    return all;
  };
  const auto within = [&](const std::string& options) { return listed(options, "collectives"); };
  const auto without = [&](const std::string& options) { return listed(options, "not_possible"); };
  // One node: nothing between nodes, and NVSwitch adds.
  const std::set<std::string> rings{"library: ring LL", "library: ring LL128", "library: ring Simple"};
  auto and_nvls = rings;
  and_nvls.insert("library: nvls Simple");
  CHECK(within("--platform dgx-h100 --ranks 8") == and_nvls);
  CHECK(within("--platform dgx-a100 --ranks 8") == rings);
  CHECK(without("--platform dgx-a100 --ranks 8").contains("library: nvls Simple"));
  // Of the 12 rows for NVLink those that run and those that do not are all.
  CHECK(within("--platform dgx-h100").size() + without("--platform dgx-h100").size() == 12);
  const auto text = rehearse("collective --platform dgx-a100 --sizes 1MB --ranks 8").out;
  CHECK_THAT(text, contains("the switch between the devices of a node does not add"));
  CHECK(!result_of(rehearse("collective --platform xeon-2s-10gbe --sizes 1MB --format json")).contains("not_possible"));
}

}  // namespace
