// overlap=off: what is computed and what is exchanged take turns.
#include "plan/lowering/apart.hpp"

#include "tests/catch.hpp"

using namespace rehearsal::plan;

namespace {

Instruction on(Stream stream, When when = When::Always) {
  Instruction i;
  i.kind = stream == Stream::Collective ? InstructionKind::Collective : InstructionKind::Kernel;
  i.stream = stream;
  i.when = when;
  return i;
}

constexpr auto kCompute = Stream::Compute, kCollective = Stream::Collective;
using After = std::vector<Dependency>;

}  // namespace

TEST_CASE("a collective waits for all that was computed before it, and what follows waits for it") {
  Role role;
  // A branch (1) that neither makes what is summed (2) nor reads the sum, and one behind the sum (3) that does not read it either.
  role.bodies = {{BodyKind::Forward, 0, {on(kCompute), on(kCompute), on(kCollective), on(kCompute), on(kCompute)}}};
  auto& i = role.bodies[0].instructions;
  i[2].after = {{0, 0}};
  i[4].after = {{0, 2}};
  keep_collectives_apart(role);
  CHECK(i[1].after.empty());
  CHECK(i[2].after == After{{0, 0}, {0, 1}});
  CHECK(i[3].after == After{{0, 2}});
  CHECK(i[4].after == After{{0, 2}});  // named once
}

TEST_CASE("what does not always run keeps nobody from waiting") {
  Role role;
  role.bodies = {{BodyKind::Update,
                  0,
                  {on(kCompute), on(kCompute, When::FirstMicroBatch), on(kCollective), on(kCompute, When::LastMicroBatch), on(kCompute)}}};
  auto& i = role.bodies[0].instructions;
  keep_collectives_apart(role);
  CHECK(i[2].after == After{{0, 0}, {0, 1}});  // in other micro-batches 0 is the last one
  CHECK(i[3].after == After{{0, 2}});
  CHECK(i[4].after == After{{0, 2}});
}

TEST_CASE("messages to other stages and to the host go on beside both") {
  Role role;
  role.bodies = {{BodyKind::Forward, 0, {on(kCompute), on(Stream::Send), on(Stream::Host), on(kCollective)}}};
  keep_collectives_apart(role);
  CHECK(role.bodies[0].instructions[1].after.empty());
  CHECK(role.bodies[0].instructions[2].after.empty());
  CHECK(role.bodies[0].instructions[3].after == After{{0, 0}});
}
