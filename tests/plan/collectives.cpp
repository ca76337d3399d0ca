// Plays the steps of all ranks of every collective: on data, and on a clock that knows latency, bandwidth and the rate of additions.
#include <algorithm>
#include <deque>
#include <map>
#include <numeric>
#include <optional>

#include "base/error.hpp"
#include "plan/block.hpp"
#include "plan/collectives/collective.hpp"
#include "tests/catch.hpp"

using namespace rehearsal;
using namespace rehearsal::plan;

namespace {

using Steps = std::vector<std::vector<CollectiveStep>>;

Steps all_steps(const CollectiveRow& row, int ranks, std::int64_t count, int ranks_per_node) {
  Steps steps;
  for (int r = 0; r < ranks; ++r) steps.push_back(row.steps(r, ranks, count, ranks_per_node));
  return steps;
}

bool inside(std::int64_t first, std::int64_t count, std::int64_t total) { return first >= 0 && count > 0 && first + count <= total; }

/// Every range lies in the vector, no rank talks to itself, and what is sent is not overwritten in the same step.
void check_ranges(const Steps& steps, std::int64_t count) {
  const auto ranks = static_cast<int>(steps.size());
  for (int r = 0; r < ranks; ++r)
    for (const auto& s : steps[static_cast<std::size_t>(r)]) {
      REQUIRE((s.send_to >= 0 || s.receive_from >= 0));
      if (s.send_to >= 0) REQUIRE((s.send_to < ranks && s.send_to != r && inside(s.send_first, s.send_count, count)));
      if (s.receive_from >= 0) REQUIRE((s.receive_from < ranks && s.receive_from != r && inside(s.receive_first, s.receive_count, count)));
      if (s.send_to < 0 || s.receive_from < 0 || s.reduce) continue;
      REQUIRE((s.send_first + s.send_count <= s.receive_first || s.receive_first + s.receive_count <= s.send_first));
    }
}

/// Hands messages over pair by pair in order, blocking on both sides as sendrecv does.
class Play {
 public:
  Play(const Steps& steps, const CollectiveLinks& links, double bytes_per_element)
      : steps_(steps), links_(links), bytes_(bytes_per_element), ranks_(steps.size()) {}

  std::vector<std::vector<double>> vectors;  ///< by rank; may stay empty when only time matters

  /// Seconds until the last rank is done. Fails the test when ranks wait for each other for ever.
  double run() {
    for (std::size_t r = 0; r < ranks_.size(); ++r) begin_step(r);
    bool moved = true;
    while (moved) {
      moved = false;
      for (std::size_t r = 0; r < ranks_.size(); ++r) moved = send(r) || moved;
    }
    double end = 0.0;
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      INFO("rank " << r << " stands at step " << ranks_[r].next);
      REQUIRE(ranks_[r].next == steps_[r].size());
      end = std::max(end, ranks_[r].clock);
    }
    return end;
  }

 private:
  struct Rank {
    std::size_t next = 0;
    bool sent = true, received = true;
    double clock = 0.0, ends = 0.0;
    std::vector<double> outgoing, incoming;
  };

  [[nodiscard]] const CollectiveStep* step(std::size_t r) const {
    return ranks_[r].next < steps_[r].size() ? &steps_[r][ranks_[r].next] : nullptr;
  }

  void begin_step(std::size_t r) {
    auto& me = ranks_[r];
    const auto* s = step(r);
    if (s == nullptr) return;
    me.sent = s->send_to < 0;
    me.received = s->receive_from < 0;
    me.ends = me.clock;
    if (!vectors.empty() && !me.sent)
      me.outgoing.assign(vectors[r].begin() + s->send_first, vectors[r].begin() + s->send_first + s->send_count);
  }

  bool send(std::size_t r) {
    const auto* s = step(r);
    if (s == nullptr || ranks_[r].sent) return false;
    const auto to = static_cast<std::size_t>(s->send_to);
    const auto* other = step(to);
    if (other == nullptr || ranks_[to].received || other->receive_from != static_cast<int>(r)) return false;
    REQUIRE(other->receive_count == s->send_count);
    const bool outer = static_cast<int>(r) / links_.ranks_per_node != s->send_to / links_.ranks_per_node;
    const Bytes size(static_cast<double>(s->send_count) * bytes_);
    const Seconds message =
        outer ? links_.outer_latency + size / links_.outer_bandwidth : links_.inner_latency + size / links_.inner_bandwidth;
    const double arrives = std::max(ranks_[r].clock, ranks_[to].clock) + message.value();
    const double added = arrives + (other->reduce ? (size / links_.reduction).value() : 0.0);
    ranks_[to].incoming = ranks_[r].outgoing;
    ranks_[r].sent = ranks_[to].received = true;
    ranks_[r].ends = std::max(ranks_[r].ends, arrives);
    ranks_[to].ends = std::max(ranks_[to].ends, added);
    end_step(r);
    end_step(to);
    return true;
  }

