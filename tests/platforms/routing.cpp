#include <cmath>
#include <map>
#include <set>

#include "base/random.hpp"
#include "platforms/catalog.hpp"
#include "platforms/topology.hpp"
#include "platforms/traffic.hpp"
#include "tests/catch.hpp"
#include "tests/cpu_time.hpp"
#include "tests/platforms/sample.hpp"

using namespace rehearsal;
using namespace rehearsal::platforms;
using namespace rehearsal::platforms::sample;

TEST_CASE("inside a node a message leaves one port and enters another") {
  const Fabric fabric(cluster(1, 4, 0, "single", {}));
  CHECK(way(fabric, 1, 3) == Way{"node0.device1.out", "node0.device3.in"});
  // Half of the 2 us belongs to each port.
  CHECK(fabric.route(1, 3).latency.value() == Approx(2e-6));
  CHECK(fabric.path(1, 3).bandwidth.value() == kPort);
  CHECK(fabric.link_count() == 8);
  CHECK(fabric.route(2, 2).links.empty());
  CHECK(fabric.route(2, 2).latency.value() == 0);
}

TEST_CASE("shared memory is one bus for all ranks of a node") {
  auto platform = cluster(1, 2, 0, "single", {});
  platform.nodes[0].intra.kind = IntraKind::SharedMemory;
  const Fabric fabric(platform);
  CHECK(way(fabric, 0, 1) == Way{"node0.device0.out", "node0.bus", "node0.device1.in"});
  CHECK(way(fabric, 1, 0) == Way{"node0.device1.out", "node0.bus", "node0.device0.in"});
  CHECK(fabric.path(0, 1).bandwidth.value() == kPort);

  platform.nodes[0].intra.total_bandwidth = BytesPerSecond(30e9);
  CHECK(Fabric(platform).path(0, 1).bandwidth.value() == 30e9);
}

TEST_CASE("over a switch only the cards limit") {
  // 4 devices share 2 cards: devices 0 and 1 card 0, devices 2 and 3 card 1.
  const Fabric fabric(cluster(3, 4, 2, "switch", {{"ports", {8}}}));
  CHECK(way(fabric, 1, 10) == Way{"node0.nic0.out", "node2.nic1.in"});
  // 1 us at each card and 0.5 us in the switch.
  CHECK(fabric.path(1, 10).latency.value() == Approx(2.5e-6));
  CHECK(fabric.path(1, 10).bandwidth.value() == kCard);
  CHECK(fabric.link_count() == 3 * (4 * 2 + 2 * 2));
}

TEST_CASE("more cards than devices are bundled") {
  // 2 devices, 5 cards: 2.5 cards of 10 GB/s each.
  const Fabric fabric(cluster(2, 2, 5, "switch", {{"ports", {2}}}));
  CHECK(fabric.path(0, 3).bandwidth.value() == Approx(25e9));
}

TEST_CASE("wires of a mesh carry what joins them, others forward") {
  // A square 0-1-2-3 with a double wire 1-2: from 0 to 2 there are 0-1-2 and 0-3-2, both as narrow as their single wires; 1 is lower.
  auto platform = cluster(1, 4, 0, "single", {});
  platform.nodes[0].intra.kind = IntraKind::NvlinkMesh;
  platform.nodes[0].intra.wires = {{0, 1, 1}, {1, 2, 2}, {2, 3, 1}, {0, 3, 1}};
  const Fabric square(platform);
  CHECK(way(square, 0, 1) == Way{"node0.wire0.0.to.1"});
  CHECK(way(square, 2, 1) == Way{"node0.wire1.2.to.1"});
  CHECK(way(square, 0, 2) == Way{"node0.wire0.0.to.1", "node0.wire1.1.to.2"});
  CHECK(square.path(1, 2).bandwidth.value() == 2 * kPort);
  CHECK(square.path(0, 2).latency.value() == Approx(4e-6));  // two wires of 2 us

  // With a double wire 0-3 and 2-3 the way over 3 is wider.
  platform.nodes[0].intra.wires = {{0, 1, 1}, {1, 2, 2}, {2, 3, 2}, {0, 3, 2}};
  CHECK(way(Fabric(platform), 0, 2) == Way{"node0.wire3.0.to.3", "node0.wire2.3.to.2"});
}

