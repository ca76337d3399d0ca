// What collectives need beside their vectors, by hand, and as a role's buffer.
#include "plan/collectives/message_arrivals.hpp"

#include <limits>

#include "plan/collectives/exchange.hpp"
#include "tests/catch.hpp"

using namespace rehearsal;
using namespace rehearsal::plan;

namespace {

BesideVector needed(CollectiveKind kind, std::string_view algorithm, const RowMember& member) {
  return beside_vector(steps_in_parts(collective(kind, algorithm), member), member.count, {sizeof(float)});
}

}  // namespace

TEST_CASE("parts of a sum arrive in at most eight pieces at a time") {
  // Half of 1,000,000 floats are 2,000,000 bytes in pieces of 262,144: less than eight of them. Half of 4,000,000: eight.
  CHECK(needed(CollectiveKind::AllReduce, "ring", {0, 2, 1'000'000}).arrivals == 2'000'000);
  CHECK(needed(CollectiveKind::AllReduce, "ring", {0, 2, 4'000'000}).arrivals == 8 * 262'144);
  // 100,000,000 floats whole: 400,000,000 bytes in 64 pieces of 6,250,001 bytes, which hold 1,562,500 floats.
  CHECK(needed(CollectiveKind::AllReduce, "recursive-doubling", {0, 2, 100'000'000}).arrivals == 8 * 6'250'000);
  CHECK(needed(CollectiveKind::AllReduce, "ring", {0, 2, 4'000'000}).scratch == 0);
  // Nothing is added on the way to all.
  CHECK(needed(CollectiveKind::AllGather, "ring", {0, 2, 4'000'000}).arrivals == 0);
  constexpr DealtOut kThousand[]{{1'000, 1}};
  // Units of 1,000 floats: the same bytes.
  CHECK(needed(CollectiveKind::ReduceScatter, "ring", {0, 2, 1'000'000, 1, kThousand}).arrivals == 2'000'000);
}

TEST_CASE("nothing lies behind a vector of which only the parts are known") {
  constexpr auto kAnyLength = std::numeric_limits<std::int64_t>::max();
  CHECK(beside_vector(std::vector<CollectiveStep>{{1, 0, 1, 1, 1, 1}}, kAnyLength, {sizeof(float)}).scratch == 0);
}

TEST_CASE("what several send at a time has a place each, and scratch counts") {
  // Two parts of 300 and 200 floats from two ranks at once: 2,000 bytes; then 100 by themselves, 100 behind a vector of 600.
  std::vector<CollectiveStep> steps{
      {-1, 0, 0, 1, 0, 300, true, true}, {-1, 0, 0, 2, 300, 200, true, false}, {1, 600, 100, 1, 0, 100, true, false}};
  const auto beside = beside_vector(steps, 600, {sizeof(float)});
  CHECK(beside.arrivals == 2'000);
  CHECK(beside.scratch == 400);
  CHECK_FALSE(arrive_by_turns(together(steps)));
  CHECK(arrive_by_turns(together(std::span(steps).subspan(2))));
  // What is sent must have left before it is changed: a step that sends a part of what it adds to waits with all pieces.
  steps = {{1, 0, 500, 1, 100, 500, true, false}};
  CHECK_FALSE(arrive_by_turns(steps));
  steps = {{1, 0, 500, 1, 0, 500, true, false}};
  CHECK(arrive_by_turns(steps));
  // Ranges that only touch have nothing in common, on either side.
  steps = {{1, 0, 500, 1, 500, 500, true, false}};
  CHECK(arrive_by_turns(steps));
  CHECK_FALSE(overlap_of(steps).any);
  steps = {{1, 500, 500, 1, 0, 500, true, false}};
  CHECK(arrive_by_turns(steps));
  CHECK_FALSE(overlap_of(steps).same);
  steps = {{1, 499, 500, 1, 0, 500, true, false}};
  CHECK(overlap_of(steps).any);
  CHECK_FALSE(arrive_by_turns(steps));
}
