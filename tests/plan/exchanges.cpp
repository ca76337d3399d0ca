// Exchanges whose messages have a size each, parts that several tensors share, and what a Program's collectives are, by hand.
#include <limits>

#include "base/error.hpp"
#include "plan/collectives/exchange.hpp"
#include "plan/collectives/meetings.hpp"
#include "plan/collectives/message_arrivals.hpp"
#include "tests/catch.hpp"

using namespace rehearsal;
using namespace rehearsal::plan;

namespace {

/// One axis of so many ranks, and a role with one float vector and one collective of it.
Program with_collective(int ranks, const CollectiveInfo& info, std::int64_t floats) {
  Program program;
  program.ranks = ranks;
  program.axes = {{"dp", ranks, 1}};
  program.plan.dp = ranks;
  auto& role = program.roles.emplace_back();
  Buffer vector;
  vector.shapes = {{floats}};
  vector.bytes = 4 * floats;
  role.buffers.push_back(vector);
  role.collectives.push_back(info);
  Instruction i;
  i.kind = InstructionKind::Collective;
  i.collective = 0;
  i.inputs = i.outputs = {0};
  role.bodies.push_back({BodyKind::Update, 0, {Instruction{}, i}});
  return program;
}

/// Bytes of the buffer for arrivals that the role gets; -1: none.
std::int64_t arrivals_of(int ranks, const CollectiveInfo& info, std::int64_t floats) {
  auto program = with_collective(ranks, info, floats);
  auto role = program.roles.front();
  role.variant_samples = {2, 1};
  add_arrivals(role, program);
  if (role.buffers.size() == 1) return -1;
  const auto& arrivals = role.buffers.back();
  CHECK(role.arrivals == 1);
  CHECK(arrivals.shapes == std::vector<graph::Shape>(2, {arrivals.bytes}));
  CHECK(arrivals.dtype == DType::U8);
  return arrivals.bytes;
}

}  // namespace

TEST_CASE("in an exchange a rank sends to those further on and gets from those before, what there is") {
  // Rank 1 of 4 has 10 elements for 2 and 20 for 0, and gets 5 from 0 and 7 from 3.
  Packing packing;
  packing.packed = {{2, {}, 0, 10}, {0, {}, 10, 20}};
  packing.unpacked = {{0, {}, 30, 5}, {3, {}, 35, 7}};
  const auto steps = exchange_steps(1, 4, packing);
  REQUIRE(steps.size() == 3);
  const auto is = [](const CollectiveStep& s, int to, std::int64_t first, std::int64_t count, int from, std::int64_t at, std::int64_t got) {
    CHECK(s.send_to == to);
    CHECK(s.receive_from == from);
    if (to >= 0) CHECK(std::pair(s.send_first, s.send_count) == std::pair(first, count));
    if (from >= 0) CHECK(std::pair(s.receive_first, s.receive_count) == std::pair(at, got));
    CHECK_FALSE(s.reduce);
  };
  is(steps[0], 2, 0, 10, 0, 30, 5);   // one further, one before
  is(steps[1], -1, 0, 0, 3, 35, 7);   // two: nothing for 3, but something from it
  is(steps[2], 0, 10, 20, -1, 0, 0);  // three: 0, and 2, which sends nothing
  CHECK(exchange_steps(0, 4, {}).empty());
  CHECK(exchange_steps(0, 1, packing).empty());
}

TEST_CASE("parts of tensors that have nothing are nothing") {
  constexpr DealtOut kNone[]{{0, 3}}, kOne[]{{1, 1}}, kTwo[]{{3, 2}, {1, 4}};
  CHECK(begins_of_parts(kNone, 2, 0) == std::vector<std::int64_t>{0, 0, 0});
  // One element of one unit, five of them: all are the second rank's.
  CHECK(begins_of_parts(kOne, 2, 5) == std::vector<std::int64_t>{0, 0, 5});
  // 1 and 2 units of 2, 0 and 1 of 4: 2 and 8; twice.
  CHECK(begins_of_parts(kTwo, 2, 20) == std::vector<std::int64_t>{0, 4, 20});
  CHECK(begins_of_parts({}, 2, 5) == std::vector<std::int64_t>{0, 2, 5});
}

