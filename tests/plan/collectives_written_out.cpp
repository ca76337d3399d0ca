// Times and messages of every algorithm, written out to be read: what its closed form says, what its steps take and what ranks send
// (tests/plan/written_out/; docs/testing.md). And closed forms where links are shared, reckoned by hand.
#include <algorithm>
#include <cstdio>
#include <set>

#include "plan/collectives/exchange.hpp"
#include "plan/collectives/meetings.hpp"
#include "plan/collectives/packed_trees.hpp"
#include "tests/plan/collective_play.hpp"
#include "tests/written_out.hpp"

using namespace rehearsal;
using namespace rehearsal::plan;
using namespace rehearsal::plan::played;

namespace {

/// Inside a node 1 us and 9 GB/s, 20 GB/s for all of its ranks; between nodes 7 us and 2 GB/s, 3 GB/s for all; additions at 5 GB/s.
CollectiveLinks shared_links(int ranks_per_node) {
  CollectiveLinks links{Seconds(1e-6), Seconds(7e-6), BytesPerSecond(9e9), BytesPerSecond(2e9), BytesPerSecond(5e9), ranks_per_node};
  links.node_inner = BytesPerSecond(20e9);
  links.node_outer = BytesPerSecond(3e9);
  return links;
}

/// Nodes of a ring: messages go 2^k ranks far at 1.6 GB/s over 2^k, exchanges at 1.5 over 2^k and those of swing at 1.4; none beyond 4.
CollectiveLinks ring_of_nodes(int ranks_per_node = 1) {
  auto links = shared_links(ranks_per_node);
  for (int k = 0; k < 3; ++k) {
    const Seconds latency((6 + 2 * (1 << k)) * 1e-6);
    links.around.push_back({latency, BytesPerSecond(1.6e9 / (1 << k))});
    links.across.push_back({latency, BytesPerSecond(1.5e9 / (1 << k))});
    links.swinging.push_back({latency, BytesPerSecond(1.4e9 / (1 << k))});
  }
  return links;
}

/// Nodes whose ranks have 1 GB/s together, less than their cards.
CollectiveLinks slow_buses(int ranks_per_node) {
  auto links = shared_links(ranks_per_node);
  links.node_inner = BytesPerSecond(1e9);
  return links;
}

/// The first GPUs of a DGX-1, lanes of 25 GB/s and 2 us; no message crosses more than one wire.
CollectiveLinks cube_mesh(int ranks) {
  std::vector<int> gpus;
  for (int gpu = 0; gpu < ranks; ++gpu) gpus.push_back(gpu);
  const auto wiring = dgx1_wiring(gpus);
  auto links = shared_links(ranks);
  for (int from = 0; from < ranks; ++from)
    for (int to = 0; to < ranks; ++to) {
      auto& way = links.members.ways.emplace_back();
      way.latency = Seconds(2e-6);
      if (wiring.between(from, to) > 0)
        way.shares = {{static_cast<std::uint32_t>(links.members.links++), BytesPerSecond(25e9 * wiring.between(from, to))}};
    }
  return links;
}

/// What one rank does in all: the most that any does.
struct Traffic {
  std::size_t steps = 0, messages = 0;
  std::int64_t sent = 0, received = 0, added = 0, all = 0;
};
Traffic traffic_of(const Steps& steps) {
  Traffic most;
  for (std::size_t r = 0; r < steps.size(); ++r) {
    Traffic own;
    for (const auto& s : steps[r]) {
      if (s.send_to == static_cast<int>(r)) continue;
      own.steps += s.with_next ? 0 : 1;
      own.messages += s.send_to >= 0 ? 1 : 0;
      own.sent += s.send_to >= 0 ? s.send_count : 0;
      own.received += s.receive_from >= 0 ? s.receive_count : 0;
      own.added += s.reduce ? s.receive_count : 0;
    }
    most = {std::max(most.steps, own.steps),       std::max(most.messages, own.messages), std::max(most.sent, own.sent),
            std::max(most.received, own.received), std::max(most.added, own.added),       most.all + own.sent};
  }
  return most;
}

std::string times_of(Seconds closed, const Steps* steps, const CollectiveLinks& links) {
  char text[64];
  if (steps == nullptr)
    std::snprintf(text, sizeof text, "%11.4f %11s", closed.value() * 1e6, "");
  else
    std::snprintf(text, sizeof text, "%11.4f %11.4f", closed.value() * 1e6, Play(*steps, clock_of(links)).run() * 1e6);
  return text;
}

std::string traffic_text(const Steps& steps) {
  const auto t = traffic_of(steps);
  char text[128];
  std::snprintf(text, sizeof text, " %6zu %9zu %8lld %8lld %8lld %9lld", t.steps, t.messages, static_cast<long long>(t.sent),
                static_cast<long long>(t.received), static_cast<long long>(t.added), static_cast<long long>(t.all));
  return text;
}

constexpr const char* kHeading = "ranks place       closed us   played us  steps  messages     sent received    added  all sent\n";

std::string line_of(int ranks, const char* place, const std::string& rest) {
  char text[32];
  std::snprintf(text, sizeof text, "%5d %-9s", ranks, place);
  auto line = text + rest;
  line.erase(line.find_last_not_of(' ') + 1);
  return line + "\n";
}

std::string lines_of(const CollectiveRow& row, int ranks) {
  constexpr std::int64_t kCount = 120'000;  // 7 chunks of pipelines
  const Bytes size(4.0 * kCount);
  std::string text;
  std::set<int> shapes{ranks, 1};
  if (ranks > 2 && ranks % 2 == 0) shapes.insert(ranks / 2);
  for (auto per_node = shapes.rbegin(); per_node != shapes.rend(); ++per_node) {
    const auto steps = all_steps(row, ranks, kCount, *per_node);
    const auto links = shared_links(*per_node);
    const char* place = *per_node == ranks ? "one node" : *per_node == 1 ? "nodes" : "two nodes";
    text += line_of(ranks, place, times_of(row.closed_form(ranks, size, links), &steps, links) + traffic_text(steps));
  }
  text += line_of(ranks, "ring", times_of(row.closed_form(ranks, size, ring_of_nodes()), nullptr, {}));
  if (row.name == "packed-trees")
    text += line_of(ranks, "cube mesh", times_of(row.closed_form(ranks, size, cube_mesh(ranks)), nullptr, {}));
  return text;
}

/// Closed forms of larger groups, of nodes that are no power of two or have slow buses, and of nodes of two on a ring.
std::string further(const CollectiveRow& row) {
  struct Place {
    const char* name;
    int ranks;
    CollectiveLinks links;
  };
  std::string text;
  for (const auto& [name, ranks, links] : std::vector<Place>{{"16 of 4", 16, shared_links(4)},
                                                             {"16 of 2, slow", 16, slow_buses(2)},
                                                             {"16 of 4, slow", 16, slow_buses(4)},
                                                             {"8 of 4, slow", 8, slow_buses(4)},
                                                             {"11 of 7", 11, shared_links(7)},
                                                             {"11 of 3", 11, shared_links(3)},
                                                             {"12 of 4", 12, shared_links(4)},
                                                             {"12 of 3", 12, shared_links(3)},
                                                             {"8 of 2 on a ring", 8, ring_of_nodes(2)},
                                                             {"16 of 2 on a ring", 16, ring_of_nodes(2)},
                                                             {"16 on a ring", 16, ring_of_nodes()}}) {
    char one[64];
    std::snprintf(one, sizeof one, "  %s: %.4f", name, row.closed_form(ranks, Bytes(4.0 * 120'000), links).value() * 1e6);
    if (text.size() - (text.rfind('\n') + 1) + std::string(one).size() > 132) text += "\n";
    text += one;
  }
  return text + "\n";
}

std::string written_collectives() {
  std::string text =
      "Vectors of 120,000 floats. Of one rank, the most that any of them does: steps, messages, elements that it sends, receives and "
      "adds.\n"
      "Places: one node, two, a node for each rank behind a switch; a ring of nodes, whose links messages share by how far they go; wires\n"
      "of a DGX-1. Played: as if no message slowed another down. Below, closed forms of so many ranks of so many on a node; slow: 1 GB/s "
      "for all\n"
      "of a node.\n";
  for (const auto& row : collective_table()) {
    if (row.one_sided) continue;  // the messages and times of others
    text += "\n" + std::string(name(row.kind)) + " " + std::string(row.name) + "\n" + kHeading;
    for (const int ranks : {2, 3, 4, 5, 6, 8}) text += lines_of(row, ranks);
    text += further(row);
  }
  return text;
}

struct MeetingCase {
  const char* title;
  std::string algorithm;
  CollectiveKind kind;
  MeetingTerms terms;
};

std::string written_meetings() {
  std::string text =
      "Meetings of replicas, of vectors of 120,000 floats: places and columns as in collectives.txt; slow: two nodes with slow buses.\n";
  for (const auto& [title, algorithm, kind, terms] :
       {MeetingCase{"adding at all servers", std::string(kServers), CollectiveKind::ReduceScatter, {}},
        {"adding at one server", std::string(kServers), CollectiveKind::ReduceScatter, {Servers(1)}},
        {"adding at two servers", std::string(kServers), CollectiveKind::ReduceScatter, {Servers(2)}},
        {"reading from two servers", std::string(kServers), CollectiveKind::AllGather, {Servers(2)}},
        {"reading from replicas 0 and 1", std::string(kServers), CollectiveKind::AllGather, {Servers(std::vector{0, 1})}},
        {"adding at replicas 1 and 3", std::string(kServers), CollectiveKind::ReduceScatter, {Servers(std::vector{1, 3})}},
        {"neighbours", std::string(kNeighbours), CollectiveKind::AllReduce, {}},
        {"partners 1 apart", partners_at(1), CollectiveKind::AllGather, {{}, 1}},
        {"partners 2 apart", partners_at(2), CollectiveKind::AllGather, {{}, 2}}}) {
    const auto& row = *meeting_row(algorithm);
    text += "\n" + std::string(title) + "\n" + kHeading;
    for (const int ranks : {4, 8})
      for (const int per_node : {ranks, ranks / 2, 1}) {
        Steps steps;
        for (int rank = 0; rank < ranks; ++rank) steps.push_back(row.steps(kind, {rank, ranks, 120'000}, terms));
        const auto links = shared_links(per_node);
        text += line_of(ranks,
                        per_node == ranks ? "one node"
                        : per_node == 1   ? "nodes"
                                          : "two nodes",
                        times_of(row.closed_form(kind, ranks, Bytes(4.0 * 120'000), links, terms), &steps, links) + traffic_text(steps));
        if (per_node == ranks / 2)
          text += line_of(ranks, "slow",
                          times_of(row.closed_form(kind, ranks, Bytes(4.0 * 120'000), slow_buses(per_node), terms), nullptr, {}));
        if (per_node == 1)
          text += line_of(ranks, "ring", times_of(row.closed_form(kind, ranks, Bytes(4.0 * 120'000), ring_of_nodes(), terms), nullptr, {}));
      }
  }
  return text;
}

double seconds_of(CollectiveKind kind, const char* algorithm, int ranks, double bytes, const CollectiveLinks& links) {
  return collective(kind, algorithm).closed_form(ranks, Bytes(bytes), links).value();
}

}  // namespace

TEST_CASE("times and messages of collectives are those that are written out") {
  test::check_written_out(std::string(REHEARSAL_PLAN_WRITTEN_OUT) + "/collectives.txt", written_collectives());
}

TEST_CASE("times and messages of meetings are those that are written out") {
  test::check_written_out(std::string(REHEARSAL_PLAN_WRITTEN_OUT) + "/meetings.txt", written_meetings());
}

TEST_CASE("steps over all distances share a node's cards, and what a ring of nodes leaves to them") {
  // 4 ranks on 2 nodes, pieces of 120 kB: to the next rank and to the one before it one rank of a node sends to the other one, with the 2
  // GB/s of a message: 7 + 60 us. Two far both do, each with 1.5 of 3 GB/s: 7 + 80 us.
  CHECK(seconds_of(CollectiveKind::AllToAll, "pairwise", 4, 480e3, shared_links(2)) == Approx((67 + 87 + 67) * 1e-6));
  CHECK(seconds_of(CollectiveKind::ReduceScatter, "pairwise", 4, 480e3, shared_links(2)) == Approx((67 + 87 + 67 + 3 * 24) * 1e-6));
  // On one node the four share 20 GB/s: 1 + 24 us.
  CHECK(seconds_of(CollectiveKind::AllToAll, "pairwise", 4, 480e3, shared_links(4)) == Approx(3 * 25e-6));
  // Round four nodes they go 1, 2 and, the other way, 1 far: 8 + 75, 10 + 150 and 8 + 75 us.
  CHECK(seconds_of(CollectiveKind::AllToAll, "pairwise", 4, 480e3, ring_of_nodes()) == Approx(326e-6));
  // A ring goes 1 far: 2 · 3 (8 + 75) and 3 · 24 us of additions.
  CHECK(seconds_of(CollectiveKind::AllReduce, "ring", 4, 480e3, ring_of_nodes()) == Approx(570e-6));
  // Exchanges at distances 1 and 2, of 240 kB at 1.5 GB/s and 120 kB at half of it, there and back, 48 and 24 us of additions.
  CHECK(seconds_of(CollectiveKind::AllReduce, "halving-doubling", 4, 480e3, ring_of_nodes()) ==
        Approx((2 * (8 + 160) + 48 + 2 * (10 + 160) + 24) * 1e-6));
  // The same at 1.4 GB/s for ranks that swing: 240 / 1.4 and 120 / 0.7 us.
  CHECK(seconds_of(CollectiveKind::AllReduce, "swing", 4, 480e3, ring_of_nodes()) ==
        Approx((2 * (8 + 240 / 1.4) + 48 + 2 * (10 + 120 / 0.7) + 24) * 1e-6));
  // Two nodes of two: within the node 240 kB, all four ranks' in pairs with 9 GB/s; across 120 kB, two at a time at 1.5 GB/s.
  CHECK(seconds_of(CollectiveKind::AllReduce, "halving-doubling", 4, 480e3, shared_links(2)) ==
        Approx((2 * (1 + 240.0 / 9) + 48 + 2 * (7 + 80) + 24) * 1e-6));
  CHECK(seconds_of(CollectiveKind::AllReduce, "hierarchical", 4, 480e3, shared_links(2)) ==
        Approx((2 * (1 + 240.0 / 9) + 48 + 2 * (7 + 80) + 24) * 1e-6));
  // A ring crosses between the nodes with one message of each, at 2 GB/s, in all of its 6 steps.
  CHECK(seconds_of(CollectiveKind::AllReduce, "ring", 4, 480e3, shared_links(2)) == Approx((6 * (7 + 60) + 3 * 24) * 1e-6));
}

TEST_CASE("an exchange takes the longer of what leaves and what comes in every step, wherever the others are") {
  // Rank 1 of 4 on 2 nodes. Step 1: 120 kB to rank 2, one card's message: 7 + 60; 240 kB from rank 0, of two ranks: 1 + 240 / 9: 67 us.
  // Step 2: 120 kB to rank 3 and 240 kB from it, two of the node's messages at a time: 7 + 240 / 1.5 = 167 us. Step 3: 120 kB to rank 0; 60
  // kB from rank 2: 7 + 30 = 37 us.
  const std::vector<CollectiveStep> steps{{2, 0, 30'000, 0, 0, 60'000}, {3, 0, 30'000, 3, 0, 60'000}, {0, 0, 30'000, 2, 0, 15'000}};
  CHECK(exchange_time(1, steps, 4, shared_links(2)).value() == Approx((67 + 167 + 37) * 1e-6));
  // Rank 2: 1 is one further, 0 two, 3 on its own node.
  const std::vector<CollectiveStep> of_two{{1, 0, 30'000, -1, 0, 0}, {0, 0, 30'000, -1, 0, 0}, {-1, 0, 0, 3, 0, 30'000}};
  CHECK(exchange_time(2, of_two, 4, shared_links(2)).value() == Approx((67 + 87 + 1 + 120.0 / 9) * 1e-6));
  // Each on a node of a ring: rank 2 of 4 to 3 and to 1 go one far, to 0 two.
  const std::vector<CollectiveStep> around{{3, 0, 30'000, -1, 0, 0}, {0, 0, 30'000, -1, 0, 0}, {1, 0, 30'000, -1, 0, 0}};
  CHECK(exchange_time(2, around, 4, ring_of_nodes()).value() == Approx((83 + 160 + 83) * 1e-6));
  CHECK(exchange_time(0, {}, 4, ring_of_nodes()).value() == 0);
}
