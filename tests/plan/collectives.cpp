// Every row of the table: what its steps leave on every rank, and how long they take against its closed form.
#include <algorithm>
#include <cmath>
#include <optional>

#include "base/error.hpp"
#include "plan/block.hpp"
#include "plan/collectives/collective.hpp"
#include "plan/collectives/exchange.hpp"
#include "tests/catch.hpp"
#include "tests/plan/collective_play.hpp"

using namespace rehearsal;
using namespace rehearsal::plan;
using namespace rehearsal::plan::played;

namespace {

bool inside(std::int64_t first, std::int64_t count, std::int64_t total) { return first >= 0 && count > 0 && first + count <= total; }

bool apart(std::int64_t a, std::int64_t a_count, std::int64_t b, std::int64_t b_count) { return a + a_count <= b || b + b_count <= a; }

/// Every range lies in the memory that the row asks for, and what is sent is not overwritten in the same step.
bool ranges_are_right(const CollectiveRow& row, const Steps& steps, std::int64_t count) {
  const auto ranks = static_cast<int>(steps.size());
  bool right = true;
  for (int r = 0; r < ranks; ++r) {
    const auto memory = row.memory == nullptr ? count : row.memory(r, ranks, count);
    for (const auto& s : steps[static_cast<std::size_t>(r)]) {
      right = right && (s.send_to >= 0 || s.receive_from >= 0) && (s.send_to == r) == (s.receive_from == r);
      if (s.send_to >= 0) right = right && s.send_to < ranks && inside(s.send_first, s.send_count, memory);
      if (s.receive_from >= 0) right = right && s.receive_from < ranks && inside(s.receive_first, s.receive_count, memory);
      if (s.send_to < 0 || s.receive_from < 0 || s.reduce) continue;
      right = right && apart(s.send_first, s.send_count, s.receive_first, s.receive_count);
    }
  }
  return right;
}

CollectiveLinks links_with(int ranks_per_node) {
  return {Seconds(1e-6), Seconds(7e-6), BytesPerSecond(9e9), BytesPerSecond(2e9), BytesPerSecond(5e9), ranks_per_node};
}

/// Powers of two of rank and element: sums are exact, and a missing or doubled addend changes them.
double initial(int rank, std::int64_t element) { return static_cast<double>((element % 5 + 1) << (2 * rank)); }

/// What rank `rank` must hold at `element` of its memory afterwards; nothing where the row promises nothing.
std::optional<double> expected(CollectiveKind kind, int rank, int ranks, std::int64_t element, std::int64_t count) {
  if (kind == CollectiveKind::AllToAll) {
    const auto own = block(count, ranks, rank);
    if (element < count || own.count() == 0 || element >= count + ranks * own.count()) return {};
    const auto from = (element - count) / own.count();
    return initial(static_cast<int>(from), own.begin + (element - count) % own.count());
  }
  if (element >= count) return {};
  double sum = 0.0;
  for (int r = 0; r < ranks; ++r) sum += initial(r, element);
  int owner = 0;
  while (element >= block(count, ranks, owner).end) ++owner;
  switch (kind) {
    case CollectiveKind::AllReduce:
      return sum;
    case CollectiveKind::Broadcast:
      return initial(0, element);
    case CollectiveKind::ReduceScatter:
      return owner == rank ? std::optional(sum) : std::nullopt;
    case CollectiveKind::Reduce:
      return rank == 0 ? std::optional(sum) : std::nullopt;
    case CollectiveKind::AllGather:
      return initial(owner, element);
    default:
      FAIL("no expectation for this kind");
      return {};
  }
}

void check_data(const CollectiveRow& row, int ranks, std::int64_t count, int ranks_per_node) {
  INFO(row.name << " (" << name(row.kind) << "), " << ranks << " ranks, " << ranks_per_node << " per node, " << count << " elements");
  const Steps steps = all_steps(row, ranks, count, ranks_per_node);
  REQUIRE(ranges_are_right(row, steps, count));
  Play play(steps, clock_of(links_with(ranks_per_node)));
  for (int r = 0; r < ranks; ++r) {
    const auto size = row.memory == nullptr ? count : row.memory(r, ranks, count);
    auto& vector = play.memory.emplace_back(static_cast<std::size_t>(size), -1.0);
    for (std::int64_t e = 0; e < count; ++e) vector[static_cast<std::size_t>(e)] = initial(r, e);
  }
  REQUIRE(play.run() >= 0);
  bool right = true;
  for (int r = 0; r < ranks; ++r)
    for (std::size_t e = 0; e < play.memory[static_cast<std::size_t>(r)].size(); ++e) {
      const auto wanted = expected(row.kind, r, ranks, static_cast<std::int64_t>(e), count);
      right = right && (!wanted || play.memory[static_cast<std::size_t>(r)][e] == *wanted);
    }
  CHECK(right);
}

double played_seconds(const CollectiveRow& row, int ranks, std::int64_t count, const CollectiveLinks& links) {
  const Steps steps = all_steps(row, ranks, count, links.ranks_per_node);
  return Play(steps, clock_of(links)).run();
}

/// Where all ranks are at home in one node, on the better, or the worse, of the two kinds of links.
CollectiveLinks uniform(CollectiveLinks links, bool best) {
  links.inner_latency = best ? std::min(links.inner_latency, links.outer_latency) : std::max(links.inner_latency, links.outer_latency);
  links.inner_bandwidth =
      best ? std::max(links.inner_bandwidth, links.outer_bandwidth) : std::min(links.inner_bandwidth, links.outer_bandwidth);
  links.outer_latency = links.inner_latency;
  links.outer_bandwidth = links.inner_bandwidth;
  return links;
}

}  // namespace