TEST_CASE("the hybrid cube of a DGX-1 needs at most two wires") {
  const auto platform = load("dgx1-v100", {});
  const Fabric fabric(with_nodes(platform, 1));
  std::vector<int> wires(8, 0);
  for (const auto& wire : platform.nodes[0].intra.wires) {
    wires[static_cast<std::size_t>(wire.a)] += wire.count;
    wires[static_cast<std::size_t>(wire.b)] += wire.count;
  }
  for (const int count : wires) CHECK(count == 6);  // a V100 has six NVLinks, all of them used
  for (int a = 0; a < 8; ++a)
    for (int b = 0; b < 8; ++b) CHECK(fabric.route(a, b).links.size() <= 2);
  CHECK(fabric.path(0, 3).bandwidth.value() == Approx(50e9));  // two wires of 25 GB/s
  CHECK(fabric.path(0, 1).bandwidth.value() == Approx(25e9));
  // 0 to 5: over 1 (1 wire, then 2), 4 (2, then 1); both carry one wire, the lower device wins.
  CHECK(fabric.path(0, 5).bandwidth.value() == Approx(25e9));
}

TEST_CASE("a fat tree climbs to the lowest common level and picks links by the receiver") {
  // 2 nodes a leaf, 2 leaves a pod, 2 pods: 8 nodes of one device and one card. A leaf has 2 links up, a pod 4.
  const Fabric fabric(cluster(8, 1, 1, "fat-tree", {{"arity", {2}}, {"levels", {3}}}));
  CHECK(way(fabric, 0, 1) == Way{"node0.nic0.out", "node1.nic0.in"});
  CHECK(way(fabric, 0, 3) == Way{"node0.nic0.out", "level1.switch0.up1", "level1.switch1.down1", "node3.nic0.in"});
  // To node 6: link 6 mod 2 = 0 of the leaf, 6 mod 4 = 2 of the pod.
  CHECK(way(fabric, 1, 6) ==
        Way{"node1.nic0.out", "level1.switch0.up0", "level2.switch0.up2", "level2.switch1.down2", "level1.switch3.down0", "node6.nic0.in"});
  // Cards 2 x 1 us; five switches of 0.5 us: leaf, pod, root, pod, leaf.
  CHECK(fabric.path(1, 6).latency.value() == Approx(2e-6 + 5 * 0.5e-6));
  CHECK(fabric.path(1, 6).bandwidth.value() == kCard);
  // 8 x (2 ports + 2 of the card) + 4 leaves x 2 x 2 + 2 pods x 2 x 4.
  CHECK(fabric.link_count() == 8 * 4 + 16 + 16);
}

TEST_CASE("an oversubscribed fat tree has fewer links up") {
  // 4 nodes a leaf and 2:1: 2 links up. All four nodes of leaf 0 to their partner in leaf 1 share two links.
  const Fabric fabric(cluster(8, 1, 1, "fat-tree", {{"arity", {4}}, {"levels", {2}}, {"oversubscription", {2}}}));
  std::set<std::uint32_t> up;
  for (int node = 0; node < 4; ++node) up.insert(fabric.route(node, node + 4).links[1]);
  CHECK(up.size() == 2);
}

TEST_CASE("messages that are sent at a time have what the fullest link between nodes leaves each of them") {
  // The same two links up: four messages across, two on each; at half their weight the links are as good as their own.
  const Fabric fabric(cluster(8, 1, 1, "fat-tree", {{"arity", {4}}, {"levels", {2}}, {"oversubscription", {2}}}));
  Traffic across(fabric), halves(fabric), near(fabric);
  for (int node = 0; node < 4; ++node) across.send(node, node + 4), halves.send(node, node + 4, 0.5);
  CHECK(across.slowest().bandwidth.value() == Approx(kTrunk / 2));
  CHECK(halves.slowest().bandwidth.value() == Approx(kTrunk));
  CHECK(across.slowest().latency.value() == Approx(2e-6 + 3 * 0.5e-6));
  near.send(0, 1);  // in one leaf
  CHECK(std::isinf(near.slowest().bandwidth.value()));
}

