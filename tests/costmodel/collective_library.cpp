#include "costmodel/collective_library.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "costmodel/embedded_constants.hpp"
#include "costmodel/wire_rings.hpp"
#include "platforms/catalog.hpp"
#include "tests/catch.hpp"

namespace rehearsal::costmodel {
namespace {

using Kind = CollectiveKind;

LibraryTime ask(const std::string& platform, Kind kind, double bytes, Group group, LibraryRelease release = kNewestRelease) {
  return CollectiveLibrary(platforms::load(platform)).library(kind, bytes, group, published_constants().values, release);
}

const ProtocolRow& row_of(std::string_view algorithm, std::string_view protocol, LinkFamily links = LinkFamily::Nvlink) {
  return *std::ranges::find_if(collective_table().rows, [&](const ProtocolRow& r) {
    return r.algorithm == algorithm && r.protocol == protocol && r.links == links;
  });
}

const FabricRow& nvlink(std::string_view generation) { return collective_table().fabric(LinkFamily::Nvlink, generation); }

TEST_CASE("as many rings as cycles through all devices that share no wire, one either way") {
  // The hybrid cube mesh of a DGX-1. Two devices share one wire. Of 0..3 every one has four wires: two cycles. The fifth hangs on one
  // other: none closes. Of 0..5 devices 4 and 5 share one wire, which every cycle needs: one. All eight have six wires: three cycles.
  const auto cube = platforms::load("dgx1-v100").nodes.front().intra;
  const int expected[] = {1, 2, 4, 0, 2, 4, 6};
  for (int ranks = 2; ranks <= 8; ++ranks) CHECK(ring_count(cube, ranks) == expected[ranks - 2]);
  // All joined to all. Seven wires of a device: three cycles take six of them. Four devices, six wires to each other: 18 of a device.
  CHECK(ring_count(platforms::load("mi300x-8x").nodes.front().intra, 8) == 6);
  CHECK(ring_count(platforms::load("alps-gh200").nodes.front().intra, 4) == 18);
  CHECK(ring_count(platforms::load("alps-gh200").nodes.front().intra, 2) == 6);
}

TEST_CASE("of more devices than are searched as many rings as the device with the fewest wires to them has") {
  // A ring of 19, of which the first 18 take part: the first one has lost its wire to the last, another has two to its neighbour.
  platforms::IntraLink ring;
  for (int a = 0; a < 19; ++a) ring.wires.push_back({a, (a + 1) % 19, a == 16 ? 2 : 1});
  CHECK(ring_count(ring, 18) == 1);
  CHECK(ring_count(ring, 19) == 2);
}

TEST_CASE("large all-reduces of eight devices are added in the switch, small ones go round the ring") {
  const auto& fabric = nvlink("hopper");
  // NVLS: 9/8 of the vector passes a port of 450 GB/s; what the port carries in ramp_time is slower.
  const auto& nvls = row_of("nvls", "Simple");
  const double rate = 450e9 * fabric.nvls, filled = nvls.ramp_time * 1e-6 * rate;
  const double large = (fabric.start + nvls.start) * 1e-6 + 9 / 8.0 * 1e9 / rate * (1 + nvls.ramp * filled / (1e9 + filled));
  const auto at_1gb = ask("dgx-h100", Kind::AllReduce, 1e9, {8, 0});
  CHECK(at_1gb.algorithm == "nvls");
  CHECK(at_1gb.seconds == Approx(large));
  // A ring in LL: 2*7 hops, and (2*7 + turn)/8 of the vector over the ring's share of the port.
  const auto& ll = row_of("ring", "LL");
  const double small = (fabric.start + 14 * fabric.hop) * 1e-6 + (14 + fabric.turn) / 8 * 4096 / (450e9 * fabric.share * ll.share);
  const auto at_4kb = ask("dgx-h100", Kind::AllReduce, 4096, {8, 0});
  CHECK(at_4kb.algorithm == "ring");
  CHECK(at_4kb.protocol == "LL");
  CHECK(at_4kb.seconds == Approx(small));
  CHECK(ask("dgx-h100", Kind::AllReduce, 1e6, {8, 0}).protocol == "LL128");
  CHECK(ask("dgx-h100", Kind::AllReduce, 1e9, {1, 0}).seconds == 0);
}

TEST_CASE("the library has what its release, the devices and their number allow") {
  CHECK(ask("dgx-h100", Kind::AllReduce, 1e9, {4, 0}).algorithm == "ring");            // four: the ring, measured
  CHECK(ask("dgx-h100", Kind::AllReduce, 1e9, {8, 0}, {2, 16}).algorithm == "ring");   // NVLS came with 2.17
  CHECK(ask("dgx-a100", Kind::AllReduce, 1e9, {8, 0}).algorithm == "ring");            // a switch that cannot add
  CHECK(ask("dgx-h100", Kind::AllGather, 1e9, {8, 0}).algorithm == "ring");            // nothing to add
  CHECK(ask("dgx-a100", Kind::AllReduce, 1e6, {8, 0}, {2, 12}).protocol == "Simple");  // vTrain's tables: no LL128
  CHECK(ask("gb200-nvl72", Kind::AllReduce, 1e9, {72, 0}).algorithm == "nvls");        // one domain of 18 trays
  CHECK(ask("gb200-nvl72", Kind::AllReduce, 1e9, {144, 0}).algorithm == "nvls-tree");  // two racks
  CHECK(ask("dgx-a100", Kind::AllReduce, 1e3, {512, 8}).algorithm == "tree");          // 64 nodes: 12 steps for 126
  CHECK(ask("dgx-a100", Kind::AllGather, 1e5, {64, 1}).algorithm == "pat");            // log2 64 steps for 63
  CHECK(ask("dgx-a100", Kind::AllGather, 1e5, {64, 1}, {2, 22}).algorithm == "ring");  // PAT came with 2.23
  CHECK(ask("dgx-a100", Kind::AllToAll, 1e6, {8, 0}).algorithm == "pairs");
}

TEST_CASE("the library's choice is the least of what it offers, and what it does not offer has a reason") {
  const auto& c = published_constants().values;
  for (const char* platform : {"dgx-h100", "dgx-a100", "dgx1-v100", "l40s-4x", "mi300x-8x", "gb200-nvl72"}) {
    const CollectiveLibrary library(platforms::load(platform));
    for (const auto kind : {Kind::AllReduce, Kind::AllGather, Kind::AllToAll, Kind::Broadcast})
      for (const Group group : {Group{2, 0}, Group{5, 0}, Group{16, 0}, Group{16, 1}})
        for (const double bytes : {1e3, 1e6, 1e9}) {
          INFO(platform << ", " << name(kind) << " of " << bytes << " B over " << group.ranks);
          const auto offers = library.offers(kind, bytes, group, c);
          const LibraryOffer* least = nullptr;
          for (const auto& offer : offers) {
            CHECK(reason_of(offer, kind).empty() == (offer.why_not == NotOffered::No));
            if (offer.why_not == NotOffered::No && (least == nullptr || offer.seconds < least->seconds)) least = &offer;
          }
          REQUIRE(least != nullptr);
          const auto chosen = library.library(kind, bytes, group, c);
          CHECK(chosen.seconds == least->seconds);
          CHECK(chosen.algorithm == least->row->algorithm);
          CHECK(chosen.protocol == least->row->protocol);
        }
  }
}

TEST_CASE("why the library does not take an algorithm") {
  const auto reason = [](const char* platform, std::string_view algorithm, Group group, LibraryRelease release = kNewestRelease,
                         Kind kind = Kind::AllReduce) {
    const auto offers = CollectiveLibrary(platforms::load(platform)).offers(kind, 1e6, group, published_constants().values, release);
    const auto of = std::ranges::find_if(offers, [&](const LibraryOffer& offer) { return offer.row->algorithm == algorithm; });
    return of == offers.end() ? "is not in the table" : reason_of(*of, kind);
  };
  CHECK(reason("dgx-h100", "nvls", {8, 0}).empty());
  CHECK(reason("dgx-h100", "nvls", {8, 0}, {2, 16}) == "taken from release 2.17");
  CHECK(reason("dgx-h100", "nvls", {4, 0}) == "fewer than 5 of the ranks are in a node");
  CHECK(reason("dgx-h100", "nvls", {16, 0}) == "the ranks are in several nodes");
  CHECK(reason("dgx-h100", "nvls-tree", {8, 0}) == "all ranks are in one node");
  CHECK(reason("dgx-h100", "nvls", {8, 0}, kNewestRelease, Kind::AllGather) == "does no all-gather");
  auto adding = platforms::load("dgx1-v100");  // whose five first wires close no ring
  adding.topology.parameters["adds"] = {1};
  for (const auto& offer : CollectiveLibrary(adding).offers(Kind::AllReduce, 1e6, {5, 0}, published_constants().values, kNewestRelease))
    if (offer.row->algorithm == "collnet") CHECK(reason_of(offer, Kind::AllReduce) == "all ranks are in one node");
  CHECK(reason("dgx-h100", "collnet", {16, 0}) == "the switches between nodes do not add (topology.adds)");
  CHECK(reason("dgx-h100", "pat", {16, 0}, kNewestRelease, Kind::AllGather) == "several ranks share a node");
  CHECK(reason("dgx-a100", "nvls", {8, 0}) == "the switch between the devices of a node does not add");
  CHECK(reason("mi300x-8x", "nvls", {8, 0}) == "no switch joins the devices of a node");
  CHECK(reason("l40s-4x", "nvls", {4, 0}) == "no NVLink or the like between the devices of a node");
  CHECK(reason("dgx1-v100", "ring", {5, 0}) == "the wires between these ranks close no ring");  // the fifth hangs on one other
}

TEST_CASE("an all-to-all: every rank with every other, and a knee where messages outgrow the first protocol") {
  const auto& fabric = nvlink("ampere");
  const auto& pairs = row_of("pairs", "Simple");
  const double each = 8e6 / 8, rate = 300e9 * fabric.share * pairs.share, filled = pairs.ramp_time * 1e-6 * rate;
  const double us = fabric.start + pairs.start + 7 * fabric.hop * pairs.hop + pairs.knee * each / (each + pairs.knee_bytes);
  const double expected = us * 1e-6 + 7 * each / rate * (1 + pairs.ramp * filled / (8e6 + filled));
  CHECK(ask("dgx-a100", Kind::AllToAll, 8e6, {8, 0}).seconds == Approx(expected));
}

TEST_CASE("a broadcast passes the whole vector through every port, once") {
  const auto& fabric = nvlink("ampere");
  const auto& simple = row_of("ring", "Simple");
  const double rate = 300e9 * fabric.share, filled = simple.ramp_time * 1e-6 * rate;
  const double wait = (fabric.start + simple.start + 7 * fabric.hop * simple.hop) * 1e-6;
  CHECK(ask("dgx-a100", Kind::Broadcast, 1e9, {8, 0}).seconds == Approx(wait + 1e9 / rate * (1 + simple.ramp * filled / (1e9 + filled))));
}

TEST_CASE("PCI Express: more than a pair leave their switch, and there is no LL128") {
  const auto& fabric = collective_table().fabric(LinkFamily::Pcie, "blackwell-gb20x");
  const auto& simple = row_of("ring", "Simple", LinkFamily::Pcie);
  const double port = platforms::load("l40s-4x").nodes.front().intra.bandwidth.value.value();
  const auto expected = [&](double hops, double n, double share) {
    return (fabric.start + simple.start + hops * fabric.hop * simple.hop) * 1e-6 + (hops + fabric.turn) / n * 1e9 / (port * share);
  };
  CHECK(ask("l40s-4x", Kind::AllReduce, 1e9, {2, 0}).seconds == Approx(expected(2, 2, fabric.share)));
  CHECK(ask("l40s-4x", Kind::AllReduce, 1e9, {4, 0}).seconds == Approx(expected(6, 4, fabric.share * fabric.beyond_pair)));
  for (const auto& row : collective_table().rows) CHECK((row.links != LinkFamily::Pcie || row.protocol != "LL128"));
}

TEST_CASE("between nodes: steps of the tree, and a node's cards share the vector") {
  const auto& cards = collective_table().cards;
  const auto& simple = row_of("tree", "Simple");
  const auto& fabric = nvlink("ampere");
  // Four nodes of four: 2*3 hops inside, 2*2 steps between; 2*3/4 of the vector through four cards of 25 GB/s, 3 % slower a doubling.
  auto c = published_constants().values;
  c.set(Coefficient::Congestion, 0.03);
  const auto platform = platforms::load("dgx-a100");
  const double wait = platform.nodes.front().nic.latency.value.value() * 1e6 / cards.usual_latency;
  const double us = fabric.start + simple.start + 6 * fabric.hop * simple.hop + 4 * simple.node_step * wait;
  const double wire = 300e9 * fabric.share, card = 4 * 25e9 * cards.share;
  const auto filled = [](double ramp, double time, double rate) { return 1 + ramp * time * 1e-6 * rate / (1e9 + time * 1e-6 * rate); };
  const double inside = (6 + fabric.turn) / 4 * 1e9 / wire * filled(simple.ramp, simple.ramp_time, wire);
  const double between = 2 * 0.75 * 1e9 / card * filled(cards.ramp, cards.ramp_time, card) * 1.06;
  const auto got = CollectiveLibrary(platform).library(Kind::AllReduce, 1e9, {16, 4}, c);
  CHECK(got.algorithm == "tree");
  CHECK(got.seconds == Approx(us * 1e-6 + between + cards.rest * inside));
}

namespace {

/// 64 nodes of eight H100 behind leaves of four.
platforms::Platform in_leaves(std::int64_t oversubscription, std::int64_t adds = 0) {
  auto platform = platforms::load("dgx-h100");
  platform.nodes.front().count = 64;
  platform.topology.parameters = {{"arity", {4}}, {"levels", {3}}, {"oversubscription", {oversubscription}}, {"adds", {adds}}};
  return platform;
}

}  // namespace

TEST_CASE("links up from leaves that are fewer than their cards slow down what crosses them") {
  auto c = published_constants().values;
  c.set(Coefficient::Congestion, 0);
  const double bytes = 4e9;
  const auto seconds = [&](std::int64_t oversubscription, Kind kind, Group group) {
    return CollectiveLibrary(in_leaves(oversubscription)).seconds(kind, bytes, group, c);
  };
  // Neighbours: of four nodes of a leaf one sends up, so that with half of the links up nothing is lost, with an eighth half of the rate.
  const Group far{64, 8}, near{32, 8};
  CHECK(seconds(4, Kind::ReduceScatter, far) == Approx(seconds(1, Kind::ReduceScatter, far)));
  CHECK(seconds(8, Kind::ReduceScatter, near) == seconds(1, Kind::ReduceScatter, near));  // in one leaf
  const double whole = seconds(1, Kind::ReduceScatter, far), half = seconds(8, Kind::ReduceScatter, far);
  CHECK(half > 1.5 * whole);
  CHECK(half < 2 * whole);
  // All with all: of eight nodes seven get something of each, four of them in the other leaf: 4/7 of the traffic at an eighth of the rate.
  const double inside = 56.0 / 64, rate = CollectiveLibrary(in_leaves(1)).card_rate(c);
  const double slower = inside * bytes / rate * (8 * 4.0 / 7 - 1);
  CHECK(seconds(8, Kind::AllToAll, far) - seconds(1, Kind::AllToAll, far) == Approx(slower));
  // Sends: all four nodes of a leaf at a time have an eighth each, one alone half; in one leaf nothing is lost.
  const CollectiveLibrary narrow(in_leaves(8));
  const double start = c[Coefficient::CollectiveNodeStep] * 1e-6, card = bytes / rate;
  CHECK(narrow.send(bytes, true, c, {4, 8}) == Approx(8 * card + start));
  CHECK(narrow.send(bytes, true, c, {16, 64}) == Approx(8 * card + start));
  CHECK(narrow.send(bytes, true, c, {1, 8}) == Approx(2 * card + start));
  CHECK(narrow.send(bytes, true, c, {4, 4}) == Approx(card + start));
}

TEST_CASE("whatever joins the nodes, the fullest link between them sets the pace of cards that send at a time") {
  // 64 nodes of eight H100 at switches of four, every two joined by two cables that are as quick as a card.
  auto platform = platforms::load("dgx-h100");
  platform.nodes.front().count = 64;
  platform.topology.kind = "hyperx";
  platform.topology.parameters = {{"grid", {16}}, {"nodes_per_switch", {4}}, {"width", {2}}};
  const auto card = platform.nodes.front().nic.bandwidth.value.value();
  const NetworkShares mesh(platform, std::vector<std::size_t>{0}, card);
  CHECK(mesh.neighbours({4}) == 1);                        // one switch
  CHECK(mesh.neighbours({64}) == Approx(2.0 / 8));         // the last node of a switch sends with eight cards
  CHECK(mesh.pairs({64}) == Approx(2 * 63 / (4.0 * 32)));  // of 32 cards a 63rd to each of four nodes of another switch
  CHECK(mesh.sends({4, 64}) == Approx(2.0 / 32));
  CHECK(mesh.sends({1, 64}) == Approx(2.0 / 8));
  CHECK(mesh.neighbours({1000}) == mesh.neighbours({64}));  // there are no more nodes

  // Two groups of eight switches, joined by four cables; inside a group every two switches by one.
  platform.topology.kind = "dragonfly";
  platform.topology.parameters = {{"groups", {2}}, {"routers", {8}}, {"nodes_per_router", {4}}, {"global_width", {4}}};
  const NetworkShares dragonfly(platform, std::vector<std::size_t>{0}, card);
  CHECK(dragonfly.neighbours({32}) == Approx(1.0 / 8));
  CHECK(dragonfly.sends({32, 64}) == Approx(4.0 / 256));  // a whole group to the other one

  // A switch that is never full.
  platform.topology.kind = "switch";
  platform.topology.parameters = {{"ports", {64}}};
  const NetworkShares full(platform, std::vector<std::size_t>{0}, card);
  for (const int nodes : {1, 2, 64}) CHECK(full.pairs({nodes}) == 1);
}

TEST_CASE("other jobs' traffic narrows links up from leaves, and the links of a torus") {
  const auto& c = published_constants().values;
  // Leaves of four with all their links up, each half taken: a message that crosses has half a link, however many go at a time.
  auto busy = in_leaves(1);
  busy.topology.parameters["background"] = {50};
  const CollectiveLibrary shared(busy), alone(in_leaves(1));
  const double card = 4e9 / alone.card_rate(c), start = c[Coefficient::CollectiveNodeStep] * 1e-6;
  CHECK(shared.send(4e9, true, c, {4, 8}) == Approx(2 * card + start));
  CHECK(shared.send(4e9, true, c, {1, 8}) == Approx(2 * card + start));
  CHECK(shared.send(4e9, true, c, {4, 4}) == Approx(card + start));  // in one leaf
  CHECK(shared.seconds(Kind::AllReduce, 4e9, {64, 8}, c) > 1.5 * alone.seconds(Kind::AllReduce, 4e9, {64, 8}, c));
  CHECK(shared.seconds(Kind::AllReduce, 4e9, {32, 8}, c) == alone.seconds(Kind::AllReduce, 4e9, {32, 8}, c));
  auto torus = platforms::load("tpu-v4-pod");
  REQUIRE(torus.topology.kind == "torus");
  const double whole = CollectiveLibrary(torus).send(4e9, true, c) - start;
  torus.topology.parameters["background"] = {20};
  CHECK(0.8 * (CollectiveLibrary(torus).send(4e9, true, c) - start) == Approx(whole));
}

TEST_CASE("groups whose nodes are apart share the links between these with the groups that lie between") {
  // Chips of a torus, each with a card that is its six links of 50 GB/s.
  auto pod = platforms::load("tpu-v4-pod");
  const auto card = pod.nodes.front().nic.bandwidth.value.value();
  const auto shares = [&](std::vector<std::int64_t> dims) {
    pod.topology.parameters["dims"] = std::move(dims);
    return NetworkShares(pod, std::vector<std::size_t>{0}, card);
  };
  const auto rows = shares({16, 16, 16}), cube = shares({4, 4, 4});
  CHECK(rows.neighbours({64}) == 1);                  // all six links, and nobody else's message on them
  CHECK(rows.neighbours({8, 8}) == Approx(1.0 / 8));  // half round a row: over each link go the messages of eight chips
  CHECK(rows.neighbours({16, 4}) == Approx(1.0 / 4));
  CHECK(cube.neighbours({16, 4}) == 1);               // one row to the next
  CHECK(cube.neighbours({8, 8}) == Approx(1.0 / 2));  // two rows, and the row between sends the same way
  CHECK(cube.neighbours({8, 1000}) == cube.neighbours({8, 8}));
  // A message by itself goes one way, over one link of six.
  CHECK(rows.shifts({64}) == Approx(1.0 / 6));
  CHECK(rows.shifts({8, 8}) == Approx(1.0 / 48));
  CHECK(rows.sends({1, 64}) == Approx(1.0 / 6));
  CHECK(rows.sends({8, 64}) == Approx(1.0 / 48));
  // Four of a row, each of which sends a third to every other one: over the link from the second to the third go 1 -> 2, 0 -> 2, 1 -> 3 and
  // 0 -> 3, as many thirds of a message as a link of 50 GB/s has.
  CHECK(rows.pairs({4}) == Approx(50.0 / (4.0 / 3) / 300));
  CHECK(rows.pairs({4, 2}) == Approx(50.0 / (8.0 / 3) / 300));
  // Leaves of four nodes with an eighth of their links up: all 32 cards of a leaf send up where groups are four nodes apart.
  const auto leaves = in_leaves(8);
  const NetworkShares up(leaves, std::vector<std::size_t>{0}, leaves.nodes.front().nic.bandwidth.value.value());
  CHECK(up.neighbours({64}) == Approx(1.0 / 2));
  CHECK(up.neighbours({16, 4}) == Approx(1.0 / 8));
  const auto& c = published_constants().values;
  const CollectiveLibrary library(leaves);
  CHECK(library.seconds(Kind::AllGather, 4e9, {16, 1, 4}, c) > 3 * library.seconds(Kind::AllGather, 4e9, {16, 1}, c));
  CHECK(library.shift_rate({16, 1, 4}, c) == Approx(library.card_rate(c) / 8));
}

TEST_CASE("switches that add halve what passes the cards, and are asked for sums alone") {
  auto c = published_constants().values;
  c.set(Coefficient::Congestion, 0);
  const CollectiveLibrary plain(in_leaves(1)), adding(in_leaves(1, 1));
  const Group group{512, 8};
  const auto sum = adding.library(Kind::AllReduce, 4e9, group, c);
  CHECK(sum.algorithm == "nvls-collnet");
  CHECK(plain.library(Kind::AllReduce, 4e9, group, c).algorithm == "nvls-tree");
  CHECK(sum.seconds < plain.library(Kind::AllReduce, 4e9, group, c).seconds);
  CHECK(adding.library(Kind::AllReduce, 4e9, group, c, {2, 16}).algorithm == "collnet");
  CHECK(adding.library(Kind::AllReduce, 4e9, group, c, {2, 5}).algorithm != "collnet");
  for (const Kind kind : {Kind::AllGather, Kind::ReduceScatter, Kind::AllToAll})
    CHECK(adding.library(kind, 4e9, group, c).seconds == plain.library(kind, 4e9, group, c).seconds);
  CHECK(adding.library(Kind::AllReduce, 4e9, {8, 8}, c).seconds == plain.library(Kind::AllReduce, 4e9, {8, 8}, c).seconds);

  // One rank a node, 64 nodes of A100: 2 · 63/64 of the vector through a card becomes 1, and 2 log2 64 steps become 2.
  auto ampere = platforms::load("dgx-a100");
  ampere.nodes.front().count = 64;
  const double before = CollectiveLibrary(ampere).seconds(Kind::AllReduce, 4e9, {64, 1}, c);
  ampere.topology.parameters["adds"] = {1};
  const CollectiveLibrary added(ampere);
  const double saved_bytes = (2 * 63.0 / 64 - 1) * 4e9 / added.card_rate(c),
               saved_steps = (12 - 2) * c[Coefficient::CollectiveNodeStep] * 1e-6;
  const auto& nic = ampere.nodes.front().nic;
  CHECK(nic.kind == platforms::NicKind::Rdma);
  CHECK(before - added.seconds(Kind::AllReduce, 4e9, {64, 1}, c) == Approx(saved_bytes + saved_steps));
}

struct Measured {
  const char* platform;
  Kind kind;
  int ranks, per_node;
  double bytes, us;
};

TEST_CASE("published times that no number was fitted to") {
  // aiconfigurator-core 0.12.0, NCCL 2.29.2 (GB300, H200), 2.23 (GB200): devices that scripts/fit-collectives holds out, half precision.
  const Measured rows[] = {
      {"gb200-nvl72", Kind::AllReduce, 4, 0, 512, 15.9},      {"gb200-nvl72", Kind::AllReduce, 4, 0, 536870912, 1271.8},
      {"gb300-nvl72", Kind::AllGather, 4, 0, 512, 11.2},      {"gb300-nvl72", Kind::AllGather, 4, 0, 536870912, 704.3},
      {"dgx-h200", Kind::AllReduce, 8, 0, 512, 16.0},         {"dgx-h200", Kind::AllReduce, 8, 0, 67108864, 319.6},
      {"dgx-h200", Kind::AllReduce, 8, 0, 536870912, 2040.3}, {"dgx-h200", Kind::ReduceScatter, 8, 0, 536870912, 1393.3},
      {"dgx-h200", Kind::AllToAll, 8, 0, 536870912, 1509.9}};
  for (const auto& m : rows) {
    INFO(m.platform << " " << name(m.kind) << " " << m.bytes);
    CHECK(ask(m.platform, m.kind, m.bytes, {m.ranks, m.per_node}).seconds * 1e6 == Approx(m.us).epsilon(0.12));
  }
}

TEST_CASE("nodes of four GH200 on Slingshot, nodes of eight A100 on RoCE, five and six of the eight V100 of a DGX-1") {
  // HPE, HPC AI Environments: nccl-tests, NCCL 2.20.5, two nodes (the cards' numbers are of this table). Oracle: two BM.GPU4.8.
  const Measured nodes[] = {{"alps-gh200", Kind::AllReduce, 8, 4, 4194304, 177.1},
                            {"alps-gh200", Kind::AllReduce, 8, 4, 67108864, 1074.3},
                            {"alps-gh200", Kind::AllReduce, 8, 4, 1073741824, 12174},
                            {"alps-gh200", Kind::AllReduce, 8, 4, 8589934592, 94752},
                            {"oci-a100-roce", Kind::AllReduce, 16, 8, 10737418240, 90330}};
  for (const auto& m : nodes) {
    INFO(m.platform << " " << m.bytes);
    CHECK(ask(m.platform, m.kind, m.bytes, {m.ranks, m.per_node}).seconds * 1e6 == Approx(m.us).epsilon(0.12));
  }
  // vTrain: 46.2 ms on five, where no ring closes; six have two rings, as three have: 5/3 of the vector over both instead of 4/3.
  const auto five = ask("dgx1-v100", Kind::AllReduce, 1073741824, {5, 0});
  CHECK(five.algorithm == "tree");
  CHECK(five.seconds == Approx(46.223e-3).epsilon(0.05));
  const double three = ask("dgx1-v100", Kind::AllReduce, 1073741824, {3, 0}).seconds;
  CHECK(three == Approx(31.714e-3).epsilon(0.05));
  CHECK(ask("dgx1-v100", Kind::AllReduce, 1073741824, {6, 0}).seconds == Approx(three * 5 / 4).epsilon(0.01));
}

TEST_CASE("steps of Hopper and Blackwell take the table, all-to-alls and older devices the closed form") {
  const auto& c = published_constants().values;
  for (const char* platform : {"dgx-h100", "gb200-nvl72"}) {
    INFO(platform);
    const CollectiveLibrary network(platforms::load(platform));
    CHECK(network.seconds(Kind::AllReduce, 1e8, {8, 0}, c) == network.library(Kind::AllReduce, 1e8, {8, 0}, c).seconds);
    // 7/8 of the vector over the port's share, and a start for the first message and each of three doublings.
    const double port = network.inside_rate(8, c), start = c[Coefficient::CollectiveLaunch] * 1e-6;
    CHECK(network.seconds(Kind::AllToAll, 1e8, {8, 0}, c) == Approx(7 / 8.0 * 1e8 / port + 4 * start));
  }
  // 30 + 2*7*2.9 us (closed form: launches, ranks that come late) against 8.8 + 1.2 + 14*0.91 (LL128 of a recent release).
  const CollectiveLibrary old(platforms::load("dgx-a100"));
  CHECK(old.seconds(Kind::AllReduce, 1e4, {8, 0}, c) > 2 * old.library(Kind::AllReduce, 1e4, {8, 0}, c).seconds);
}

TEST_CASE("cards and switches that are farther than usual make every message between nodes longer, whatever sends it") {
  const auto& c = published_constants().values;
  const auto nodes = [](const char* platform, double card_us, double switch_us) {
    auto p = platforms::with_nodes(platforms::load(platform), 2);
    for (auto& group : p.nodes) group.nic.latency.value = Seconds(card_us * 1e-6);
    if (switch_us > 0) p.topology.latency.value = Seconds(switch_us * 1e-6);
    return CollectiveLibrary(p);
  };
  const auto usual = nodes("dgx-a100", 2, 0), far = nodes("dgx-a100", 20, 0), wide = nodes("dgx-a100", 2, 1000);
  // A message leaves one card and enters another: 2 (20 - 2) = 36 us. A sum over two nodes is a step up and one down.
  const auto more = [&](Kind kind) { return far.seconds(kind, 1e6, {16, 8}, c) - usual.seconds(kind, 1e6, {16, 8}, c); };
  CHECK(more(Kind::AllReduce) == Approx(2 * 36e-6));
  CHECK(more(Kind::AllGather) == Approx(36e-6));
  CHECK(more(Kind::AllToAll) == Approx(36e-6));  // all pairs at the same time
  CHECK(far.send(1e6, true, c) - usual.send(1e6, true, c) == Approx(36e-6));
  CHECK(far.send(1e6, false, c) == usual.send(1e6, false, c));
  CHECK(far.seconds(Kind::AllReduce, 1e6, {8, 8}, c) == usual.seconds(Kind::AllReduce, 1e6, {8, 8}, c));
  // Three switches up to the spine and down again, each of a millisecond, or one of a leaf: at least that.
  CHECK(wide.send(1e6, true, c) - usual.send(1e6, true, c) >= 1e-3 - 2e-6);
  // By the table, which has no steps for pairs: the same 36 us.
  const auto near_hopper = nodes("dgx-h100", 2, 0), far_hopper = nodes("dgx-h100", 20, 0);
  const auto pairs = [&](const CollectiveLibrary& l) { return l.library(Kind::AllToAll, 1e6, {16, 8}, c).seconds; };
  CHECK(pairs(far_hopper) - pairs(near_hopper) == Approx(36e-6));
}

TEST_CASE("a message of nothing takes no time, and one in a cube has a share of a device's wires") {
  const auto& c = published_constants().values;
  const CollectiveLibrary cube(platforms::load("dgx1-v100")), switched(platforms::load("dgx-a100"));
  CHECK(cube.send(0, false, c) == 0);
  CHECK(switched.send(0, true, c) == 0);
  // Six wires of 25 GB/s leave a V100, and at most two of them lead to one neighbour (0.3 of them on average).
  const double rate = 1e9 / (cube.send(2e9, false, c) - cube.send(1e9, false, c));
  CHECK(rate > 0.2 * 150e9);
  CHECK(rate < 0.34 * 150e9);
  CHECK(1e9 / (switched.send(2e9, false, c) - switched.send(1e9, false, c)) > 150e9);  // of 300
}

TEST_CASE("devices that share a limit of their node do not exceed it together") {
  const auto& c = published_constants().values;
  auto platform = platforms::load("a100-pcie-4x");
  const CollectiveLibrary alone(platform);
  platform.nodes.front().intra.total_bandwidth = platforms::Sourced<BytesPerSecond>{BytesPerSecond(5e9), ""};
  const CollectiveLibrary together(platform);
  // A ring of four passes 2 * 3/4 of 100 MB through each port: 600 MB through 5 GB/s are 120 ms.
  CHECK(together.seconds(Kind::AllReduce, 100e6, {4, 4}, c) > 0.120);
  CHECK(together.seconds(Kind::AllReduce, 100e6, {4, 4}, c) < 0.130);
  CHECK(together.library(Kind::AllReduce, 100e6, {4, 4}, c).seconds > 0.120);
  CHECK(alone.seconds(Kind::AllReduce, 100e6, {4, 4}, c) < 0.020);
  CHECK(together.send(5e9 / 4, false, c) > 1);  // all four send at a time
  // A limit that all ports together do not reach changes nothing.
  platform.nodes.front().intra.total_bandwidth->value = BytesPerSecond(1e12);
  CHECK(CollectiveLibrary(platform).seconds(Kind::AllReduce, 100e6, {4, 4}, c) == alone.seconds(Kind::AllReduce, 100e6, {4, 4}, c));
}

TEST_CASE("releases are two numbers") {
  CHECK(library_release("2.18") == LibraryRelease{2, 18});
  CHECK(*library_release("2.4") < *library_release("2.18"));
  for (const char* wrong : {"", "2", "2.", "x.1", "2.18.3", "-1.2"}) CHECK_FALSE(library_release(wrong).has_value());
}

TEST_CASE("a table says what is wrong with it") {
  const std::string good(embedded_collectives());
  const auto refusal = [&](const std::string& from, const std::string& to) {
    auto text = good;
    const auto at = text.find(from);
    REQUIRE(at != std::string::npos);
    text.replace(at, from.size(), to);
    try {
      static_cast<void>(collective_table_from_json_text(text, "t.json"));
    } catch (const BadInput& problem) {
      return std::string(problem.what());
    }
    return std::string();
  };
  CHECK_THAT(refusal("\"since\": \"2.4\"", "\"since\": \"new\""), contains("since: must be a release, such as \"2.18\""));
  CHECK_THAT(refusal("\"kinds\": [\"all-reduce\"]", "\"kinds\": [\"sum\"]"), contains("'sum' is no collective"));
  CHECK_THAT(refusal("\"inside\": \"pairs\"", "\"inside\": \"cube\""), contains("inside"));
  CHECK_THAT(refusal("\"steps\": \"table\"", "\"steps\": \"guess\""), contains("steps"));
  CHECK_THAT(refusal("\"beyond_pair\"", "\"beyond\""), contains("beyond"));
  CHECK_THAT(refusal("\"generations\": [], \"start\"", "\"generations\": [\"ada\"], \"start\""), contains("links 'pcie'"));
  CHECK_THAT(refusal("\"kinds\": [\"all-to-all\"]", "\"kinds\": [\"reduce\"]"), contains("does all-to-all anywhere"));
}

}  // namespace
}  // namespace rehearsal::costmodel