TEST_CASE("every collective gives every rank what its kind promises") {
  for (const auto& row : collective_table())
    for (const int ranks : {1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 16})
      for (const std::int64_t count : {0, 1, 7, 64, 1000})
        for (const int ranks_per_node : {1, 2, 3, 4, 16}) check_data(row, ranks, count, ranks_per_node);
}

TEST_CASE("parts of several tensors are sharded and gathered together") {
  // By 3 ranks: 1, 2, 2 pieces of 3 elements, 0, 1, 1 of 4 and 2 of 1 each: 5, 12 and 12 of 29.
  const std::vector<DealtOut> three{{5, 3}, {2, 4}, {6, 1}};
  CHECK(begin_of_part(three, 3, 1) == 5);
  CHECK(begin_of_part(three, 3, 2) == 17);
  CHECK(begin_of_part(three, 3, 3) == 29);
  for (const auto& row : collective_table()) {
    if (row.kind != CollectiveKind::AllGather && row.kind != CollectiveKind::ReduceScatter) continue;
    for (const auto& dealt : {three, std::vector<DealtOut>{{1, 7}}, std::vector<DealtOut>{{40, 2}, {3, 9}, {11, 1}}})
      for (const int ranks : {1, 2, 3, 4, 5, 6, 8, 9, 12})
        for (const int ranks_per_node : {1, 2, 3, 4})
          for (const std::int64_t times : {1, 3}) {
            INFO(row.name << " (" << name(row.kind) << "), " << ranks << " ranks, " << ranks_per_node << " per node");
            const std::int64_t count = times * begin_of_part(dealt, ranks, ranks);
            Steps steps;
            for (int r = 0; r < ranks; ++r) steps.push_back(steps_in_parts(row, {r, ranks, count, ranks_per_node, dealt}));
            REQUIRE(ranges_are_right(row, steps, count));
            Play play(steps, clock_of(links_with(ranks_per_node)));
            for (int r = 0; r < ranks; ++r) {
              auto& vector = play.memory.emplace_back(static_cast<std::size_t>(2 * count), -1.0);
              for (std::int64_t e = 0; e < count; ++e) vector[static_cast<std::size_t>(e)] = initial(r, e);
            }
            REQUIRE(play.run() >= 0);
            bool right = true;
            for (int r = 0; r < ranks; ++r)
              for (int owner = 0; owner < ranks; ++owner)
                for (auto e = times * begin_of_part(dealt, ranks, owner); e < times * begin_of_part(dealt, ranks, owner + 1); ++e) {
                  double sum = 0;
                  for (int other = 0; other < ranks; ++other) sum += initial(other, e);
                  const auto found = play.memory[static_cast<std::size_t>(r)][static_cast<std::size_t>(e)];
                  if (row.kind == CollectiveKind::AllGather) right = right && found == initial(owner, e);
                  if (row.kind == CollectiveKind::ReduceScatter && owner == r) right = right && found == sum;
                }
            CHECK(right);
          }
  }
}