TEST_CASE("other jobs' traffic takes its share of every link between switches, and of no card") {
  const auto narrowest = [](const char* kind, std::map<std::string, std::vector<std::int64_t>, std::less<>> parameters,
                            std::int64_t background, int nodes) {
    parameters["background"] = {background};
    const Fabric fabric(cluster(nodes, 1, 1, kind, parameters));
    double least = HUGE_VAL;
    for (const auto link : fabric.route(0, nodes - 1).links)
      if (fabric.link(link).role == LinkRole::Network) least = std::min(least, fabric.link(link).bandwidth.value());
    return least;
  };
  const std::map<std::string, std::vector<std::int64_t>, std::less<>> tree{{"arity", {4}}, {"levels", {2}}}, torus{{"dims", {3, 3}}},
      dragonfly{{"groups", {2}}, {"routers", {2}}, {"nodes_per_router", {2}}}, hyperx{{"grid", {2, 2}}, {"nodes_per_switch", {2}}};
  CHECK(narrowest("fat-tree", tree, 25, 8) == Approx(0.75 * narrowest("fat-tree", tree, 0, 8)));
  CHECK(narrowest("torus", torus, 60, 9) == Approx(0.4 * narrowest("torus", torus, 0, 9)));
  CHECK(narrowest("dragonfly", dragonfly, 60, 8) == Approx(0.4 * narrowest("dragonfly", dragonfly, 0, 8)));
  CHECK(narrowest("hyperx", hyperx, 60, 8) == Approx(0.4 * narrowest("hyperx", hyperx, 0, 8)));
}

TEST_CASE("a fat tree with full bisection carries every shift without sharing a link") {
  // Zahavi et al. 2012: d-mod-k routing has no contention for shift permutations on a full fat tree.
  const int ranks = 16;
  const Fabric fabric(cluster(ranks, 1, 1, "fat-tree", {{"arity", {4}}, {"levels", {2}}}));
  for (int shift = 1; shift < ranks; ++shift) {
    std::multiset<std::uint32_t> used;
    for (int rank = 0; rank < ranks; ++rank)
      for (const auto link : fabric.route(rank, (rank + shift) % ranks).links) used.insert(link);
    for (const auto link : used) CHECK(used.count(link) == 1);
  }
}

TEST_CASE("a torus goes the short way round, dimension by dimension") {
  // 4 x 3 nodes; node = x + 4·y. From (0,0) to (3,2): one step down in x, one step down in y (2 is 1 below 0 in a ring of 3).
  const Fabric fabric(cluster(12, 1, 1, "torus", {{"dims", {4, 3}}}));
  CHECK(way(fabric, 0, 11) == Way{"node0.nic0.out", "router0.dim0.down", "router3.dim1.down", "node11.nic0.in"});
  // (1,0) to (3,0): two steps either way; up wins.
  CHECK(way(fabric, 1, 3) == Way{"node1.nic0.out", "router1.dim0.up", "router2.dim0.up", "node3.nic0.in"});
  // Three routers of 0.5 us and two cards of 1 us.
  CHECK(fabric.path(1, 3).latency.value() == Approx(2e-6 + 1.5e-6));
  CHECK(fabric.link_count() == 12 * (2 + 2) + 12 * 2 * 2);
}

TEST_CASE("a dragonfly takes at most one local, one global and one local hop") {
  // 3 groups of 2 routers with 2 nodes each. Group 0 reaches group 1 over router 0 and group 2 over router 1;
  // group 2 reaches group 0 over router (0-2-1+3) mod 3 mod 2 = 0.
  const Fabric fabric(
      cluster(12, 1, 1, "dragonfly", {{"groups", {3}}, {"routers", {2}}, {"nodes_per_router", {2}}, {"global_width", {3}}}));
  CHECK(way(fabric, 0, 1) == Way{"node0.nic0.out", "node1.nic0.in"});
  CHECK(way(fabric, 0, 2) == Way{"node0.nic0.out", "group0.router0.to-router1", "node2.nic0.in"});
  // Node 0 is on router 0 of group 0, node 11 on router 1 of group 2.
  CHECK(way(fabric, 0, 11) ==
        Way{"node0.nic0.out", "group0.router0.to-router1", "group0.to-group2", "group2.router0.to-router1", "node11.nic0.in"});
  CHECK(fabric.path(0, 11).latency.value() == Approx(2e-6 + 4 * 0.5e-6));  // four routers
  CHECK(fabric.link(fabric.route(0, 11).links[2]).bandwidth.value() == Approx(3 * kTrunk));
}