  void end_step(std::size_t r) {
    auto& me = ranks_[r];
    if (!me.sent || !me.received) return;
    const auto& s = steps_[r][me.next];
    for (std::size_t i = 0; !vectors.empty() && s.receive_from >= 0 && i < me.incoming.size(); ++i) {
      auto& own = vectors[r][static_cast<std::size_t>(s.receive_first) + i];
      own = s.reduce ? own + me.incoming[i] : me.incoming[i];
    }
    me.clock = me.ends;
    ++me.next;
    begin_step(r);
  }

  const Steps& steps_;
  CollectiveLinks links_;
  double bytes_;
  std::vector<Rank> ranks_;
};

CollectiveLinks links_with(int ranks_per_node) {
  return {Seconds(1e-6), Seconds(7e-6), BytesPerSecond(9e9), BytesPerSecond(2e9), BytesPerSecond(5e9), ranks_per_node};
}

/// Powers of two of rank and element: sums are exact, and a missing or doubled addend changes them.
double initial(int rank, std::int64_t element) { return static_cast<double>((element % 5 + 1) << (2 * rank)); }

/// What rank `r` must hold at `element` afterwards; nothing where the row promises nothing.
std::optional<double> expected(CollectiveKind kind, int rank, int ranks, std::int64_t element, std::int64_t count) {
  double sum = 0.0;
  for (int r = 0; r < ranks; ++r) sum += initial(r, element);
  const auto holds = [&](int r) {
    const Range b = block(count, ranks, r);
    return element >= b.begin && element < b.end;
  };
  switch (kind) {
    case CollectiveKind::AllReduce:
      return sum;
    case CollectiveKind::Broadcast:
      return initial(0, element);
    case CollectiveKind::ReduceScatter:
      return holds(rank) ? std::optional(sum) : std::nullopt;
    case CollectiveKind::AllGather:
      for (int r = 0; r < ranks; ++r)
        if (holds(r)) return initial(r, element);
      [[fallthrough]];
    default:
      FAIL("no expectation for this kind");
      return {};
  }
}

void check_data(const CollectiveRow& row, int ranks, std::int64_t count, int ranks_per_node) {
  INFO(row.name << " (" << name(row.kind) << "), " << ranks << " ranks, " << ranks_per_node << " per node, " << count << " elements");
  const Steps steps = all_steps(row, ranks, count, ranks_per_node);
  check_ranges(steps, count);
  Play play(steps, links_with(ranks_per_node), 4.0);
  for (int r = 0; r < ranks; ++r) {
    auto& vector = play.vectors.emplace_back(static_cast<std::size_t>(count));
    for (std::int64_t e = 0; e < count; ++e) vector[static_cast<std::size_t>(e)] = initial(r, e);
  }
  play.run();
  bool right = true;
  for (int r = 0; r < ranks; ++r)
    for (std::int64_t e = 0; e < count; ++e) {
      const auto wanted = expected(row.kind, r, ranks, e, count);
      right = right && (!wanted || play.vectors[static_cast<std::size_t>(r)][static_cast<std::size_t>(e)] == *wanted);
    }
  CHECK(right);
}

double played_seconds(const CollectiveRow& row, int ranks, std::int64_t count, const CollectiveLinks& links) {
  const Steps steps = all_steps(row, ranks, count, links.ranks_per_node);
  return Play(steps, links, 4.0).run();
}

}  // namespace

TEST_CASE("every collective gives every rank what its kind promises") {
  for (const auto& row : collective_table())
    for (const int ranks : {1, 2, 3, 4, 5, 6, 7, 8, 9, 16})
      for (const std::int64_t count : {0, 1, 7, 64, 1000})
        for (const int ranks_per_node : {1, 2, 3, 4, 16}) check_data(row, ranks, count, ranks_per_node);
}