TEST_CASE("pipelined trees move many chunks") {
  // 40,000 elements: 2 chunks of each half of the double tree, 2 of the packed trees; 200,000: 12 of each
  for (const auto name_of_row : {"double-tree", "packed-trees"})
    for (const int ranks : {2, 3, 5, 6, 7, 8, 13})
      for (const std::int64_t count : {40'000, 200'000}) check_data(collective(CollectiveKind::AllReduce, name_of_row), ranks, count, 1);
}

TEST_CASE("steps take the time of the closed form where blocks are of one size, pipelines at most that") {
  for (const auto& row : collective_table())
    for (const int ranks : {1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 20, 24, 32})
      for (const int ranks_per_node : {1, 2, 4, 8, 64}) {
        const bool one_level = ranks_per_node == 1 || ranks_per_node >= ranks;
        if (!one_level && ranks % ranks_per_node != 0) continue;
        const std::int64_t count = 32 * 3 * 5 * 7 * 9;  // divisible by every number of ranks above
        const auto links = links_with(ranks_per_node);
        INFO(row.name << " (" << name(row.kind) << "), " << ranks << " ranks, " << ranks_per_node << " per node");
        const double closed = row.closed_form(ranks, Bytes(4.0 * count), links).value();
        const double played = played_seconds(row, ranks, count, links);
        if (row.exact) CHECK(closed == Approx(played).epsilon(1e-9).margin(1e-15));
        // a chunk may be one element longer than the others, on every way that it goes: less than 1 %
        CHECK(played <= closed * 1.01 + 1e-15);
        CHECK(closed * 1.01 + 1e-15 >= busiest_rank(all_steps(row, ranks, count, ranks_per_node), clock_of(links)));
      }
}

TEST_CASE("uneven blocks stay between the closed form of blocks of the smallest size and of the largest") {
  // A message that gets longer never makes anything end earlier. A block of block() has the floor of its share or one element more, and
  // halving or cutting into chunks rounds once per level or chunk: `ranks` elements more or less cover all of them, 256 the chunks.
  for (const auto& row : collective_table())
    for (const int ranks : {2, 3, 5, 6, 7, 8, 9, 16})
      for (const std::int64_t count : {64, 1000, 12345})
        for (const int ranks_per_node : {1, 64}) {
          const auto links = links_with(ranks_per_node);
          const double played = played_seconds(row, ranks, count, links);
          const auto slack = row.exact ? ranks : 256;
          INFO(row.name << " (" << name(row.kind) << "), " << ranks << " ranks, " << ranks_per_node << " per node, " << count
                        << " elements");
          CHECK(played <= row.closed_form(ranks, Bytes(4.0 * static_cast<double>(count + slack)), links).value() * (1 + 1e-12));
          if (row.exact)
            CHECK(played >= row.closed_form(ranks, Bytes(4.0 * static_cast<double>(count - ranks)), links).value() * (1 - 1e-12));
        }
}

