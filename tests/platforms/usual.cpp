#include "platforms/usual_figures.hpp"

#include "platforms/catalog.hpp"
#include "platforms/settings.hpp"
#include "tests/catch.hpp"

namespace rehearsal::platforms {
namespace {

TEST_CASE("no machine of the catalogue has a figure that is unusual") {
  for (const auto& name : catalog_names()) {
    INFO(name);
    CHECK(unusual_figures(load(name)).empty());
  }
}

TEST_CASE("a figure with a wrong unit is named, with what machines have") {
  const auto sentences = [](const std::string& figure, const std::string& value) {
    return unusual_figures(with_setting(load("dgx-h100"), figure, value));
  };
  REQUIRE(sentences("nic.latency", "3 s").size() == 1);
  CHECK(sentences("nic.latency", "3 s").front() == "nic.latency: 3 s; machines have 100 ns to 100 ms");
  CHECK(sentences("nic.latency", "50 ms").empty());  // between sites
  CHECK(sentences("device.host_bandwidth", "25 TB/s").size() == 1);
  CHECK(sentences("node.host_memory", "512 MiB").size() == 1);
  CHECK(sentences("device.peaks.bf16", "989 GFLOP/s").empty());  // slow, and there are such devices
  CHECK(sentences("device.peaks.bf16", "989 MFLOP/s").size() == 1);
}

TEST_CASE("what all devices of a node share is enough for one of them") {
  auto platform = load("dgx-h100");
  auto& intra = platform.nodes.front().intra;
  intra.total_bandwidth = intra.bandwidth;
  CHECK(unusual_figures(platform).empty());
  intra.total_bandwidth->value = BytesPerSecond(intra.bandwidth.value.value() / 2);
  REQUIRE(unusual_figures(platform).size() == 1);
  CHECK_THAT(unusual_figures(platform).front(), contains("link.total_bandwidth"));
}

}  // namespace
}  // namespace rehearsal::platforms