TEST_CASE("adaptive routing shares all links of a router and of a group") {
  // 3 groups of 5 routers with 2 nodes each. Of the 4 other routers, with two links each, half: 4 trunks. Of the 2 other groups, with
  // three links each, half: 3 trunks.
  const Fabric fabric(cluster(
      30, 1, 1, "dragonfly",
      {{"groups", {3}}, {"routers", {5}}, {"nodes_per_router", {2}}, {"local_width", {2}}, {"global_width", {3}}, {"adaptive", {1}}}));
  CHECK(way(fabric, 0, 1) == Way{"node0.nic0.out", "node1.nic0.in"});
  CHECK(way(fabric, 0, 2) == Way{"node0.nic0.out", "group0.router0.out", "group0.router1.in", "node2.nic0.in"});
  CHECK(way(fabric, 3, 29) ==
        Way{"node3.nic0.out", "group0.router1.out", "group0.out", "group2.in", "group2.router4.in", "node29.nic0.in"});
  CHECK(fabric.link(fabric.route(0, 2).links[1]).bandwidth.value() == Approx(4 * kTrunk));
  CHECK(fabric.link(fabric.route(3, 29).links[2]).bandwidth.value() == Approx(3 * kTrunk));
  // Latencies are those of the shortest ways: one hop within a group, three between groups, and the last switch.
  CHECK(fabric.path(0, 2).latency.value() == Approx(2e-6 + 2 * 0.5e-6));
  CHECK(fabric.path(3, 29).latency.value() == Approx(2e-6 + 4 * 0.5e-6));
}

TEST_CASE("a hyperx that routes adaptively shares the links of a switch along a dimension") {
  // 5 x 2 switches of 2 nodes, two links between each two. Of 4 others along the first dimension half: 4 trunks; along the second there is
  // one other and nothing to go round by: both links.
  const Fabric fabric(cluster(20, 1, 1, "hyperx", {{"grid", {5, 2}}, {"nodes_per_switch", {2}}, {"width", {2}}, {"adaptive", {1}}}));
  CHECK(way(fabric, 0, 1) == Way{"node0.nic0.out", "node1.nic0.in"});
  CHECK(way(fabric, 0, 19) ==
        Way{"node0.nic0.out", "switch0.dim0.out", "switch4.dim0.in", "switch4.dim1.out", "switch9.dim1.in", "node19.nic0.in"});
  CHECK(fabric.link(fabric.route(0, 19).links[1]).bandwidth.value() == Approx(4 * kTrunk));
  CHECK(fabric.link(fabric.route(0, 19).links[4]).bandwidth.value() == Approx(2 * kTrunk));
  CHECK(fabric.path(0, 19).latency.value() == Approx(2e-6 + 3 * 0.5e-6));  // as by the shortest way
  // Both nodes of a switch to those of another: 2 trunks and one of them each by the shortest way, 4 with detours.
  const auto left_of = [](std::int64_t adaptive) {
    const Fabric of(cluster(20, 1, 1, "hyperx", {{"grid", {5, 2}}, {"nodes_per_switch", {2}}, {"width", {2}}, {"adaptive", {adaptive}}}));
    Traffic both(of);
    both.send(0, 2), both.send(1, 3);
    return both.slowest().bandwidth.value();
  };
  CHECK(left_of(0) == Approx(kTrunk));
  CHECK(left_of(1) == Approx(2 * kTrunk));
}

TEST_CASE("a fat tree that routes adaptively takes whatever link up is free") {
  // 4 nodes a leaf and 2:1. Nodes 0 and 1 to 4 and 6, whose links up are both link 0: by the receiver they share one, adaptively each has
  // one of the two.
  const auto left_of = [](std::int64_t adaptive) {
    const Fabric fabric(
        cluster(8, 1, 1, "fat-tree", {{"arity", {4}}, {"levels", {2}}, {"oversubscription", {2}}, {"adaptive", {adaptive}}}));
    Traffic two(fabric);
    two.send(0, 4), two.send(1, 6);
    return two.slowest().bandwidth.value();
  };
  CHECK(left_of(0) == Approx(kTrunk / 2));
  CHECK(left_of(1) == Approx(kTrunk));
  const Fabric fabric(cluster(8, 1, 1, "fat-tree", {{"arity", {2}}, {"levels", {3}}, {"adaptive", {1}}}));
  CHECK(way(fabric, 1, 6) ==
        Way{"node1.nic0.out", "level1.switch0.up0", "level2.switch0.up0", "level2.switch1.down0", "level1.switch3.down0", "node6.nic0.in"});
  CHECK(fabric.link(fabric.route(1, 6).links[2]).bandwidth.value() == Approx(4 * kTrunk));
  CHECK(fabric.path(1, 6).latency.value() == Approx(2e-6 + 5 * 0.5e-6));
  CHECK(fabric.link_count() == 8 * 4 + 4 * 2 + 2 * 2);
}

