// The steps of every collective, played message by message, against hand calculations and the closed form.
#include <map>
#include <set>

#include "platforms/catalog.hpp"
#include "predict/group_links.hpp"
#include "sim/played_collectives.hpp"
#include "tests/catch.hpp"
#include "tests/sim/sample.hpp"

using namespace rehearsal;
using namespace rehearsal::sim;
using namespace rehearsal::sim::sample;
using plan::CollectiveKind;

namespace {

void check_both(const Job& job, const platforms::Platform& platform, double expected) {
  CHECK(job.simulated(platform) == Approx(expected).epsilon(1e-9));
  CHECK(job.closed_form(platform) == Approx(expected).epsilon(1e-9));
}

constexpr double us = 1e-6;

std::string_view quickest_of(int ranks, Bytes size, const platforms::Platform& platform) {
  const auto job = one_collective(ranks, "ring", CollectiveKind::AllReduce, 1);
  const costmodel::CostModel model(platforms::device_of(platform, 0), {}, "f32");
  const platforms::Fabric fabric(platform);
  predict::GroupLinks links(job.program, platform, fabric, model);
  return plan::best_collective(CollectiveKind::AllReduce, ranks, size, links.of({0, 0})).name;
}

}  // namespace

// Inside a node a message takes 2 us + bytes / 100 GB/s, adding takes bytes / 1 TB/s.
TEST_CASE("a ring passes blocks around and adds half of the time") {
  // 4 ranks, 4 MB: blocks of 1 MB take 2 + 10 us, adding one 1 us. 2·3·12 + 3·1 = 75 us.
  check_both(one_collective(4, "ring", CollectiveKind::AllReduce, 1'000'000), cluster(1, 4, 0), 75 * us);
  check_both(one_collective(4, "ring", CollectiveKind::ReduceScatter, 1'000'000), cluster(1, 4, 0), 39 * us);
  check_both(one_collective(4, "ring", CollectiveKind::AllGather, 1'000'000), cluster(1, 4, 0), 36 * us);
  // The same over 4 nodes of one device: messages take 4 + 100 us. 2·3·104 + 3 = 627 us.
  check_both(one_collective(4, "ring", CollectiveKind::AllReduce, 1'000'000), cluster(4, 1, 1), 627 * us);
}

TEST_CASE("halving and doubling exchange halves and quarters") {
  // 4 MB: 2 MB out (22) and added (2), 1 MB (12) and added (1), 1 MB back (12), 2 MB back (22): 71 us.
  check_both(one_collective(4, "halving-doubling", CollectiveKind::AllReduce, 1'000'000), cluster(1, 4, 0), 71 * us);
  // Whole vectors twice: 2·(2 + 40 + 4) = 92 us.
  check_both(one_collective(4, "recursive-doubling", CollectiveKind::AllReduce, 1'000'000), cluster(1, 4, 0), 92 * us);
  // 6 ranks: two of them hand 4 MB over (42 + 4) and get it back (42) around the 4 ranks' 71 us.
  check_both(one_collective(6, "halving-doubling", CollectiveKind::AllReduce, 1'000'000), cluster(1, 6, 0), 159 * us);
}

TEST_CASE("a hierarchy adds inside nodes first and uses every card") {
  // 2 nodes of 4 ranks, 4 cards, 8 MB. Inside: 3·(2 + 20 + 2) = 72; across: 2 MB in halves of 1 MB, 4 + 100 + 1 = 105 and 104; inside 3·22
  // = 66.
  check_both(one_collective(8, "hierarchical", CollectiveKind::AllReduce, 2'000'000), cluster(2, 4, 4), 347 * us);
  // Its halves: two blocks of 1 MB at a time share a port inside nodes, and are added one after the other. 72 + 105 us, and 104 + 66.
  check_both(one_collective(8, "hierarchical", CollectiveKind::ReduceScatter, 2'000'000), cluster(2, 4, 4), 177 * us);
  check_both(one_collective(8, "hierarchical", CollectiveKind::AllGather, 2'000'000), cluster(2, 4, 4), 170 * us);
  // One card for four ranks: the messages across take 4 + 4·100 us. 72 + 405 + 404 + 66 = 947; of the halves 72 + 405 and 404 + 66.
  check_both(one_collective(8, "hierarchical", CollectiveKind::AllReduce, 2'000'000), cluster(2, 4, 1), 947 * us);
  check_both(one_collective(8, "hierarchical", CollectiveKind::AllGather, 2'000'000), cluster(2, 4, 1), 470 * us);
  // Exchanges at distances 1, 2 and 4 of halves, quarters and eighths: 2·(2 + 40) + 4, 2·(2 + 20) + 2; across 2·(4 + 4·100) + 1.
  check_both(one_collective(8, "halving-doubling", CollectiveKind::AllReduce, 2'000'000), cluster(2, 4, 1), 943 * us);
  // In a ring one rank of a node sends to the other node: 2·7·(4 + 100) + 7.
  check_both(one_collective(8, "ring", CollectiveKind::AllReduce, 2'000'000), cluster(2, 4, 1), 1463 * us);
}

