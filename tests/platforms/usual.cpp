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
  CHECK(sentences("device.peaks.f64", "1 GFLOP/s").empty());  // slow, and there are such devices
  CHECK(sentences("device.peaks.f64", "1 MFLOP/s").size() == 1);
}

TEST_CASE("figures that do not go together are named") {
  const auto sentence = [](const std::string& figure, const std::string& value) {
    const auto all = unusual_figures(with_setting(load("dgx-h100"), figure, value));
    REQUIRE(all.size() == 1);
    return all.front();
  };
  // 990e9 / 3350e9 = 0.3 FLOP a byte where GPUs with matrix units have tens to hundreds; f32's peak of 67 TFLOP/s is above it, too.
  const auto slip = unusual_figures(with_setting(load("dgx-h100"), "device.peaks.bf16", "990 GFLOP/s"));
  REQUIRE(slip.size() == 2);
  CHECK_THAT(slip.front(), contains("device.peaks.bf16: 990 GFLOP/s is less than the 67 TFLOP/s of f32"));
  CHECK_THAT(slip.back(), contains("device.peaks.bf16: 990 GFLOP/s beside a memory_bandwidth of 3350 GB/s"));
  CHECK(unusual_figures(with_setting(load("xeon-8480-2s"), "device.peaks.bf16", "1 TFLOP/s")).empty());  // as of one without units for it
  CHECK_THAT(sentence("device.peaks.fp8", "500 TFLOP/s"), contains("device.peaks.fp8: 500 TFLOP/s is less than the 989.4 TFLOP/s of bf16"));
  // 80 GiB at 20 GB/s: 4.3 s.
  const auto slow = unusual_figures(with_setting(load("dgx-h100"), "device.memory_bandwidth", "20 GB/s"));
  REQUIRE(slow.size() == 2);
  CHECK_THAT(slow.back(), contains("device.memory: 80 GiB beside a memory_bandwidth of 20 GB/s is read in 4.29 s"));
}

TEST_CASE("a generation whose kernels nobody knows is named with the nearest") {
  auto platform = load("dgx-h100");
  platform.nodes.front().device.generation = "hoper";
  REQUIRE(unusual_figures(platform).size() == 1);
  CHECK_THAT(unusual_figures(platform).front(), contains("\"hoper\" is that of no device of the catalogue; did you mean \"hopper\"?"));
  platform.nodes.front().device.generation.clear();
  REQUIRE(unusual_figures(platform).size() == 1);
  CHECK_THAT(unusual_figures(platform).front(), contains("device.generation: is not said; Kernels"));
}

TEST_CASE("a host takes no more power than a rack, and a node reads no quicker because others read") {
  const auto of = [](const std::string& figure, const std::string& value) {
    return unusual_figures(with_setting(load("dgx-h100"), figure, value));
  };
  REQUIRE(of("node.host_power", "500 kW").size() == 1);
  CHECK(of("node.host_power", "500 kW").front() == "node.host_power: 500 kW; machines have 0 W to 100 kW");
  CHECK(of("node.host_power", "40 kW").empty());  // of a rack of 72 GPUs
  REQUIRE(of("node.storage.bandwidth_while_all", "900 GB/s").size() == 1);
  CHECK_THAT(of("node.storage.bandwidth_while_all", "900 GB/s").front(), contains("is more than the") && contains("node.storage.bandwidth"));
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
