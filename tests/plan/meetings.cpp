// Messages of replicas that meet in part: what their steps leave on every rank, and how long they take against their closed forms.
#include "plan/collectives/meetings.hpp"

#include "plan/plan.hpp"
#include "tests/catch.hpp"
#include "tests/plan/collective_play.hpp"

using namespace rehearsal;
using namespace rehearsal::plan;
using namespace rehearsal::plan::played;

namespace {

struct Asked {
  std::string algorithm;
  CollectiveKind kind = CollectiveKind::AllReduce;
  int ranks = 1;
  MeetingTerms terms;
  std::int64_t count = 0;
};

Steps steps_of_all(const Asked& q) {
  Steps steps;
  for (int rank = 0; rank < q.ranks; ++rank) steps.push_back(meeting_row(q.algorithm)->steps(q.kind, {rank, q.ranks, q.count}, q.terms));
  return steps;
}

CollectiveLinks one_level() { return {Seconds(1e-6), Seconds(7e-6), BytesPerSecond(9e9), BytesPerSecond(2e9), BytesPerSecond(5e9), 1}; }

/// Element e of rank r begins as (r + 1) · (e + 1).
double initial(int rank, std::int64_t element) { return static_cast<double>(rank + 1) * static_cast<double>(element + 1); }

std::vector<std::vector<double>> left_by(const Asked& q) {
  const auto steps = steps_of_all(q);
  Play play(steps, clock_of(one_level()));
  for (int r = 0; r < q.ranks; ++r)
    for (std::int64_t e = 0; e < q.count; ++e) {
      if (e == 0) play.memory.emplace_back();
      play.memory.back().push_back(initial(r, e));
    }
  REQUIRE(play.run() >= 0);
  return play.memory;
}

}  // namespace

TEST_CASE("servers are spread evenly over the replicas, or those that are named") {
  for (int server = 0; server < 4; ++server) CHECK(Servers().replica(server, 4) == server);
  CHECK(Servers(2).replica(0, 8) == 0);
  CHECK(Servers(2).replica(1, 8) == 4);
  CHECK(Servers(3).replica(2, 8) == 5);  // 16/3
  for (const auto& servers : {Servers(), Servers(1), Servers(3), Servers(std::vector{1, 2, 6})})
    for (int replica = 0, found = 0; replica < 8; ++replica) {
      INFO(to_text(servers) << ", replica " << replica);
      const int server = servers.server_at(replica, 8);
      if (server < 0) continue;
      CHECK(server == found++);
      CHECK(servers.replica(server, 8) == replica);
      if (replica == 7) CHECK(found == servers.count(8));
    }
  Plan p;
  p.dp = 8;
  CHECK(p.center_ranks() == 8);
  p.servers = Servers(3);
  CHECK(p.center_ranks() == 3);
  p.servers = Servers(std::vector{0, 5});
  CHECK(p.center_ranks() == 2);
  CHECK(p.servers.least_replicas() == 6);
}

TEST_CASE("servers add what all ranks have of their blocks, and all ranks read these") {
  for (const int ranks : {2, 3, 5, 8})
    for (const auto& servers : {Servers(1), Servers(2), Servers(), Servers(std::vector{ranks - 1}), Servers(std::vector{0, 1})}) {
      INFO(ranks << " ranks, servers " << to_text(servers));
      const MeetingTerms terms{servers};
      const auto sums = left_by({std::string(kServers), CollectiveKind::ReduceScatter, ranks, terms, 11}),
                 read = left_by({std::string(kServers), CollectiveKind::AllGather, ranks, terms, 11});
      for (int server = 0; server < servers.count(ranks); ++server) {
        const auto at = static_cast<std::size_t>(servers.replica(server, ranks));
        const auto own = block(11, servers.count(ranks), server);
        for (auto e = own.begin; e < own.end; ++e) {
          const auto element = static_cast<std::size_t>(e);
          CHECK(sums[at][element] == ranks * (ranks + 1) / 2.0 * static_cast<double>(e + 1));
          for (const auto& rank : read) CHECK(rank[element] == initial(static_cast<int>(at), e));
        }
      }
      CHECK(steps_of_all({std::string(kServers), CollectiveKind::Broadcast, ranks, terms, 11}).front().empty());
    }
}