TEST_CASE("messages that go far on a torus share its links, and closed forms know it") {
  // A ring of 8 nodes with links of 10 GB/s and 1 us, as quick as the cards, which take 4 us: to the node d further on 4 + d us.
  auto ring = cluster(8, 1, 1);
  ring.topology.kind = "torus";
  ring.topology.parameters = {{"dims", {8}}};
  ring.topology.bandwidth = BytesPerSecond(10e9);
  const double hop = 1, card = 4;
  // 8 MB round the ring in blocks of 1 MB, one on every link: 14·(5 + 100) + 7·1 us.
  check_both(one_collective(8, "ring", CollectiveKind::AllReduce, 2'000'000), ring, (14 * (card + hop + 100) + 7) * us);
  // Exchanges of 4, 2 and 1 MB at distances 1, 2 and 4, where every link carries as many messages at a time: 400 us each.
  const double out = (card + hop + 400) + (card + 2 * hop + 2 * 200) + (card + 4 * hop + 4 * 100);
  check_both(one_collective(8, "halving-doubling", CollectiveKind::AllReduce, 2'000'000), ring, (2 * out + 4 + 2 + 1) * us);
  check_both(one_collective(8, "recursive-doubling", CollectiveKind::AllReduce, 2'000'000), ring,
             (3 * card + 7 * hop + 7 * 800 + 3 * 8) * us);
  // Swing's ranks go 1 up, 1 down and 3 up, even ones one way and odd ones the other: of the last messages two share every other link.
  check_both(one_collective(8, "swing", CollectiveKind::AllReduce, 2'000'000), ring,
             (2 * ((card + hop + 400) + (card + hop + 200) + (card + 3 * hop + 200)) + 4 + 2 + 1) * us);
  // So the ring is what is taken for large vectors, where a switch would have halves exchanged.
  CHECK(quickest_of(8, Bytes(8e6), ring) == "ring");
  // 0.2 MB: 2·(5 + 10 + 5 + 5 + 8 + 5) = 76 us, the halves exchanged 2·(5 + 10 + 6 + 10 + 8 + 10) = 98, the ring 14·7.5 = 105.
  CHECK(quickest_of(8, Bytes(2e5), ring) == "swing");
  CHECK(quickest_of(8, Bytes(8e6), cluster(8, 1, 1)) == "halving-doubling");
}

TEST_CASE("rings across nodes share the links between them, and the closed form knows it") {
  // The same ring of 8 nodes, now with 2 devices and 2 cards each: two rings go round it at a time, and each has half of every link.
  auto ring = cluster(8, 2, 2);
  ring.topology.kind = "torus";
  ring.topology.parameters = {{"dims", {8}}};
  ring.topology.bandwidth = BytesPerSecond(10e9);
  // 8 MB: halves within a node, 2 + 40 us and 4 us to add; blocks of 0.5 MB around, 4 + 1 + 100 us and 0.5 us to add.
  const double scatter = (2 + 40 + 4) + 7 * (4 + 1 + 100 + 0.5), gather = 7 * (4 + 1 + 100) + (2 + 40);
  check_both(one_collective(16, "hierarchical", CollectiveKind::AllReduce, 2'000'000), ring, (scatter + gather) * us);
  check_both(one_collective(16, "hierarchical", CollectiveKind::AllGather, 2'000'000), ring, gather * us);
}

