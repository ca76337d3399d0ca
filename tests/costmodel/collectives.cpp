#include "costmodel/collective_library.hpp"
#include "platforms/catalog.hpp"
#include "tests/catch.hpp"

namespace rehearsal::costmodel {
namespace {

Constants constants() {
  Constants c = published_constants().values;
  c.set(Coefficient::LinkNvlink, 0.95);
  c.set(Coefficient::LinkInfiniband, 0.8);
  c.set(Coefficient::CollectiveMemoryPasses, 2.4);
  c.set(Coefficient::CollectiveLaunch, 30);
  c.set(Coefficient::CollectiveStep, 2.9);
  c.set(Coefficient::CollectiveNodeStep, 50);
  c.set(Coefficient::Congestion, 0.03);
  return c;
}

TEST_CASE("an all-reduce inside a switched node: links, pass over memory, latency") {
  const CollectiveLibrary network(platforms::load("dgx-a100"));
  // 1e9 bytes on 8 devices: 2*7/8*1e9/(300e9*0.95) = 6.140 ms; 2.4*1e9/2.039e12 = 1.177 ms; (30 + 2*7*2.9)*1.5 us = 0.106 ms above 8 MB.
  const double expected = 2 * 7 / 8.0 * 1e9 / (300e9 * 0.95) + 2.4e9 / 2.039e12 + (30 + 14 * 2.9) * 1.5e-6;
  CHECK(network.seconds(CollectiveKind::AllReduce, 1e9, {8, 0}, constants()) == Approx(expected));
  // A gather moves half and reads half; below 8 MB the latency is 30 + 7*2.9 us.
  const double gather = 7 / 8.0 * 4e6 / (300e9 * 0.95) + 1.2 * 4e6 / 2.039e12 + (30 + 7 * 2.9) * 1e-6;
  CHECK(network.seconds(CollectiveKind::AllGather, 4e6, {8, 0}, constants()) == Approx(gather));
  CHECK(network.seconds(CollectiveKind::AllReduce, 1e9, {1, 0}, constants()) == 0);
}

TEST_CASE("between nodes the slower level counts whole and the faster a quarter") {
  const CollectiveLibrary network(platforms::load("dgx-a100"));
  // 4 nodes of 8: a tree sends 2*3/4 of the buffer through 8 cards of 25 GB/s at 0.8, 3 % slower per doubling.
  const double inside = 2 * 7 / 8.0 * 1e9 / (300e9 * 0.95), between = 2 * 0.75 * 1e9 / (8 * 25e9 * 0.8) * (1 + 0.03 * 2);
  const double wait = ((30 + 14 * 2.9) * 1.5 + 2 * 2 * 50) * 1e-6;
  CHECK(network.seconds(CollectiveKind::AllReduce, 1e9, {32, 8}, constants()) == Approx(between + inside / 4 + 2.4e9 / 2.039e12 + wait));
}

TEST_CASE("a send between nodes uses the device's share of the cards") {
  const CollectiveLibrary network(platforms::load("dgx-a100"));
  CHECK(network.send(2e7, true, constants()) == Approx(2e7 / (25e9 * 0.8) + 50e-6));
  CHECK(network.send(2e7, false, constants()) == Approx(2e7 / (300e9 * 0.95) + 2.9e-6));
}

TEST_CASE("cards that send through the host lose more of their bandwidth and wait longer, below 8 GB/s a node") {
  auto platform = platforms::load("dgx-a100");
  auto& nic = platform.nodes.front().nic;
  nic.count = 1;
  nic.bandwidth = BytesPerSecond(5e9);
  auto c = constants();
  c.set(Coefficient::LinkEthernet, 0.5);
  const auto pair = [&] { return CollectiveLibrary(platform).seconds(CollectiveKind::AllReduce, 1e8, {2, 1}, c); };
  // Between two nodes: 2*1/2 of the buffer through an eighth of the card; 3 % more for the doubling; twice 50 us a step, thrice as much.
  const double share = 5e9 / 8, passes = 2.4 * 1e8 / 2.039e12;
  const double rdma = 1e8 / (share * 0.8) * 1.03, ethernet = 1e8 / (share * 0.5) * 1.03;
  const double least = pair() - rdma - passes;  // of latency
  nic.kind = platforms::NicKind::Ethernet;
  CHECK(pair() == Approx(ethernet + passes + least + 2 * 50e-6 * 2));
  nic.bandwidth = BytesPerSecond(8e9);  // as fast as cards that need no host
  const double fast = pair();
  nic.kind = platforms::NicKind::Rdma;
  CHECK(pair() == fast);
}

}  // namespace
}  // namespace rehearsal::costmodel
