// Who is called a straggler, and the notes of a rank that others read.
#include "exec/play/waiting.hpp"

#include "tests/catch.hpp"

using namespace rehearsal;
using namespace rehearsal::exec;

namespace {

/// Ranks of these roles.
plan::Program program_of(const std::vector<int>& roles) {
  plan::Program program;
  program.ranks = static_cast<int>(roles.size());
  program.roles.resize(2);
  for (const int role : roles) program.role_of.push_back(static_cast<decltype(program.role_of)::value_type>(role));
  return program;
}

}  // namespace

TEST_CASE("a rank that takes longer than those that do the same is named, with who waited for it where") {
  // 1.3 s against a median of 1 s; rank 3 waited longest.
  const std::vector<RankTimes> times{
      {1.0, 0.3, "all-reduce of 'a'", 0.2}, {1.3, 0.0, "", 0}, {1.0, 0.2, "all-reduce of 'b'", 0.2}, {0.9, 0.4, "all-reduce of 'c'", 0.35}};
  const auto found = stragglers(program_of({0, 0, 0, 0}), times);
  REQUIRE(found.size() == 1);
  CHECK(found[0].rank == 1);
  CHECK(std::abs(found[0].slower - 0.3) < 1e-12);
  CHECK(found[0].awaited_by == 3);
  CHECK(found[0].awaited == "all-reduce of 'c'");
  CHECK(found[0].awaited_seconds == 0.35);
}

TEST_CASE("of two ranks the quicker one is the measure") {
  const auto found = stragglers(program_of({0, 0}), {{2.0, 0, "", 0}, {1.0, 1.0, "all-reduce of 'a'", 1}});
  REQUIRE(found.size() == 1);
  CHECK(found[0].rank == 0);
  CHECK(found[0].slower == 1);
}

TEST_CASE("ranks with other work are no measure") {
  CHECK(stragglers(program_of({0, 1}), {{2.0, 0, "", 0}, {1.0, 1.0, "", 0}}).empty());
  CHECK(stragglers(program_of({0, 0, 1, 1}), {{2.0, 0, "", 0}, {2.1, 0, "", 0}, {1.0, 1.0, "", 0}, {1.1, 0.9, "", 0}}).empty());
  CHECK(stragglers(program_of({0}), {{2.0, 0, "", 0}}).empty());
}

TEST_CASE("the slowest of several comes first") {
  const auto found =
      stragglers(program_of({0, 0, 0, 0, 0}), {{1.2, 0, "", 0}, {1, 0, "", 0}, {1, 0, "", 0}, {1.5, 0, "", 0}, {1, 0, "", 0}});
  REQUIRE(found.size() == 2);
  CHECK(found[0].rank == 3);
  CHECK(found[1].rank == 0);
}

TEST_CASE("a place on the board keeps the last notes, in order") {
  BoardPlace place;
  CHECK(place.last().empty());
  CHECK(place.state() == BoardPlace::State::Running);
  for (std::int64_t n = 0; n < 200; ++n) place.write({.doing = Doing::Playing, .step = n});
  const auto notes = place.last();
  REQUIRE(notes.size() == BoardPlace::kNotes - 1);
  for (std::size_t n = 0; n < notes.size(); ++n)
    CHECK(notes[n].step == 200 - static_cast<std::int64_t>(notes.size()) + static_cast<std::int64_t>(n));
  place.hold(true);
  place.write({.doing = Doing::Playing, .step = 4711});
  CHECK(place.last().back().step == 199);
  place.hold(false);
  place.write({.doing = Doing::Playing, .step = 4711});
  CHECK(place.last().back().step == 4711);
  CHECK(place.claim());
  CHECK(!place.claim());
}

TEST_CASE("before three steps are known the timeout follows from the predicted one") {
  CHECK(StallTime().seconds() == 60);
  StallTime time(0.5);
  CHECK(time.seconds() == 60 + 100 * 0.5);
  time.add(7), time.add(0.1);  // the first makes machine code
  CHECK(time.seconds() == 60 + 100 * 0.5);
  time.add(0.1);
  CHECK(time.seconds() == 20 + 20 * 0.1);
}

TEST_CASE("the timeout adapts to the latest steps, and one that was held up does not lengthen it") {
  StallTime time;
  for (int i = 0; i < 8; ++i) time.add(1);
  time.add(300);
  CHECK(time.seconds() == 20 + 20 * 1);
  for (int i = 0; i < 8; ++i) time.add(2);  // 2 2 2 2 2 2 2 2 300 and 1 six times: the median of 15 is 2
  CHECK(time.seconds() == 20 + 20 * 2);
}

TEST_CASE("the timeout of long steps is a few of them") {
  StallTime time;
  for (int i = 0; i < 3; ++i) time.add(600);
  CHECK(time.seconds() == 600 + 3 * 600);
  StallTime shorter;
  for (int i = 0; i < 3; ++i) shorter.add(60);
  CHECK(shorter.seconds() == 600 + 3 * 60);  // 20 + 20 * 60 is more
}

TEST_CASE("a time in which nobody looked is not waited") {
  WaitingTime waiting;
  for (const double now : {10.0, 10.25, 10.5}) waiting.look(now);
  CHECK(waiting.seconds() == 0.5);
  waiting.look(300);  // this rank was stopped itself
  CHECK(waiting.seconds() == 0.5);
  waiting.look(300.25);
  CHECK(waiting.seconds() == 0.75);
  waiting.restart();
  waiting.look(301);
  CHECK(waiting.seconds() == 0);
}