TEST_CASE("closed forms of rings and exchanges are their steps' times on every network, whatever a node has") {
  struct Shape {
    const char* kind;
    std::map<std::string, std::vector<std::int64_t>, std::less<>> parameters;
    int nodes = 16;
  };
  // Nodes whose links between switches are no quicker than a card.
  const std::vector<Shape> shapes{{"torus", {{"dims", {4, 4}}}},
                                  {"torus", {{"dims", {16}}}},
                                  {"torus", {{"dims", {4, 3}}}, 12},
                                  {"dragonfly", {{"groups", {4}}, {"routers", {2}}, {"nodes_per_router", {2}}}},
                                  {"dragonfly", {{"groups", {4}}, {"routers", {2}}, {"nodes_per_router", {2}}, {"adaptive", {1}}}},
                                  {"dragonfly", {{"groups", {3}}, {"routers", {2}}, {"nodes_per_router", {2}}}, 12},
                                  {"hyperx", {{"grid", {4, 2}}, {"nodes_per_switch", {2}}}},
                                  {"hyperx", {{"grid", {4, 2}}, {"nodes_per_switch", {2}}, {"adaptive", {1}}}},
                                  {"hyperx", {{"grid", {3, 2}}, {"nodes_per_switch", {2}}}, 12},
                                  {"fat-tree", {{"arity", {4}}, {"levels", {2}}, {"oversubscription", {4}}}},
                                  {"fat-tree", {{"arity", {4}}, {"levels", {2}}, {"oversubscription", {4}}}, 12},
                                  {"fat-tree", {{"arity", {4}}, {"levels", {2}}, {"oversubscription", {4}}, {"adaptive", {1}}}},
                                  {"rails", {{"nodes_per_leaf", {4}}, {"groups", {4}}, {"oversubscription", {4}}}},
                                  {"rails", {{"nodes_per_leaf", {16}}, {"spine", {0}}}}};
  const std::set<std::string_view> rings{"ring", "hierarchical", "blueconnect"};
  const std::set<std::string_view> halving{"recursive-doubling", "recursive-halving", "halving-doubling", "swing"};  // of powers of two
  int compared = 0;
  for (const auto& shape : shapes)
    for (const int devices : {1, 2, 4})
      for (const int cards : {1, devices}) {
        auto platform = cluster(shape.nodes, devices, cards);
        platform.topology.kind = shape.kind;
        platform.topology.parameters = shape.parameters;
        platform.topology.bandwidth = BytesPerSecond(kCard);
        for (const auto& row : plan::collective_table()) {
          if (!rings.contains(row.name) && (shape.nodes != 16 || !halving.contains(row.name))) continue;
          const auto job = one_collective(shape.nodes * devices, std::string(row.name), row.kind, 4'000'000);
          INFO(row.name << " (" << name(row.kind) << ") on a " << shape.kind << " of " << shape.nodes << ", " << devices << " devices and "
                        << cards << " cards");
          const double shorter = job.closed_form(platform) / job.simulated(platform);
          CHECK(shorter > 0.9);  // messages that share a link do not all do so for as long as the closed form says, or begin as one
          CHECK(shorter < (row.exact ? 1.15 : 1.35));  // where some exchange within their node, others do not wait for them
          ++compared;
        }
      }
  CHECK(compared == 10 * 6 * 12 + 4 * 6 * 7);
}

