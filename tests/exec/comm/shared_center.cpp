// Runs on 1 rank without mpirun and on several with it. Only CHECK, never REQUIRE: a rank that left early would keep the others waiting.
#include "exec/comm/shared_center.hpp"

#include <numeric>

#include "plan/plan.hpp"
#include "tests/catch.hpp"
#include "tests/exec/comm/session.hpp"

using namespace rehearsal;
using namespace rehearsal::exec;
using Act = SharedCenter::Act;

namespace {

std::vector<int> all_ranks() {
  std::vector<int> ranks(static_cast<std::size_t>(world().size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

void wait_for(SharedCenter& center) {
  while (center.busy()) {
    center.progress();
    world().require_neighbours();
  }
}

/// Starts what can be, for long enough that nothing more will move.
void rest(SharedCenter& center) {
  for (const double begin = now_seconds(); now_seconds() < begin + 0.05;) center.progress();
}

}  // namespace

TEST_CASE("replicas that wait for each other read the same sums, whoever serves") {
  const int ranks = world().size();
  const double sum = ranks * (ranks + 1) / 2.0;  // of what they add: 1, 2, ... each
  std::vector<plan::Servers> all{plan::Servers(), plan::Servers(std::vector{ranks - 1})};
  for (int number = 1; number <= ranks; ++number) all.emplace_back(number);
  for (const auto& servers : all) {
    INFO("servers " << to_text(servers));
    SharedCenter center(world(), {all_ranks(), servers, {{1, DType::F64}, {1003, DType::F32}}, 0});
    double number = 0.5;
    std::vector<float> vector(1003, 2.0F);
    center.start({Act::Begin, 0, &number}, "a number");
    center.start({Act::Begin, 1, vector.data()}, "a vector");
    wait_for(center);
    for (int meeting = 1; meeting <= 10; ++meeting) {
      number = world().rank() + 1;
      std::ranges::fill(vector, static_cast<float>(world().rank() + 1));
      center.start({Act::Add, 0, &number}, "a number");
      center.start({Act::Add, 1, vector.data()}, "a vector");
      center.start({Act::Read, 0, &number}, "a number");
      center.start({Act::Read, 1, vector.data()}, "a vector");
      wait_for(center);
      CHECK(number == 0.5 + meeting * sum);
      CHECK(vector == std::vector<float>(1003, static_cast<float>(2.0 + meeting * sum)));
    }
    CHECK(center.take_staleness() == 0);
  }
}

TEST_CASE("what is read first is of the meeting before") {
  const int ranks = world().size();
  SharedCenter center(world(), {all_ranks(), {}, {{64, DType::F64}}, 0});
  std::vector<double> own(64, 1.0), read(64);
  center.start({Act::Begin, 0, own.data()}, "weights");
  for (int meeting = 0; meeting < 5; ++meeting) {
    center.start({Act::Read, 0, read.data()}, "weights");
    center.start({Act::Add, 0, own.data()}, "weights");
    wait_for(center);
    CHECK(read == std::vector<double>(64, 1.0 + meeting * ranks));
  }
  center.start({Act::Agree, 0, read.data()}, "weights");
  wait_for(center);
  CHECK(read == std::vector<double>(64, 1.0 + 5 * ranks));
}

TEST_CASE("a replica is ahead of the slowest by as many meetings as it may be, and no more") {
  if (world().size() < 2) return;
  for (const std::int64_t staleness : {std::int64_t{0}, std::int64_t{1}, std::int64_t{3}, plan::kAnyStaleness}) {
    constexpr int kMeetings = 6;
    INFO(staleness << " meetings");
    SharedCenter center(world(), {all_ranks(), plan::Servers(1), {{8, DType::F64}}, staleness});
    std::vector<double> ones(8, 1.0), read(8);
    center.start({Act::Begin, 0, ones.data()}, "weights");
    wait_for(center);
    const auto meet = [&] {
      center.start({Act::Add, 0, ones.data()}, "weights");
      return center.start({Act::Read, 0, read.data()}, "weights");
    };
    world().barrier();
    if (world().rank() == 0) {
      std::vector<std::uint32_t> reads;
      for (int n = 0; n < kMeetings; ++n) reads.push_back(meet());
      rest(center);
      // Of meeting n it reads once the others have added in meeting n - staleness: of the first ones, however late they are.
      const auto alone = std::ranges::count_if(reads, [&](std::uint32_t number) { return center.done(number); });
      CHECK(alone == std::min<std::int64_t>(staleness, kMeetings));
      if (alone < kMeetings) CHECK(center.awaited() == "rank 1 to meet about 'weights'");
      CHECK(center.take_staleness() == alone);  // at its last read the others had not met at all
      world().barrier();
    } else {
      world().barrier();
      for (int n = 0; n < kMeetings; ++n) meet();
    }
    wait_for(center);
    center.start({Act::Agree, 0, read.data()}, "weights");
    wait_for(center);
    CHECK(read == std::vector<double>(8, 1.0 + kMeetings * world().size()));
  }
}

TEST_CASE("meetings of all at once wait whatever the bound") {
  if (world().size() < 2) return;
  SharedCenter center(world(), {all_ranks(), plan::Servers(1), {{8, DType::F64}}, plan::kAnyStaleness});
  std::vector<double> ones(8, 1.0), read(8);
  center.start({Act::Begin, 0, ones.data()}, "weights");
  wait_for(center);
  center.meet_at_once(true);
  if (world().rank() == 0) {
    center.start({Act::Add, 0, ones.data()}, "weights");
    center.start({Act::Read, 0, read.data()}, "weights");
    rest(center);
    CHECK(center.busy());
    world().barrier();
  } else {
    world().barrier();
    center.start({Act::Add, 0, ones.data()}, "weights");
    center.start({Act::Read, 0, read.data()}, "weights");
  }
  wait_for(center);
  CHECK(read == std::vector<double>(8, 1.0 + world().size()));
}

TEST_CASE("groups of replicas have a center each") {
  if (world().size() < 4) return;
  const int rank = world().rank();
  const std::vector<int> group = rank >= 4 ? std::vector<int>{rank} : rank % 2 == 0 ? std::vector<int>{0, 2} : std::vector<int>{1, 3};
  SharedCenter center(world(), {group, plan::Servers(1), {{3, DType::F64}}, 0});
  std::vector<double> values(3, 0.0);
  center.start({Act::Begin, 0, values.data()}, "weights");
  wait_for(center);
  std::ranges::fill(values, rank);
  center.start({Act::Add, 0, values.data()}, "weights");
  center.start({Act::Read, 0, values.data()}, "weights");
  wait_for(center);
  CHECK(values == std::vector<double>(3, std::accumulate(group.begin(), group.end(), 0)));  // 0 + 2, 1 + 3
}
