#include "platforms/settings.hpp"

#include "platforms/catalog.hpp"
#include "tests/catch.hpp"

namespace rehearsal::platforms {
namespace {

TEST_CASE("a figure of a platform is set by its name, in every group of nodes, and nothing else changes") {
  auto platform = load("dgx-a100", {});
  platform.nodes.push_back(platform.nodes.front());
  const auto wide = with_setting(platform, "link.bandwidth", "600 GB/s");
  for (const auto& group : wide.nodes) CHECK((*group.intra.bandwidth).value() == 600e9);
  CHECK(setting(wide, "link.bandwidth") == "600 GB/s");
  CHECK(with_setting(wide, "link.bandwidth", setting(platform, "link.bandwidth")) == platform);
}

TEST_CASE("a factor multiplies what is there") {
  const auto platform = load("dgx-a100", {});
  CHECK((*with_setting(platform, "device.memory", "x0.5").nodes.front().device.memory).value() == 40 * 1073741824.0);
  CHECK(with_setting(platform, "device.peaks.bf16", "x2").nodes.front().device.peak("bf16")->value() == 624e12);
  CHECK(with_setting(platform, "node.count", "x2").nodes.front().count == 2 * platform.nodes.front().count);
  CHECK(*with_setting(platform, "pue", "1.25").pue == 1.25);
  const auto now = platform.nodes.front().device.time_between_failures->value;
  CHECK(with_setting(platform, "device.time_between_failures", "x2").nodes.front().device.time_between_failures->value == 2 * now);
  CHECK(with_setting(platform, "node.storage_bandwidth", "2 GB/s").nodes.front().storage_bandwidth->value.value() == 2e9);
}

TEST_CASE("a price that is set is on the terms of who set it") {
  const auto platform = load("dgx-a100", {});
  const auto dearer = with_setting(platform, "node.price", "x2").nodes.front();
  CHECK(dearer.price.value.value() == 2 * 40.97);
  CHECK(dearer.price.source == "node.price=x2");
  CHECK(dearer.price_basis == PriceBasis{});
  CHECK(platform.nodes.front().price_basis.term == PriceTerm::OnDemand);
}

TEST_CASE("figures of storage have names of their own, of all nodes and of each") {
  auto platform = load("dgx-a100", {});
  platform.storage = SharedStorage{BytesPerSecond(40e9), Seconds(1e-3)};
  CHECK(with_setting(platform, "storage.bandwidth", "x2").storage->bandwidth->value.value() == 80e9);
  CHECK(with_setting(platform, "node.storage.bandwidth", "5 GB/s").nodes.front().storage->bandwidth->value.value() == 5e9);
}

TEST_CASE("every figure that a platform says it has can be set to what it is") {
  for (const auto* name : {"dgx-a100", "xeon-2s-10gbe", "tpu-v4-pod", "jean-zay-v100"}) {
    const auto platform = load(name, {});
    const auto names = setting_names(platform);
    CHECK(names.size() > 15);
    for (const auto& key : names) {
      INFO(name << " " << key);
      CHECK(with_setting(platform, key, setting(platform, key)) == platform);
    }
  }
}

TEST_CASE("an unknown figure is answered with the nearest, and a wrong value with what would be right") {
  const auto platform = load("dgx-a100", {});
  CHECK_THROWS_WITH(with_setting(platform, "link.bandwith", "1 GB/s"), contains("did you mean \"link.bandwidth\"?"));
  CHECK_THROWS_WITH(with_setting(platform, "device.memory", "80"), contains("device.memory=80") && contains("no unit"));
  CHECK_THROWS_WITH(with_setting(platform, "device.memory", "x-1"), contains("x2 or x0.5"));
  CHECK_THROWS_WITH(with_setting(platform, "node.devices", "x0.3"), contains("whole number"));
}

}  // namespace
}  // namespace rehearsal::platforms
