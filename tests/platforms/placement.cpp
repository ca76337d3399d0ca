#include "base/error.hpp"
#include "platforms/catalog.hpp"
#include "platforms/platform_check.hpp"
#include "tests/catch.hpp"
#include "tests/platforms/sample.hpp"

using namespace rehearsal;
using namespace rehearsal::platforms;
using namespace rehearsal::platforms::sample;

TEST_CASE("ranks fill nodes in order, group after group") {
  auto platform = cluster(2, 4, 1, "switch", {{"ports", {8}}});
  platform.nodes.push_back(group(3, 2, 1));
  CHECK(node_count(platform) == 5);
  CHECK(device_count(platform) == 2 * 4 + 3 * 2);
  CHECK(place(platform, 0) == Placement{0, 0, 0});
  CHECK(place(platform, 7) == Placement{0, 1, 3});
  CHECK(place(platform, 8) == Placement{1, 2, 0});
  CHECK(place(platform, 13) == Placement{1, 4, 1});
  CHECK_THROWS_AS(place(platform, 14), InternalError);
  CHECK(node_of(platform, 9).devices == 2);
}

TEST_CASE("one kind of node grows to what the topology holds") {
  const auto platform = cluster(2, 4, 1, "fat-tree", {{"arity", {4}}, {"levels", {2}}});  // 16 nodes fit
  CHECK(device_count(with_nodes(platform, 16)) == 64);
  CHECK(device_count(with_devices(platform, 64)) == 64);
  CHECK_THROWS_WITH(with_nodes(platform, 17), contains("17 nodes") && contains("1 to 16"));
  CHECK_THROWS_WITH(with_devices(platform, 65), contains("65 devices") && contains("1 to 64"));
  for (const std::int64_t wrong : {std::int64_t{0}, std::int64_t{-1}, std::int64_t{1} << 62}) {
    CHECK_THROWS_AS(with_nodes(platform, wrong), BadInput);
    CHECK_THROWS_AS(with_devices(platform, wrong), BadInput);
  }
}

TEST_CASE("devices that do not fill a node leave the rest of it idle") {
  const auto platform = with_devices(cluster(2, 4, 1, "fat-tree", {{"arity", {4}}, {"levels", {2}}}), 6);
  CHECK(node_count(platform) == 2);
  CHECK(device_count(platform) == 6);
  CHECK(place(platform, 5) == Placement{0, 1, 1});
  CHECK_THROWS_AS(place(platform, 6), InternalError);
  CHECK_NOTHROW(check(platform));
  CHECK(device_count(with_nodes(platform, 2)) == 8);  // whole nodes again
}

TEST_CASE("several kinds of nodes shrink from the end") {
  auto platform = cluster(2, 4, 1, "switch", {{"ports", {8}}});
  platform.nodes.push_back(group(3, 2, 1));
  CHECK(device_count(with_nodes(platform, 3)) == 4 + 4 + 2);
  CHECK(with_nodes(platform, 2).nodes.size() == 1);
  CHECK(node_count(with_devices(platform, 9)) == 3);
  CHECK(device_count(with_devices(platform, 9)) == 9);
  CHECK_THROWS_AS(with_nodes(platform, 6), BadInput);
  CHECK_THROWS_AS(with_devices(platform, 15), BadInput);
}

TEST_CASE("defaults of the catalogue") {
  CHECK(device_count(load("dgx-a100", {})) == 64);
  CHECK(device_count(load("dgx-h100", {})) == 64);
  CHECK(device_count(load("dgx1-v100", {})) == 64);
  CHECK(device_count(load("p100-node", {})) == 256);
  CHECK(device_count(load("xeon-2s-10gbe", {})) == 8);
}

TEST_CASE("a device knows the arithmetics that it has") {
  const auto a100 = load("dgx-a100", {}).nodes[0].device;
  CHECK(a100.peak("bf16")->value() == Approx(312e12));
  CHECK(a100.peak("tf32")->value() == Approx(156e12));
  CHECK_FALSE(a100.peak("fp8"));
}
