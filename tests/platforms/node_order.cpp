// In which order ranks fill groups of nodes, and that nodes stay where they are.
#include "platforms/node_order.hpp"

#include "base/error.hpp"
#include "platforms/catalog.hpp"
#include "platforms/fabric.hpp"
#include "platforms/platform_check.hpp"
#include "tests/catch.hpp"
#include "tests/platforms/sample.hpp"

using namespace rehearsal;
using namespace rehearsal::platforms;
using namespace rehearsal::platforms::sample;

namespace {

/// Two nodes of 4, three of 2, one of 8.
Platform three_groups(const std::string& kind = "switch", decltype(Topology::parameters) parameters = {{"ports", {8}}}) {
  auto platform = cluster(2, 4, 1, kind, std::move(parameters));
  platform.nodes.push_back(group(3, 2, 1));
  platform.nodes.push_back(group(1, 8, 1));
  const char* names[] = {"four", "two", "eight"};
  for (std::size_t n = 0; n < 3; ++n) platform.nodes[n].name = names[n];
  platform.nodes[1].device.name = "quick-2-16GB";
  platform.nodes[1].device.aliases = {"Q1"};
  platform.nodes[1].device.peaks["f32"] = FlopsPerSecond(2e12);
  return platform;
}

using Named = std::vector<std::string>;

}  // namespace

TEST_CASE("groups of nodes are named by their devices, by themselves, or by their number") {
  auto platform = three_groups();
  CHECK(group_names(platform) == Named{"four", "quick-2-16GB", "eight"});  // two groups have chips
  CHECK(order_of_groups(platform, {}) == NodeOrder{0, 1, 2});
  CHECK(order_of_groups(platform, {"eight"}) == NodeOrder{2, 0, 1});
  CHECK(order_of_groups(platform, {"q1", "Eight"}) == NodeOrder{1, 2, 0});
  CHECK(order_of_groups(platform, {"3", "2", "1"}) == NodeOrder{2, 1, 0});
  CHECK_THROWS_WITH(order_of_groups(platform, {"nine"}),
                    contains("fill: 'nine' is no group of nodes") && contains("four, quick-2-16GB, eight"));
  CHECK_THROWS_WITH(order_of_groups(platform, {"chip"}), contains("'chip' is more than one group"));
  CHECK_THROWS_WITH(order_of_groups(platform, {"two", "quick"}), contains("'quick' is named twice"));
  platform.nodes[2].name = "four";
  CHECK(group_names(platform) == Named{"1", "quick-2-16GB", "3"});
}

TEST_CASE("ranks fill groups in the order that is named, and those behind are not there") {
  const auto platform = three_groups();
  const auto turned = in_order(platform, order_of_groups(platform, {"eight", "two"}));
  CHECK(device_count(turned) == 8 + 3 * 2 + 2 * 4);
  CHECK(place(turned, 7) == Placement{0, 0, 7});
  CHECK(place(turned, 8) == Placement{1, 1, 0});
  CHECK(place(turned, 14) == Placement{2, 4, 0});
  const NodeOrder order{2, 1, 0};
  CHECK(groups_in_use(platform, order, 8) == 1);
  CHECK(groups_in_use(platform, order, 9) == 2);
  CHECK(groups_in_use(platform, order, 15) == 3);
  CHECK(groups_in_use(platform, order, 99) == 3);
  CHECK(device_count(in_order(platform, {2, 1})) == 14);
  CHECK_NOTHROW(check(in_order(platform, {1})));
  CHECK(in_order(platform, {0, 1, 2}) == platform);
}

TEST_CASE("limits hold in every order of groups") {
  const auto platform = three_groups();
  const auto two_nodes = with_limits(platform, 2, {});  // 8 devices of the first two nodes, 12 of the eight and a four
  CHECK(node_count(two_nodes) == 2);
  CHECK(device_count(two_nodes) == 8);
  CHECK(most_devices(two_nodes) == 12);
  CHECK(device_count(in_order(two_nodes, {2, 0, 1})) == 12);
  CHECK(device_count(in_order(two_nodes, {1, 0, 2})) == 4);
  const auto ten = with_limits(platform, {}, 10);
  for (const auto& order : {NodeOrder{0, 1, 2}, NodeOrder{2, 1, 0}}) CHECK(device_count(in_order(ten, order)) == 10);
  CHECK(device_count(in_order(ten, {2})) == 8);
  CHECK_NOTHROW(check(in_order(ten, {2})));
  CHECK_THROWS_WITH(with_limits(platform, 7, {}), contains("7 nodes asked for; it can have 1 to 6"));
  CHECK_THROWS_WITH(with_limits(platform, 2, 13), contains("13 devices asked for; it can have 1 to 12"));
  const auto one_kind = cluster(2, 4, 1, "switch", {{"ports", {8}}});
  CHECK(with_limits(one_kind, 1, 3) == with_devices(with_nodes(one_kind, 1), 3));
}

TEST_CASE("nodes stay where they are in the topology, whichever ranks they have") {
  // Leaf switches of two nodes: the fours below the first, two twos below the second, a two and the eight below the third.
  const auto platform = three_groups("fat-tree", {{"arity", {2}}, {"levels", {3}}, {"adaptive", {1}}});
  const auto turned = in_order(platform, {2, 1, 0});
  const Fabric as_listed(platform), fabric(turned);
  // Devices of nodes 0 to 5 begin at 0, 4, 8, 10, 12, 14 as they are listed; at 14, 18, 8, 10, 12, 0 when they are turned round.
  const int first[] = {0, 4, 8, 10, 12, 14}, first_turned[] = {14, 18, 8, 10, 12, 0};
  for (int a = 0; a < 6; ++a)
    for (int b = 0; b < 6; ++b) {
      CAPTURE(a, b);
      const auto there = as_listed.path(first[a], first[b]), here = fabric.path(first_turned[a], first_turned[b]);
      CHECK(there.links == here.links);
      CHECK(there.latency.value() == Approx(here.latency.value()));
    }
  CHECK(fabric.path(0, 12).links == 2);                            // eight and last two: one leaf, no link between switches
  CHECK(Fabric(in_order(platform, {2, 0})).path(0, 8).links > 2);  // eight and first four, wherever the twos are
}

TEST_CASE("few groups are tried in all orders, many with the quickest first, equal ones in one") {
  const auto platform = three_groups();
  const auto orders = orders_worth_trying(platform);
  CHECK(orders.size() == 6);
  CHECK(orders[0] == Named{"quick-2-16GB"});
  CHECK(orders[1].empty());
  CHECK(std::ranges::count(orders, Named{"eight", "quick-2-16GB"}) == 1);  // and then the fours
  auto alike = platform;
  alike.nodes[2] = alike.nodes[0];
  alike.nodes[2].name = "other";
  CHECK(orders_worth_trying(alike).size() == 3);  // where the twos stand: 3! / 2!
  auto many = platform;
  for (int n = 0; n < 2; ++n) many.nodes.push_back(group(1, 1 + n, 1));
  CHECK(orders_worth_trying(many) == std::vector<Named>{{"quick-2-16GB"}, {}});
  CHECK(orders_worth_trying(cluster(2, 4, 1, "switch", {{"ports", {8}}})) == std::vector<Named>{{}});
}