TEST_CASE("steps take exactly the time of the closed form where blocks are of one size") {
  for (const auto& row : collective_table())
    for (const int ranks : {1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 20, 24, 32})
      for (const int ranks_per_node : {1, 2, 4, 8, 64}) {
        const bool one_level = ranks_per_node == 1 || ranks_per_node >= ranks;
        if (!one_level && ranks % ranks_per_node != 0) continue;
        const std::int64_t count = 32 * 3 * 5 * 7 * 9;  // divisible by every number of ranks above
        const auto links = links_with(ranks_per_node);
        INFO(row.name << " (" << name(row.kind) << "), " << ranks << " ranks, " << ranks_per_node << " per node");
        CHECK(row.closed_form(ranks, Bytes(4.0 * count), links).value() ==
              Approx(played_seconds(row, ranks, count, links)).epsilon(1e-9).margin(1e-15));
      }
}

TEST_CASE("uneven blocks and nodes stay between the closed form of one element less and of one more per block") {
  for (const auto& row : collective_table())
    for (const int ranks : {2, 3, 5, 6, 7, 8, 9, 16})
      for (const std::int64_t count : {64, 1000, 12345})
        for (const int ranks_per_node : {1, 64}) {
          const auto links = links_with(ranks_per_node);
          const double played = played_seconds(row, ranks, count, links);
          INFO(row.name << " (" << name(row.kind) << "), " << ranks << " ranks, " << ranks_per_node << " per node, " << count
                        << " elements");
          // halving rounds once per level, every other algorithm once in all: `ranks` elements more or less cover both
          CHECK(played <= row.closed_form(ranks, Bytes(4.0 * static_cast<double>(count + ranks)), links).value() * (1 + 1e-12));
          CHECK(played >= row.closed_form(ranks, Bytes(4.0 * static_cast<double>(count - ranks)), links).value() * (1 - 1e-12));
        }
}

TEST_CASE("nodes that do not divide the ranks never take longer than the closed form, which counts the slowest link of a step") {
  for (const auto& row : collective_table())
    for (const int ranks : {3, 5, 6, 7, 9, 16})
      for (const int ranks_per_node : {2, 3, 4, 5}) {
        const auto links = links_with(ranks_per_node);
        const std::int64_t count = 16 * 3 * 5 * 7 * 9;
        INFO(row.name << " (" << name(row.kind) << "), " << ranks << " ranks, " << ranks_per_node << " per node");
        const double closed = row.closed_form(ranks, Bytes(4.0 * count), links).value();
        const double played = played_seconds(row, ranks, count, links);
        CHECK(played <= closed * (1 + 1e-9));
        CHECK(played >= closed * 0.6);
      }
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
  // 2 ranks on each of 2 nodes: inside 2 x (1 + 2 MB / 9 GB/s = 222.222) + 400; across 2 x (7 + 1 MB / 2 GB/s = 500) + 200 us
  CHECK(collective(CollectiveKind::AllReduce, "hierarchical").closed_form(4, size, links_with(2)).value() ==
        Approx(2060.444e-6).epsilon(1e-6));
  // 3 ranks: 2 levels of 7 us + 2000 us
  CHECK(collective(CollectiveKind::Broadcast, "binomial").closed_form(3, size, links).value() == Approx(4014e-6));
}

TEST_CASE("the best all-reduce follows size and levels") {
  const auto best = [](int ranks, double bytes, int per_node) {
    return best_collective(CollectiveKind::AllReduce, ranks, Bytes(bytes), links_with(per_node)).name;
  };
  CHECK(best(16, 4, 1) == "recursive-doubling");  // latency alone counts: 4 messages instead of 8 or 30
  CHECK(best(16, 1e5, 1) == "halving-doubling");  // few messages that move no byte twice
  CHECK(best(7, 1e9, 1) == "ring");               // no power of two: folding would send the whole vector twice
  CHECK(best(14, 1e9, 7) == "hierarchical");      // most bytes stay inside a node
}

TEST_CASE("an unknown algorithm is refused with the known ones of its kind") {
  CHECK_THROWS_AS(collective(CollectiveKind::AllReduce, "tree"), BadInput);
  CHECK_THROWS_WITH(collective(CollectiveKind::AllReduce, "binomial"),
                    contains("ring, recursive-doubling, halving-doubling, hierarchical"));
  CHECK_THROWS_WITH(collective(CollectiveKind::AllToAll, "ring"), contains("known algorithms: none"));
}