TEST_CASE("steps in parts that begin together still do, but for those of nothing") {
  // Two nodes of two: within a node a block for each node goes out at a time. Of three units of 2 the ranks have 0, 1, 1 and 1.
  constexpr DealtOut kThree[]{{3, 2}}, kEight[]{{8, 2}};
  const auto& row = collective(CollectiveKind::ReduceScatter, "hierarchical");
  const auto flags = [&](int rank, std::span<const DealtOut> dealt, std::int64_t count) {
    std::vector<bool> all;
    for (const auto& s : steps_in_parts(row, {rank, 4, count, 2, dealt})) all.push_back(s.with_next);
    return all;
  };
  CHECK(flags(0, kEight, 16) == std::vector<bool>{true, false, false});
  // Rank 1 gives rank 0 the blocks of ranks 0 and 2, of which that of 0 is nothing, and gets its own and that of 3.
  CHECK(flags(1, kThree, 6) == std::vector<bool>{true, false, false});
  const auto first = steps_in_parts(row, {1, 4, 6, 2, kThree}).front();
  CHECK(first.send_to == -1);
  CHECK(first.receive_count == 2);
}

TEST_CASE("the time of a Program's collective is that of its algorithm, and none on one rank") {
  const CollectiveLinks links{Seconds(1e-6), Seconds(7e-6), BytesPerSecond(9e9), BytesPerSecond(2e9), BytesPerSecond(5e9), 1};
  const CollectiveInfo ring{CollectiveKind::AllReduce, "ring", 0}, partners{CollectiveKind::AllGather, partners_at(1), 0};
  const auto time_of = [&](int ranks, const CollectiveInfo& info) {
    const auto program = with_collective(ranks, info, 1'000'000);
    return collective_time(program, info, program.roles[0], {0, 0, 1'000'000, 4, 1}, links).value();
  };
  CHECK(time_of(4, ring) == Approx((6 * 507 + 3 * 200) * 1e-6));
  CHECK(time_of(2, ring) == Approx((2 * 1007 + 400) * 1e-6));
  CHECK(time_of(1, ring) == 0);
  CHECK(time_of(4, partners) == Approx(1007e-6));  // half of 4 MB
  const CollectiveInfo neighbours{CollectiveKind::AllReduce, std::string(kNeighbours), 0};
  CHECK(time_of(2, neighbours) == Approx(2807e-6));  // from one, added; from two of three ranks twice as much
  CHECK(time_of(3, neighbours) == Approx(5607e-6));
  CHECK(time_of(1, neighbours) == 0);
}

TEST_CASE("whose parts are put into each other's memory is the row's to say") {
  CHECK(is_one_sided({CollectiveKind::AllReduce, "one-sided-ring", 0}));
  CHECK_FALSE(is_one_sided({CollectiveKind::AllReduce, "ring", 0}));
  CHECK_FALSE(is_one_sided({CollectiveKind::AllToAll, std::string(kExchange), 0}));
  CHECK_FALSE(is_one_sided({CollectiveKind::AllReduce, std::string(kNeighbours), 0}));
}

TEST_CASE("algorithms of a Program fit its groups") {
  const auto check = [](int ranks, const CollectiveInfo& info) { check_algorithms(with_collective(ranks, info, 8)); };
  const auto partners = [](int distance) { return CollectiveInfo{CollectiveKind::AllGather, partners_at(distance), 0}; };
  CHECK_NOTHROW(check(4, {CollectiveKind::AllReduce, "ring", 0}));
  CHECK_NOTHROW(check(4, {CollectiveKind::AllToAll, std::string(kExchange), 0}));
  CHECK_THROWS_WITH(check(4, {CollectiveKind::AllReduce, "rings", 0}), contains("'rings' is not known"));
  CHECK_NOTHROW(check(4, partners(1)));
  CHECK_NOTHROW(check(4, partners(2)));
  CHECK_NOTHROW(check(12, partners(2)));  // three times four
  for (const int distance : {4, 3, 0, 1 << 30})
    CHECK_THROWS_WITH(check(4, partners(distance)), contains("a power of two, and twice that distance must divide the 4 ranks of dp"));
  CHECK_THROWS_AS(check(6, partners(2)), BadInput);
  CHECK_THROWS_AS(check(4, {CollectiveKind::AllGather, "partners:x", 0}), BadInput);
  CollectiveInfo servers{CollectiveKind::ReduceScatter, std::string(kServers), 0};
  servers.center = 0;
  CHECK_NOTHROW(check(4, servers));
  servers.center = -1;
  CHECK_THROWS_WITH(check(4, servers), contains("must be the number of a vector of the center"));
}