TEST_CASE("on rails cards of one place meet at a leaf switch, and others over the spine") {
  // 8 nodes of 4 devices and 2 cards, 4 nodes a leaf: device 0 and 1 send over card 0. Two links up of a leaf.
  const Fabric fabric(cluster(8, 4, 2, "rails", {{"nodes_per_leaf", {4}}, {"groups", {2}}, {"oversubscription", {2}}}));
  CHECK(way(fabric, 0, 4) == Way{"node0.nic0.out", "node1.nic0.in"});
  CHECK(way(fabric, 0, 5) == Way{"node0.nic0.out", "node1.nic0.in"});
  CHECK(way(fabric, 0, 6) == Way{"node0.nic0.out", "group0.rail0.up1", "group0.rail1.down1", "node1.nic1.in"});
  CHECK(way(fabric, 3, 4 * 6 + 2) == Way{"node0.nic1.out", "group0.rail1.up0", "group1.rail1.down0", "node6.nic1.in"});
  CHECK(fabric.path(0, 4).latency.value() == Approx(2e-6 + 0.5e-6));
  CHECK(fabric.path(0, 6).latency.value() == Approx(2e-6 + 3 * 0.5e-6));
  // 32 x 2 of devices, 8 x 2 x 2 of cards, of 4 leaves 2 links each way.
  CHECK(fabric.link_count() == 64 + 32 + 4 * 4);
  // Every node to the next, device by device: with as many links up as nodes only the way into the other group leaves a leaf.
  Traffic around(fabric);
  for (int device = 0; device < 32; ++device) around.send(device, (device + 4) % 32);
  CHECK(around.slowest().bandwidth.value() == Approx(kTrunk / 2));  // two devices of a card

  const Fabric adaptive(
      cluster(8, 4, 2, "rails", {{"nodes_per_leaf", {4}}, {"groups", {2}}, {"oversubscription", {2}}, {"adaptive", {1}}}));
  CHECK(way(adaptive, 0, 6) == Way{"node0.nic0.out", "group0.rail0.up0", "group0.rail1.down0", "node1.nic1.in"});
  CHECK(adaptive.link(adaptive.route(0, 6).links[1]).bandwidth.value() == Approx(2 * kTrunk));
}

TEST_CASE("rails without a spine are reached from inside the sending node") {
  const Fabric fabric(cluster(4, 4, 2, "rails", {{"nodes_per_leaf", {8}}, {"spine", {0}}}));
  CHECK(way(fabric, 0, 5) == Way{"node0.nic0.out", "node1.nic0.in"});
  // Card 1 is that of devices 2 and 3: the first of them forwards.
  CHECK(way(fabric, 0, 7) == Way{"node0.device0.out", "node0.device2.in", "node0.nic1.out", "node1.nic1.in"});
  CHECK(way(fabric, 3, 4) == Way{"node0.device3.out", "node0.device0.in", "node0.nic0.out", "node1.nic0.in"});
  CHECK(fabric.path(0, 7).latency.value() == Approx(fabric.path(0, 2).latency.value() + fabric.path(0, 5).latency.value()));
  CHECK_THROWS_WITH(Fabric(cluster(4, 4, 2, "rails", {{"nodes_per_leaf", {2}}, {"groups", {2}}, {"spine", {0}}})),
                    contains("topology.groups") && contains("spine"));
  auto mixed = cluster(4, 4, 2, "rails", {{"nodes_per_leaf", {8}}, {"spine", {0}}});
  mixed.nodes.push_back(mixed.nodes[0]);
  mixed.nodes[1].nic.count = 1;
  CHECK_THROWS_WITH(Fabric(mixed), contains("as many in every node") && contains("with 1 and with 2"));
}