TEST_CASE("neighbours on a ring add each other's vectors") {
  for (const int ranks : {2, 3, 4, 7}) {
    INFO(ranks << " ranks");
    const auto left = left_by({std::string(kNeighbours), CollectiveKind::AllReduce, ranks, {}, 5});
    for (int r = 0; r < ranks; ++r) {
      const int next = (r + 1) % ranks, before = (r + ranks - 1) % ranks;
      for (std::int64_t e = 0; e < 5; ++e) {
        const double wanted = initial(r, e) + initial(next, e) + (ranks > 2 ? initial(before, e) : 0);
        CHECK(left[static_cast<std::size_t>(r)][static_cast<std::size_t>(e)] == wanted);
      }
    }
  }
  CHECK(steps_of_all({std::string(kNeighbours), CollectiveKind::AllReduce, 1, {}, 5}).front().empty());
}

TEST_CASE("partners have what both had, that of the lower number first") {
  for (const int ranks : {2, 4, 8})
    for (int distance = 1; distance < ranks; distance *= 2) {
      INFO(ranks << " ranks, " << distance << " apart");
      const auto left = left_by({partners_at(distance), CollectiveKind::AllGather, ranks, {{}, distance}, 10});
      for (int r = 0; r < ranks; ++r) {
        const int lower = r / distance % 2 == 0 ? r : r - distance;
        for (std::int64_t e = 0; e < 5; ++e) {
          CHECK(left[static_cast<std::size_t>(r)][static_cast<std::size_t>(e)] == initial(lower, e));
          CHECK(left[static_cast<std::size_t>(r)][static_cast<std::size_t>(e + 5)] == initial(lower + distance, e));
        }
      }
    }
  Plan p;
  p.dp = 8;
  CHECK(meeting_terms(partners_at(4), p).distance == 4);
  p.servers = Servers(2);
  CHECK(meeting_terms(kServers, p).servers == p.servers);
}

TEST_CASE("closed forms of meetings, by hand") {
  // 4 ranks, a node each, 4 MB: latency 7 us, 2 GB/s, additions at 5 GB/s.
  const auto time = [&](std::string_view algorithm, CollectiveKind kind, const MeetingTerms& terms) {
    return meeting_row(algorithm)->closed_form(kind, 4, Bytes(4e6), one_level(), terms).value();
  };
  const auto served = [](int number) { return MeetingTerms{Servers(number)}; };
  // All serve: 3 times 7 us + 1 MB / 2 GB/s + 1 MB / 5 GB/s; reading adds nothing.
  CHECK(time(kServers, CollectiveKind::ReduceScatter, {}) == Approx(3 * (7e-6 + 500e-6 + 200e-6)));
  CHECK(time(kServers, CollectiveKind::AllGather, {}) == Approx(3 * (7e-6 + 500e-6)));
  // One serves, and has three vectors to take in.
  CHECK(time(kServers, CollectiveKind::ReduceScatter, served(1)) == Approx(3 * (7e-6 + 2000e-6 + 800e-6)));
  CHECK(time(kServers, CollectiveKind::Broadcast, served(1)) == 0);
  // Two vectors through a port, both added.
  CHECK(time(kNeighbours, CollectiveKind::AllReduce, {}) == Approx(7e-6 + 4000e-6 + 1600e-6));
  // Half of the vector goes to the partner, both ways at a time.
  CHECK(time(partners_at(2), CollectiveKind::AllGather, {{}, 2}) == Approx(7e-6 + 1000e-6));
  CHECK(Play(steps_of_all({partners_at(2), CollectiveKind::AllGather, 4, {{}, 2}, 1'000'000}), clock_of(one_level())).run() ==
        Approx(7e-6 + 1000e-6).epsilon(1e-9));
  // Played step by step the same.
  for (const auto& servers : {Servers(1), Servers(2), Servers(), Servers(std::vector{2}), Servers(std::vector{0, 3})})
    for (const auto kind : {CollectiveKind::ReduceScatter, CollectiveKind::AllGather}) {
      const MeetingTerms terms{servers};
      const double played = Play(steps_of_all({std::string(kServers), kind, 4, terms, 1'000'000}), clock_of(one_level())).run();
      INFO("servers " << to_text(servers));
      CHECK(played <= time(kServers, kind, terms) * (1 + 1e-9));
      if (servers.count(4) != 2) CHECK(played == Approx(time(kServers, kind, terms)).epsilon(1e-9));
    }
  CHECK(meeting_row("ring") == nullptr);
}