TEST_CASE(
    "nodes that do not divide the ranks take no longer than the closed form, which is between those of the best and the worst links") {
  // A link that gets faster never makes anything end later: with the best links everywhere the steps take no longer than with these.
  for (const auto& row : collective_table())
    for (const int ranks : {3, 5, 6, 7, 9, 16})
      for (const int ranks_per_node : {2, 3, 4, 5}) {
        const auto links = links_with(ranks_per_node);
        const std::int64_t count = 16 * 3 * 5 * 7 * 9;
        const Bytes size(4.0 * count);
        INFO(row.name << " (" << name(row.kind) << "), " << ranks << " ranks, " << ranks_per_node << " per node");
        const double closed = row.closed_form(ranks, size, links).value();
        const double played = played_seconds(row, ranks, count, links);
        CHECK(played <= closed * (row.exact ? 1 + 1e-9 : 1.01));
        const bool same_steps = row.name != "hierarchical";  // the steps of the others do not look at nodes
        if (row.exact && same_steps) CHECK(played >= row.closed_form(ranks, size, uniform(links, true)).value() * (1 - 1e-9));
        if (same_steps) CHECK(closed <= row.closed_form(ranks, size, uniform(links, false)).value() * (1 + 1e-9));
        CHECK(played >= busiest_rank(all_steps(row, ranks, count, ranks_per_node), clock_of(links)) * (1 - 1e-9));
      }
}

TEST_CASE("a ring takes its slowest link in every step, wherever nodes end") {
  // whoever receives over that link does so in all of its steps
  for (const auto kind : {CollectiveKind::AllReduce, CollectiveKind::AllGather, CollectiveKind::ReduceScatter})
    for (const int ranks : {3, 5, 6, 7, 9, 16})
      for (const int ranks_per_node : {2, 3, 4, 5}) {
        const auto links = links_with(ranks_per_node);
        const std::int64_t count = 16 * 3 * 5 * 7 * 9;
        const auto& row = collective(kind, "ring");
        INFO(name(kind) << ", " << ranks << " ranks, " << ranks_per_node << " per node");
        CHECK(played_seconds(row, ranks, count, links) == Approx(row.closed_form(ranks, Bytes(4.0 * count), links).value()).epsilon(1e-9));
      }
}

TEST_CASE("a wrong closed form, and steps that wait for ever, are noticed") {
  const auto& ring = collective(CollectiveKind::AllReduce, "ring");
  Steps steps = all_steps(ring, 4, 400, 1);
  const auto links = links_with(1);
  steps[2].pop_back();
  CHECK(Play(steps, clock_of(links)).run() < 0);
  CHECK(ring.closed_form(5, Bytes(1600), links).value() != Approx(played_seconds(ring, 4, 400, links)).epsilon(1e-9));
}