TEST_CASE("a server holds its block of every vector of the center") {
  // Blocks of ten floats for three servers: the largest has 4, of 16 B; a vector of two more. What is not taken from a center has none.
  CollectiveInfo taken{CollectiveKind::Broadcast, std::string(kServers), 0};
  auto program = with_collective(6, taken, 10);
  program.plan.servers = Servers(3);
  CHECK(center_bytes(program, program.roles[0]) == 16);
  auto& body = program.roles[0].bodies[0].instructions;
  body.push_back(body.back());
  CHECK(center_bytes(program, program.roles[0]) == 32);
  for (const auto& other :
       {CollectiveInfo{CollectiveKind::ReduceScatter, std::string(kServers), 0}, {CollectiveKind::Broadcast, "binomial", 0}}) {
    program.roles[0].collectives[0] = other;
    CHECK(center_bytes(program, program.roles[0]) == 0);
  }
}

TEST_CASE("a role has room for the arrivals of its sums") {
  // Half of 1,000 floats; whole ones where both exchange all; nothing where nothing is added, or at a center.
  CHECK(arrivals_of(2, {CollectiveKind::AllReduce, "ring", 0}, 1000) == 2000);
  CHECK(arrivals_of(2, {CollectiveKind::AllReduce, "recursive-doubling", 0}, 1000) == 4000);
  CHECK(arrivals_of(2, {CollectiveKind::ReduceScatter, "ring", 0}, 1000) == 2000);
  CHECK(arrivals_of(2, {CollectiveKind::Reduce, "binomial", 0}, 1000) == 4000);
  CHECK(arrivals_of(2, {CollectiveKind::AllGather, "ring", 0}, 1000) == -1);
  CHECK(arrivals_of(2, {CollectiveKind::Broadcast, "binomial", 0}, 1000) == -1);
  CHECK(arrivals_of(2, {CollectiveKind::ReduceScatter, std::string(kServers), 0}, 1000) == -1);
  CHECK(arrivals_of(4, {CollectiveKind::AllReduce, std::string(kNeighbours), 0}, 1000) == 8000);  // of both neighbours at a time
  // Of whichever rank needs most: rank 0 of a tree has two messages of 4,000 B, one after the other; others one.
  CHECK(arrivals_of(4, {CollectiveKind::Reduce, "binomial", 0}, 1000) == 4000);
  // Hierarchies of any node: of four ranks on two nodes a block for each node comes at a time, 2 x 1,000 B; on one node or four 1,000 B.
  CHECK(arrivals_of(4, {CollectiveKind::ReduceScatter, "hierarchical", 0}, 1000) == 2000);
  CHECK(arrivals_of(4, {CollectiveKind::ReduceScatter, "ring", 0}, 1000) == 1000);
  // 6 ranks: nodes of three are two, of two three: three blocks of 668 B (167 of 1,000) at a time.
  CHECK(arrivals_of(6, {CollectiveKind::ReduceScatter, "hierarchical", 0}, 1002) == 3 * 4 * 167);
  // Swapped pairs that add nothing have nothing that arrives.
  CHECK(arrivals_of(4, {CollectiveKind::AllGather, partners_at(1), 0}, 1000) == -1);
}

TEST_CASE("a row says how much memory its steps name") {
  const auto memory = [](CollectiveKind kind, const char* name, int rank) { return collective(kind, name).memory(rank, 4, 103); };
  CHECK(memory(CollectiveKind::AllGather, "bruck", 1) == 206);
  // An all-to-all receives four blocks of its own size behind the vector: 25, and 26 of the others.
  CHECK(memory(CollectiveKind::AllToAll, "pairwise", 0) == 103 + 4 * 25);
  CHECK(memory(CollectiveKind::AllToAll, "pairwise", 3) == 103 + 4 * 26);
  CHECK(collective(CollectiveKind::AllReduce, "ring").memory == nullptr);
}

TEST_CASE("pieces of a message have an element at least, and are no longer than a gibibyte") {
  CHECK(piece_elements(1000, {4, 256}) == 64);
  CHECK(piece_elements(1000, {8, 4}) == 15);     // 8,000 B in 64 pieces of 126 B
  CHECK(piece_elements(10, {8, 4}) == 1);        // 80 B: pieces of 4 B hold none
  CHECK(piece_elements(6400, {1, 100}) == 101);  // a 64th of it, and one byte more
  CHECK(piece_elements(std::int64_t{1} << 40, {1, 100}) == std::int64_t{1} << 30);
}