TEST_CASE("where servers stand is seen in the time that meetings take") {
  // 8 ranks, 4 a node, 4 MB: in a node 1 us and 9 GB/s a message, between nodes 7 us and 2 GB/s of a node.
  auto links = one_level();
  links.ranks_per_node = 4;
  links.node_outer = links.outer_bandwidth;
  const auto time = [&](const Servers& servers) {
    return meeting_row(kServers)->closed_form(CollectiveKind::AllGather, 8, Bytes(4e6), links, {servers}).value();
  };
  // One server: of its 7 partners 3 are in its node.
  CHECK(time(Servers(std::vector{5})) == Approx(3 * (1e-6 + 4e6 / 9e9) + 4 * (7e-6 + 4e6 / 2e9)));
  CHECK(time(Servers(std::vector{5})) == Approx(time(Servers(1))));
  // Two in two nodes, as far apart as can be: as when they are spread evenly.
  CHECK(time(Servers(std::vector{0, 4})) == Approx(time(Servers(2))));
  // Ranks 0 and 1 are in one node. In step 1 rank 0 has a message from rank 7 and rank 1 from rank 0, in steps 2 to 4 both have one from
  // the other node, through one card, in step 5 rank 1 alone, in steps 6 and 7 neither has.
  const double one = 7e-6 + 2e6 / 2e9, two = 7e-6 + 4e6 / 2e9, inside = 1e-6 + 2e6 / 9e9;
  CHECK(time(Servers(std::vector{0, 1})) == Approx(2 * one + 3 * two + 2 * inside));
}

TEST_CASE("how replicas meet is written as it is read") {
  CHECK(parse_plan("dp=4,local_steps=1,staleness=any").staleness == kAnyStaleness);
  CHECK(parse_plan("dp=4,local_steps=1,staleness=none").staleness == std::nullopt);
  CHECK(to_text(parse_plan("dp=4,local_steps=2,staleness=3,servers=2,outer=elastic")) ==
        "dp=4,local_steps=2,outer=elastic:0.9,staleness=3,servers=2");
  CHECK_THROWS_WITH(parse_plan("dp=2,staleness=-1"), contains("staleness=-1"));
  CHECK_THROWS_WITH(parse_plan("dp=2,staleness=often"), contains("any, or none"));
  CHECK(to_text(parse_plan("dp=8,local_steps=2,staleness=3,servers=at:0+4")) == "dp=8,local_steps=2,staleness=3,servers=at:0+4");
  for (const std::string wrong : {"0", "many", "-1", "99999999", "at:", "at:1+", "at:4+0", "at:2+2", "at:-1", "at:x", "1+2"}) {
    INFO(wrong);
    CHECK_THROWS_WITH(parse_plan("dp=2,servers=" + wrong), contains("servers=" + wrong) && contains("at:0+4"));
  }
  CHECK_THROWS_WITH(parse_plan("dp=2,outer=elastic:1.5"), contains("as in elastic:0.9"));
  CHECK_THROWS_WITH(parse_plan("dp=2,outer=gossip:2"), contains("takes no numbers"));
}