TEST_CASE("closed forms by hand") {
  // 4 ranks, one per node, 4 MB: latency 7 us, 2 GB/s, additions at 5 GB/s
  const auto links = links_with(1);
  const Bytes size(4e6);
  // 6 steps of 7 us + 1 MB / 2 GB/s, 3 additions of 1 MB: 6 x 507 us + 3 x 200 us
  CHECK(collective(CollectiveKind::AllReduce, "ring").closed_form(4, size, links).value() == Approx(3642e-6));
  // 2 steps of 7 us + 4 MB / 2 GB/s + 4 MB / 5 GB/s: 2 x (7 + 2000 + 800) us
  CHECK(collective(CollectiveKind::AllReduce, "recursive-doubling").closed_form(4, size, links).value() == Approx(5614e-6));
  // 2 MB then 1 MB, there and back: 4 x 7 + 2 x (1000 + 500) + (400 + 200) us
  CHECK(collective(CollectiveKind::AllReduce, "halving-doubling").closed_form(4, size, links).value() == Approx(3628e-6));
  // the same messages between others: 4 ranks meet those 1 and then 1 the other way apart
  CHECK(collective(CollectiveKind::AllReduce, "swing").closed_form(4, size, links).value() == Approx(3628e-6));
  // 2 ranks on each of 2 nodes: ranks meet the other of their node first, then one of the other node, both at a time over links of their
  // own: 2 x (1 + 2 MB / 9 GB/s = 222.222) + 400; 2 x (7 + 500) + 200 us
  CHECK(collective(CollectiveKind::AllReduce, "swing").closed_form(4, size, links_with(2)).value() == Approx(2060.444e-6).epsilon(1e-6));
  // Levels of 2 ranks that are 1 and 2 apart: 2 x (7 + 1000) + 400, 2 x (7 + 500) + 200 us; 3 ranks are one level, as in a ring
  CHECK(collective(CollectiveKind::AllReduce, "blueconnect").closed_form(4, size, links).value() == Approx(3628e-6));
  CHECK(collective(CollectiveKind::AllReduce, "blueconnect").closed_form(3, size, links).value() ==
        Approx(collective(CollectiveKind::AllReduce, "ring").closed_form(3, size, links).value()));
  // 2 ranks on each of 2 nodes: inside 2 x (1 + 2 MB / 9 GB/s = 222.222) + 400; across 2 x (7 + 1 MB / 2 GB/s = 500) + 200 us
  CHECK(collective(CollectiveKind::AllReduce, "hierarchical").closed_form(4, size, links_with(2)).value() ==
        Approx(2060.444e-6).epsilon(1e-6));
  // up 2 levels of 7 + 2000 + 800 us, down 2 of 2007
  CHECK(collective(CollectiveKind::AllReduce, "binomial-tree").closed_form(4, size, links).value() == Approx(9628e-6));
  // 3 ranks besides the root: trees 0-2-{1,3} and 0-1-{2,3}; with one chunk a half 2 MB goes down in at most 4 slots, up in as many:
  // D (2 x (7 + 1000) + 400) us with D = 2, 3 or 4
  const double double_tree = collective(CollectiveKind::AllReduce, "double-tree").closed_form(4, Bytes(4e4), links).value();
  CHECK(std::remainder(double_tree, 2 * (7e-6 + 1e-5) + 4e-6) == Approx(0).margin(1e-12));
  CHECK(double_tree <= 4 * (2 * (7e-6 + 1e-5) + 4e-6) * (1 + 1e-12));
  // 6 ranks: 2 pairs fold, so that 4 positions stand for 2, 2, 1, 1 blocks of 1 MB: 1 MB; 2 MB; 4 MB; all 6 MB back
  CHECK(collective(CollectiveKind::AllGather, "recursive-doubling").closed_form(6, Bytes(6e6), links).value() == Approx(6528e-6));
  // 6 ranks: 1, 2 and then the last 2 blocks of 1 MB: 3 x 7 + 500 + 1000 + 1000 us
  CHECK(collective(CollectiveKind::AllGather, "bruck").closed_form(6, Bytes(6e6), links).value() == Approx(2521e-6));
  // 4 ranks: 2 MB and 1 MB sent and added: 2 x 7 + 1000 + 400 + 500 + 200 us
  CHECK(collective(CollectiveKind::ReduceScatter, "recursive-halving").closed_form(4, size, links).value() == Approx(2114e-6));
  // 2 ranks on each of 2 nodes: inside 1 + 2 MB / 9 GB/s = 222.222 + 400 us of additions; across 7 + 1 MB / 2 GB/s = 500, + 200 us
  CHECK(collective(CollectiveKind::ReduceScatter, "hierarchical").closed_form(4, size, links_with(2)).value() ==
        Approx(1330.222e-6).epsilon(1e-6));
  CHECK(collective(CollectiveKind::AllGather, "hierarchical").closed_form(4, size, links_with(2)).value() ==
        Approx(730.222e-6).epsilon(1e-6));
  // 3 steps of 7 + 500 + 200 us
  CHECK(collective(CollectiveKind::ReduceScatter, "pairwise").closed_form(4, size, links).value() == Approx(2121e-6));
  // 2 MB, 1 MB down the tree, then 3 times 1 MB around: 2014 + ... = 5 x 7 + 1000 + 500 + 1500 us
  CHECK(collective(CollectiveKind::Broadcast, "scatter-all-gather").closed_form(4, size, links).value() == Approx(3035e-6));
  // as halving-doubling, since what is collected halves in number of ranks, not in bytes: 4 x 7 + 2 x 1500 + 600 us
  CHECK(collective(CollectiveKind::Reduce, "rabenseifner").closed_form(4, size, links).value() == Approx(3628e-6));
  CHECK(collective(CollectiveKind::Reduce, "binomial").closed_form(4, size, links).value() == Approx(5614e-6));
  // 3 steps of 7 + 500 us; and 2 of 7 + 1000 us with ways {1, 3} and {2, 3}
  CHECK(collective(CollectiveKind::AllToAll, "pairwise").closed_form(4, size, links).value() == Approx(1521e-6));
  CHECK(collective(CollectiveKind::AllToAll, "bruck").closed_form(4, size, links).value() == Approx(2014e-6));
  // 3 ranks: 2 levels of 7 us + 2000 us
  CHECK(collective(CollectiveKind::Broadcast, "binomial").closed_form(3, size, links).value() == Approx(4014e-6));
}