TEST_CASE("on a torus every algorithm's closed form counts how far its messages go, and what they share on the way") {
  for (const auto& dims : std::vector<std::vector<std::int64_t>>{{8}, {16}, {64}, {4, 4}})
    for (const std::int64_t floats : {4'000, 4'000'000}) {
      int nodes = 1;
      for (const auto dim : dims) nodes *= static_cast<int>(dim);
      auto platform = cluster(nodes, 1, 1);
      platform.topology.kind = "torus";
      platform.topology.parameters = {{"dims", dims}};
      platform.topology.bandwidth = BytesPerSecond(kCard);
      for (const auto& row : plan::collective_table()) {
        // Packed trees have bounds of their own; what Rabenseifner's reduce collects goes one way, where the closed form has exchanges.
        if (row.one_sided || row.name == "packed-trees" || row.name == "rabenseifner") continue;
        const auto job = one_collective(nodes, std::string(row.name), row.kind, floats);
        INFO(row.name << " (" << name(row.kind) << ") of " << floats << " floats on " << dims.size() << " dimensions, " << nodes
                      << " nodes");
        const double shorter = job.closed_form(platform) / job.simulated(platform);
        CHECK(shorter > (row.name == "double-tree" ? 0.75 : 0.85));  // levels of a tree meet on one link more often than in the mean
        CHECK(shorter < 1.3);
      }
    }
}

TEST_CASE("blocks of an all-to-all go straight to their rank, or bundled") {
  // 4 ranks send 1 MB to each: 3 steps of 2 + 10 us; 2 steps of two blocks, 2 + 20 us.
  check_both(one_collective(4, "pairwise", CollectiveKind::AllToAll, 1'000'000), cluster(1, 4, 0), 36 * us);
  check_both(one_collective(4, "bruck", CollectiveKind::AllToAll, 1'000'000), cluster(1, 4, 0), 44 * us);
  // 5 ranks, blocks of 0.8 MB, ways {1, 3}, {2, 3}, {4}: 2 + 16, 2 + 16, 2 + 8 us
  check_both(one_collective(5, "bruck", CollectiveKind::AllToAll, 1'000'000), cluster(1, 8, 0), 46 * us);
}

TEST_CASE("several messages of one step share the port") {
  // The trees are those of three GPUs of a DGX-1, but the box joins its devices by a switch, at which each has one port of 100 GB/s. Of an
  // all-reduce of 4 MB three ports take in at least 2·2 vectors together (two to a root, two from it), so the busiest 4/3: 53.3 us.
  CHECK(one_collective(3, "packed-trees", CollectiveKind::AllReduce, 1'000'000).simulated(cluster(1, 4, 0)) > 53.3 * us);
}

namespace {

/// Replicas `inner` ranks apart, whose groups sum at the same time.
Job packed_trees(int ranks, int inner, std::int64_t floats) {
  Job job({{"tp", inner, 1}, {"dp", ranks, inner}}, 1);
  const auto role = job.add_role(0, {});
  const auto body = job.add_body(role, plan::BodyKind::Update);
  job.add_collective(role, body, {CollectiveKind::AllReduce, "packed-trees", 1}, floats);
  job.role(role).slots = {{body, 0}};
  return job;
}

}  // namespace

TEST_CASE("the closed form of packed trees is their steps' time, on ports, on wires and between nodes") {
  struct Machine {
    const char* name;
    int inner;
    double shorter, longer;  ///< of the closed form, over the time of the steps
  };
  // On switches and wires all but exact. On a torus messages of unlike length share a link for a part of their time only, and ranks that
  // nothing holds back run ahead.
  for (const auto& [name, inner, shorter, longer] : {Machine{"dgx1-v100", 1, 0.99, 1.1},
                                                     {"dgx1-v100", 2, 0.99, 1.1},
                                                     {"dgx-a100", 1, 0.999, 1.09},
                                                     {"dgx-a100", 2, 0.99, 1.09},
                                                     {"mi300x-8x", 1, 0.999, 1.03},
                                                     {"alps-gh200", 1, 0.99, 1.02},
                                                     {"jean-zay-a100", 2, 0.99, 1.09},
                                                     {"xeon-2s-10gbe", 1, 0.99, 1.11},
                                                     {"tpu-v5p-pod", 1, 0.98, 1.13},
                                                     {"tpu-v3-pod", 2, 0.96, 1.16}})
    for (const int ranks : {2, 3, 4, 7, 8})
      for (const std::int64_t floats : {4'000, 1'000'000}) {
        const auto platform = platforms::with_devices(platforms::load(name), ranks * inner);
        const auto job = packed_trees(ranks, inner, floats);
        INFO(name << ", " << ranks << " ranks that are " << inner << " apart, " << floats << " floats");
        const double over = job.closed_form(platform) / job.simulated(platform);
        CHECK(over > shorter);
        CHECK(over < longer);
      }
}

TEST_CASE("a binomial tree sends the vector once per level") {
  // 4 MB over 4 ranks: two levels of 2 + 40 us.
  check_both(one_collective(4, "binomial", CollectiveKind::Broadcast, 1'000'000), cluster(1, 4, 0), 84 * us);
}

TEST_CASE("every algorithm equals its closed form where blocks are even; pipelines take at most that") {
  for (const auto& row : plan::collective_table())
    for (const int ranks : {1, 2, 4, 8, 16}) {
      INFO(row.name << " of " << plan::name(row.kind) << " on " << ranks);
      const auto job = one_collective(ranks, std::string(row.name), row.kind, 1 << 20);
      for (const auto& platform : {cluster(1, 16, 0), cluster(ranks, 1, 1)}) {
        const double simulated = job.simulated(platform), closed = job.closed_form(platform);
        if (row.exact) CHECK(simulated == Approx(closed).epsilon(1e-9).margin(1e-15));
        CHECK(simulated <= closed * (row.name == "packed-trees" ? 1.003 : 1 + 1e-9));
        if (ranks > 1) CHECK(simulated > 0);
      }
    }
}

TEST_CASE("the messages of a collective are matched end to end") {
  for (const auto& row : plan::collective_table())
    for (const int ranks : {2, 3, 5, 8, 12}) {
      INFO(row.name << " of " << plan::name(row.kind) << " on " << ranks);
      const auto pattern = match_steps(ranks, [&](int member) { return row.steps(member, ranks, 103, 4); });
      for (int r = 0; r < ranks; ++r)
        for (const auto& step : pattern.members[static_cast<std::size_t>(r)]) {
          if (step.to < 0) continue;
          const auto& other = pattern.members[static_cast<std::size_t>(step.to)][step.received_in];
          CHECK(other.from == r);
          CHECK(other.receive_count == step.send_count);
        }
    }
}

TEST_CASE("steps that do not match are our own error") {
  const auto matched = [](const std::vector<std::vector<plan::CollectiveStep>>& steps) {
    return match_steps(static_cast<int>(steps.size()), [&](int member) { return steps[static_cast<std::size_t>(member)]; });
  };
  const plan::CollectiveStep to_1{1, 0, 5, -1, 0, 0}, to_2{2, 0, 5, -1, 0, 0}, from_0{-1, 0, 0, 0, 0, 5}, from_1{-1, 0, 0, 1, 0, 5};
  CHECK(matched({{to_1}, {from_0}}).members[0][0].received_in == 0);
  CHECK(matched({{to_2, to_1}, {from_0}, {from_0}}).members[1][0].sent_in == 1);
  CHECK_THROWS_WITH(matched({{to_1}, {}}), contains("a collective receives what it sends"));
  CHECK_THROWS_WITH(matched({{to_1}, {}, {from_0}}), contains("a collective receives from whom it sends to"));
  CHECK_THROWS_WITH(matched({{to_2}, {}, {from_1}}), contains("a collective receives from whom it sends to"));
}

TEST_CASE("groups that sum vectors of different lengths at one time take each its own") {
  // Two groups of two ranks: rings of 4 MB take 2·(2 + 20) + 2, of 8 MB 2·(2 + 40) + 4 us.
  Job job({{"dp", 2, 1}, {"pp", 2, 2}}, 1);
  for (const int stage : {0, 1}) {
    const auto role = job.add_role(stage, {2 * stage, 2 * stage + 1});
    const auto body = job.add_body(role, plan::BodyKind::Update);
    job.add_collective(role, body, {CollectiveKind::AllReduce, "ring", 0}, stage == 0 ? 1'000'000 : 2'000'000);
    job.role(role).slots = {{body, 0}};
  }
  const auto cost = job.play(*full_evaluator(), cluster(1, 4, 0), true);
  CHECK(cost.timeline[0].front().end == Approx(46 * us));
  CHECK(cost.timeline[3].front().end == Approx(88 * us));
}

TEST_CASE("communication that is slower by a factor adds and waits as much longer") {
  const auto job = one_collective(4, "ring", CollectiveKind::AllReduce, 1'000'000);
  costmodel::Calibration learned;
  learned.corrections = {{"communication", 0, 3, 0.1, 5}};
  const auto platform = cluster(1, 4, 0);
  const costmodel::CostModel model(platform.nodes.front().device, learned, "f32");
  const predict::EvaluationRequest request{job.program, job.costs, platform, model};
  for (const auto& evaluator : {predict::closed_form_evaluator(), full_evaluator(), folded_evaluator()}) {
    INFO(evaluator->name());
    CHECK(evaluator->evaluate(request).step.value() == Approx(3 * 75 * us));
  }
}

TEST_CASE("a late rank delays the others by no more than its lateness") {
  Job job({{"dp", 4, 1}}, 1);
  const auto early = job.add_role(0, {}), late = job.add_role(0, {3});
  for (const auto role : {early, late}) {
    const auto body = job.add_body(role, plan::BodyKind::Update);
    const auto kernel = job.add_kernel(role, body, role == late ? 1.0 : 0.5);
    job.add_collective(role, body, {CollectiveKind::AllReduce, "ring", 0}, 1'000'000, {{body, kernel}});
    job.role(role).slots = {{body, 0}};
  }
  // Every block passes through the late rank: 1 s and the 75 us of the ring.
  CHECK(job.simulated(cluster(1, 4, 0)) == Approx(1 + 75 * us).epsilon(1e-9));
}
