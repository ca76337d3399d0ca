// Who is called a straggler, and the notes of a rank that others read.
#include "exec/waiting.hpp"

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
  CHECK(place.claim());
  CHECK(!place.claim());
}

TEST_CASE("the timeout is many steps long, and long enough for short ones") {
  CHECK(stall_time(0.001) > 15);
  CHECK(stall_time(0.001) < 60);
  CHECK(stall_time(60) >= 10 * 60);
}