TEST_CASE("a hyperx changes one coordinate a hop") {
  // 3 x 2 switches of 2 nodes: node 11 is at switch 5, which is (2, 1).
  const Fabric fabric(cluster(12, 1, 1, "hyperx", {{"grid", {3, 2}}, {"nodes_per_switch", {2}}, {"width", {4}}}));
  CHECK(way(fabric, 0, 1) == Way{"node0.nic0.out", "node1.nic0.in"});
  CHECK(way(fabric, 0, 11) == Way{"node0.nic0.out", "switch0.dim0.to2", "switch2.dim1.to1", "node11.nic0.in"});
  CHECK(way(fabric, 11, 2) == Way{"node11.nic0.out", "switch5.dim0.to1", "switch4.dim1.to0", "node2.nic0.in"});
  CHECK(fabric.path(0, 11).latency.value() == Approx(2e-6 + 3 * 0.5e-6));  // two cards, three switches
  CHECK(fabric.link(fabric.route(0, 11).links[1]).bandwidth.value() == Approx(4 * kTrunk));
  // 12 x 2 of devices, as many of cards, and from each of 6 switches 3 + 2 ways, of which two lead back to itself.
  CHECK(fabric.link_count() == 12 * (2 + 2) + 6 * 5);
  // A full mesh is one dimension: a link for every two switches, whatever others send.
  const Fabric mesh(cluster(5, 1, 1, "hyperx", {{"grid", {5}}, {"nodes_per_switch", {1}}}));
  std::set<std::uint32_t> used;
  for (int a = 0; a < 5; ++a)
    for (int b = 0; b < 5; ++b)
      if (a != b) used.insert(mesh.route(a, b).links.at(1));
  CHECK(used.size() == 20);
}

TEST_CASE("a dragonfly may have more groups than routers in a group") {
  // 40 groups of 4 routers: every pair of the 160 nodes has a way of at most three hops.
  const Fabric fabric(cluster(160, 1, 1, "dragonfly", {{"groups", {40}}, {"routers", {4}}, {"nodes_per_router", {1}}}));
  for (int a = 0; a < 160; ++a)
    for (int b = 0; b < 160; ++b)
      if (a != b && fabric.route(a, b).links.size() > 5) FAIL("too long from " << a << " to " << b);
}

TEST_CASE("cables of a tree have one way, with their own figures") {
  // node0 - left - root - right - node2, node1 at left, node3 at right.
  const Fabric fabric(tree(4, 1,
                           {cable("node0", "left", 5e9, 1e-6), cable("left", "node1", 5e9, 1e-6), cable("left", "root", 3e9, 2e-6),
                            cable("right", "root", 4e9, 2e-6), cable("node2", "right", 5e9, 1e-6), cable("node3", "right", 5e9, 1e-6)}));
  CHECK(way(fabric, 0, 1) == Way{"node0.nic0.out", "cable0.node0.to.left", "cable1.left.to.node1", "node1.nic0.in"});
  CHECK(way(fabric, 1, 2) == Way{"node1.nic0.out", "cable1.node1.to.left", "cable2.left.to.root", "cable3.root.to.right",
                                 "cable4.right.to.node2", "node2.nic0.in"});
  CHECK(fabric.path(1, 2).bandwidth.value() == 3e9);
  CHECK(fabric.path(1, 2).latency.value() == Approx(2e-6 + 1e-6 + 2e-6 + 2e-6 + 1e-6));  // two cards, four cables
}

TEST_CASE("every route is connected, named and as long as its links say") {
  const auto platform = cluster(48, 3, 2, "fat-tree", {{"arity", {4}}, {"levels", {3}}, {"oversubscription", {2}}});
  const Fabric fabric(platform);
  std::set<std::string> names;
  for (std::uint32_t i = 0; i < fabric.link_count(); ++i) names.insert(fabric.link_name(i));
  CHECK(names.size() == fabric.link_count());
  for (int a = 0; a < device_count(platform); a += 5)
    for (int b = 0; b < device_count(platform); b += 7) {
      const auto route = fabric.route(a, b);
      Seconds sum;
      for (const auto link : route.links) sum += fabric.link(link).latency;
      CHECK(sum == route.latency);
      CHECK(route.links.empty() == (a == b));
      CHECK(route.links.size() == fabric.route(b, a).links.size());
    }
}

TEST_CASE("groups of different nodes reach each other") {
  auto platform = cluster(2, 4, 1, "switch", {{"ports", {3}}});
  platform.nodes.push_back(group(1, 2, 2));
  const Fabric fabric(platform);
  CHECK(device_count(platform) == 10);
  CHECK(way(fabric, 5, 9) == Way{"node1.nic0.out", "node2.nic1.in"});
  CHECK(way(fabric, 8, 9) == Way{"node2.device0.out", "node2.device1.in"});
}