TEST_CASE("blueconnect adds on as many levels as the number of nodes has factors") {
  const auto& row = collective(CollectiveKind::AllReduce, "blueconnect");
  const auto partners = [&](int rank, int ranks, int per_node) {
    std::vector<int> all;
    for (const auto& s : row.steps(rank, ranks, 960, per_node)) all.push_back(s.send_to);
    return all;
  };
  // 6 nodes of 2: the other one of the node, the node beside it, then round three pairs of nodes.
  CHECK(partners(0, 12, 2) == std::vector<int>{1, 2, 4, 4, 4, 4, 2, 1});
  CHECK(partners(11, 12, 2) == std::vector<int>{10, 9, 3, 3, 3, 3, 9, 10});
  CHECK(partners(4, 5, 1) == std::vector<int>(8, 0));              // a prime: one ring
  CHECK(partners(0, 6, 4) == std::vector<int>{1, 2, 2, 2, 2, 1});  // nodes of 4 and 2: the numbers of ranks alone
  std::vector<std::int64_t> sent;
  for (const auto& s : row.steps(0, 12, 960, 2)) sent.push_back(s.send_count);
  CHECK(sent == std::vector<std::int64_t>{480, 240, 80, 80, 80, 80, 240, 480});
  for (const auto& [ranks, per_node] : std::vector<std::pair<int, int>>{{12, 1}, {30, 1}, {12, 12}, {24, 2}, {48, 4}, {56, 8}}) {
    INFO(ranks << " ranks, " << per_node << " on a node");
    const std::int64_t count = 32 * 3 * 5 * 7;
    const auto links = links_with(per_node);
    CHECK(row.closed_form(ranks, Bytes(4.0 * count), links).value() == Approx(played_seconds(row, ranks, count, links)).epsilon(1e-9));
  }
  // 64 nodes of 8, 1 MB: 126 - 12 messages across nodes of 7 us less than one ring between nodes has, all else being equal.
  const auto time = [&](const char* name) {
    return collective(CollectiveKind::AllReduce, name).closed_form(512, Bytes(1e6), links_with(8)).value();
  };
  CHECK(time("hierarchical") - time("blueconnect") == Approx(114 * 7e-6).epsilon(1e-6));
}

TEST_CASE("swing stays a third as far as halving and doubling, and is as quick where ways cost nothing") {
  const auto& swing = collective(CollectiveKind::AllReduce, "swing");
  // 16 ranks: 1, -1, 3, -5 from even ranks (De Sensi et al., figure 2)
  std::vector<int> partners;
  for (const auto& s : swing.steps(6, 16, 1600, 1)) partners.push_back(s.send_to);
  CHECK(partners == std::vector<int>{7, 5, 9, 1, 1, 9, 5, 7});
  const std::int64_t count = 32 * 3 * 5 * 7 * 9;
  const auto links = links_with(1);
  for (const int ranks : {2, 3, 4, 6, 8, 12, 16, 32}) {
    INFO(ranks << " ranks");
    const double closed = swing.closed_form(ranks, Bytes(4.0 * count), links).value();
    CHECK(closed == Approx(played_seconds(swing, ranks, count, links)).epsilon(1e-9));
    CHECK(closed ==
          Approx(collective(CollectiveKind::AllReduce, "halving-doubling").closed_form(ranks, Bytes(4.0 * count), links).value()));
  }
}