TEST_CASE("16384 devices are routed without tables") {
  const auto platform = with_devices(load("dgx-a100", {}), 16384);
  CHECK(node_count(platform) == 2048);
  const double start = cpu_seconds();
  const Fabric fabric(platform);
  Route route;
  std::size_t crossed = 0;
  const int routes = 200'000;
  for (int i = 0; i < routes; ++i) {
    const auto pick = random_bits(7, 0, static_cast<std::uint64_t>(i));
    fabric.route(static_cast<int>(pick % 16384), static_cast<int>((pick >> 20) % 16384), route);
    crossed += route.links.size();
  }
  const double seconds = cpu_seconds() - start;
  CHECK(crossed > 2u * routes);
  CHECK(seconds < 10);  // takes about 0.05 s; the limit only catches a table of all pairs
}

TEST_CASE("a platform that contradicts itself has no fabric") {
  auto without_card = cluster(2, 1, 0, "switch", {{"ports", {2}}});
  CHECK_THROWS_WITH(Fabric(without_card), contains("nodes[0].nic"));
  CHECK_THROWS_WITH(Fabric(cluster(9, 1, 1, "torus", {{"dims", {2, 4}}})), contains("9 nodes do not fit") && contains("holds 8"));
  CHECK_THROWS_WITH(Fabric(cluster(1, 1, 1, "switch", {})), contains("topology.ports"));
  CHECK_THROWS_WITH(Fabric(cluster(1, 1, 1, "switch", {{"ports", {2}}, {"arity", {2}}})), contains("topology.arity"));
  CHECK_THROWS_WITH(Fabric(cluster(1, 1, 1, "mesh", {})), contains("topology.kind") && contains("fat-tree"));
  CHECK_THROWS_WITH(Fabric(cluster(1, 1, 1, "torus", {{"dims", {60000, 60000}}})), contains("topology.dims"));
  CHECK_THROWS_WITH(Fabric(cluster(13, 1, 1, "hyperx", {{"grid", {3, 2}}, {"nodes_per_switch", {2}}})), contains("holds 12"));
  CHECK_THROWS_WITH(Fabric(cluster(1, 1, 1, "hyperx", {{"nodes_per_switch", {2}}})), contains("topology.grid"));
  CHECK_THROWS_WITH(Fabric(cluster(1, 1, 1, "dragonfly", {{"groups", {65536}}, {"routers", {4096}}, {"nodes_per_router", {1}}})),
                    contains("4 billion links"));

  auto split = cluster(1, 3, 0, "single", {});
  split.nodes[0].intra.kind = IntraKind::NvlinkMesh;
  split.nodes[0].intra.wires = {{0, 1, 1}};
  CHECK_THROWS_WITH(Fabric(split), contains("nodes[0].intra.wires") && contains("device 2 cannot be reached"));
  split.nodes[0].intra.wires = {{0, 1, 1}, {1, 3, 1}};
  CHECK_THROWS_WITH(Fabric(split), contains("wires[1]") && contains("from 0 to 2"));
}

TEST_CASE("cables must form one tree") {
  CHECK_THROWS_WITH(Fabric(tree(2, 1, {cable("node0", "a", 1e9, 0), cable("node1", "b", 1e9, 0)})),
                    contains("\"node1\" cannot be reached"));
  CHECK_THROWS_WITH(
      Fabric(
          tree(2, 1, {cable("node0", "a", 1e9, 0), cable("a", "b", 1e9, 0), cable("b", "node1", 1e9, 0), cable("node1", "node0", 1e9, 0)})),
      contains("closes the cycle") && contains("node1") && contains("a - "));
  CHECK_THROWS_WITH(Fabric(tree(2, 1, {cable("node0", "node1", 1e9, 0), cable("node1", "node0", 1e9, 0)})), contains("closes the cycle"));
  CHECK_THROWS_WITH(Fabric(tree(1, 1, {cable("node0", "node0", 1e9, 0)})), contains("both ends"));
  CHECK_THROWS_WITH(Fabric(tree(2, 1, {cable("node0", "a", 1e9, 0), cable("a", "node2", 1e9, 0)})), contains("\"node1\" has no cable"));
  CHECK_THROWS_WITH(Fabric(tree(3, 1, {cable("node0", "node1", 1e9, 0)})), contains("3 nodes do not fit"));
}