TEST_CASE("the best all-reduce follows size and levels") {
  const auto best = [](int ranks, double bytes, int per_node) {
    return best_collective(CollectiveKind::AllReduce, ranks, Bytes(bytes), links_with(per_node)).name;
  };
  CHECK(best(16, 4, 1) == "recursive-doubling");  // latency alone counts: 4 messages instead of 8 or 30
  CHECK(best(16, 1e5, 1) == "halving-doubling");  // few messages that move no byte twice
  CHECK(best(7, 1e9, 1) == "ring");               // no power of two: folding would send the whole vector twice
  CHECK(best(14, 1e9, 7) == "hierarchical");      // most bytes stay inside a node; blueconnect has the same two levels
  CHECK(best(28, 1e9, 7) == "blueconnect");       // 4 nodes: two levels of 2 in place of a ring of 4
}

TEST_CASE("two levels move most bytes inside nodes, whatever the kind") {
  for (const auto kind : {CollectiveKind::AllReduce, CollectiveKind::ReduceScatter, CollectiveKind::AllGather}) {
    INFO(name(kind));
    CHECK(best_collective(kind, 35, Bytes(1e9), links_with(7)).name == "hierarchical");
    const auto sent_across = [&](const char* algorithm) {
      std::int64_t most = 0;
      for (int r = 0; r < 64; ++r) {
        std::int64_t elements = 0;
        for (const auto& s : collective(kind, algorithm).steps(r, 64, 64'000, 8)) elements += s.send_to / 8 == r / 8 ? 0 : s.send_count;
        most = std::max(most, elements);
      }
      return most;
    };
    // Of 64,000 elements each rank sends 7 of 8 blocks of its eighth to other nodes, once or twice; in a ring, the last of a node sends 63
    // of 64 blocks of all.
    const int times = kind == CollectiveKind::AllReduce ? 2 : 1;
    CHECK(sent_across("hierarchical") == times * 7'000);
    CHECK(sent_across("ring") == times * 63'000);
  }
}

TEST_CASE("an unknown algorithm is refused with the known ones of its kind") {
  CHECK_THROWS_AS(collective(CollectiveKind::AllReduce, "tree"), BadInput);
  CHECK_THROWS_WITH(collective(CollectiveKind::AllReduce, "binomial"),
                    contains("ring, recursive-doubling, halving-doubling, hierarchical"));
  CHECK_THROWS_WITH(collective(CollectiveKind::AllToAll, "ring"), contains("known algorithms: pairwise, bruck"));
}

TEST_CASE("a broadcast may start at any rank of its group") {
  Program program;
  program.ranks = 5;
  program.axes = {{"dp", 5, 1}};
  const std::int64_t count = 11;
  for (int root = 0; root < 5; ++root)
    for (const auto* algorithm : {"binomial", "scatter-all-gather"}) {
      INFO(algorithm << " from " << root);
      CollectiveInfo info;
      info.kind = CollectiveKind::Broadcast;
      info.algorithm = algorithm;
      info.root = root;
      Steps steps;
      for (int rank = 0; rank < 5; ++rank) steps.push_back(steps_of(program, info, Role{}, {rank, 0, count, 4, 5}));
      Play play(steps, clock_of(links_with(5)));
      for (int rank = 0; rank < 5; ++rank) {
        auto& memory = play.memory.emplace_back();
        for (std::int64_t e = 0; e < count; ++e) memory.push_back(initial(rank, e));
      }
      CHECK(play.run() > 0);
      for (const auto& memory : play.memory)
        for (std::int64_t e = 0; e < count; ++e) CHECK(memory[static_cast<std::size_t>(e)] == initial(root, e));
    }
}
