// Where versions of weights, results of micro-batches and messages that wait lie at a moment, by hand.
#include "plan/memory/places.hpp"

#include "plan/memory/planner.hpp"
#include "plan/memory/under_way.hpp"
#include "tests/catch.hpp"

using namespace rehearsal;
using namespace rehearsal::plan;

namespace {

BufferIndex placed(Role& role, Lifetime lifetime, std::int64_t offset, std::int64_t bytes) {
  Buffer buffer;
  buffer.lifetime = lifetime;
  buffer.offset = offset;
  buffer.bytes = bytes;
  role.buffers.push_back(buffer);
  return static_cast<BufferIndex>(role.buffers.size() - 1);
}

/// A view that means a version of the weights that `whole` is.
BufferIndex viewed(Role& role, BufferIndex whole, WeightVersion version, std::int64_t behind = 0) {
  Buffer view = role.buffers[whole];
  view.part_of = whole;
  view.part_offset = behind;
  view.offset += behind;
  view.version = version;
  role.buffers.push_back(view);
  return static_cast<BufferIndex>(role.buffers.size() - 1);
}

}  // namespace

TEST_CASE("which version of weights passes read, an update starts from and makes") {
  Role role;
  role.delay = 2;
  const auto weights = placed(role, Lifetime::Persistent, 1000, 100);  // 128 bytes from one version to the next
  role.buffers[weights].versions = 3;
  const auto newest = viewed(role, weights, WeightVersion::Newest), next = viewed(role, weights, WeightVersion::Next);
  const auto part = viewed(role, weights, WeightVersion::Delayed, 40), of_next = viewed(role, next, WeightVersion::Delayed, 40);
  const Places places(role);
  // Passes of step 7 compute with what 5 updates have made: place 5 mod 3; an update of step 7 makes version 8 of version 7.
  const Moment now{0, 7, 7};
  CHECK(places.at(weights, now) == 1000 + 2 * 128);
  CHECK(places.at(newest, now) == 1000 + 1 * 128);
  CHECK(places.at(next, now) == 1000 + 2 * 128);
  CHECK(places.at(part, now) == 1040 + 2 * 128);
  CHECK(places.at(of_next, now) == 1040 + 2 * 128);  // a part of the next version, whatever it says itself
  // A slot that runs ahead into step 8 reads version 6; the rank's update is still that of step 7.
  const Moment ahead{0, 7, 8};
  CHECK(places.at(weights, ahead) == 1000);
  CHECK(places.at(newest, ahead) == 1000 + 128);
  // Before the first update there are the initial weights, wherever the ring of places begins.
  CHECK(places.at(weights, {0, 0, 0}) == 1000 + 128);  // version -2
  CHECK(places.at(weights, {0, 0, 1}) == 1000 + 256);  // version -1
  CHECK(places.at(newest, {0, 0, 0}) == 1000);
  CHECK(Places::stored(role.buffers[weights], 7) == 1000 + 128);
  CHECK(Places::stored(role.buffers[weights], 9) == 1000);
}

TEST_CASE("what micro-batches in flight keep lies in blocks of their own, on the device and on the host") {
  Role role;
  role.memory.in_flight = 3;
  role.memory.saved_stride = 640;
  role.memory.host_saved_stride = 320;
  const auto saved = placed(role, Lifetime::Saved, 64, 10), host = placed(role, Lifetime::Saved, 128, 10),
             other = placed(role, Lifetime::Transient, 256, 10);
  role.buffers[host].on_host = true;
  const auto view = viewed(role, saved, WeightVersion::Delayed, 4);
  const auto sent = placed(role, Lifetime::Sent, 2048, 70);
  role.buffers[sent].versions = 4;
  Places places(role);
  const Moment fifth{5, 0, 0};
  CHECK(places.at(saved, fifth) == 64 + 2 * 640);
  CHECK(places.at(view, fifth) == 68 + 2 * 640);
  CHECK(places.at(host, fifth) == 128 + 2 * 320);
  CHECK(places.at(other, fifth) == 256);
  CHECK(places.at(sent, fifth) == 2048 + 1 * 128);  // 5 mod 4, in blocks of 64 bytes
  role.memory.in_flight = 1;
  CHECK(places.at(saved, fifth) == 64);
}

TEST_CASE("the moment of a slot: numbers go on from step to step where steps overlap") {
  Program program;
  program.micro_batches = 4;
  Role role;
  for (const auto kind : {BodyKind::Prologue, BodyKind::Forward, BodyKind::Backward, BodyKind::Update})
    role.bodies.push_back({kind, 0, {}});
  program.roles.push_back(role);
  const auto moment = [&](std::uint16_t body, std::int32_t micro_batch, std::int64_t step) {
    return moment_of(program, program.roles.front(), {body, micro_batch}, step);
  };
  CHECK(moment(1, 3, 2).saved == 3);
  CHECK(moment(3, 0, 2).saved == 0);
  CHECK(moment(1, 3, 2).step == 2);
  program.roles.front().delay = 1;
  REQUIRE(crosses_steps(program));
  CHECK(moment(1, 3, 2).saved == 2 * 4 + 3);
  CHECK(moment(2, 1, 2).saved == 2 * 4 + 1);
  CHECK(moment(3, 0, 2).saved == 2 * 4 + 3);  // an update reads what the last micro-batch left
  // Micro-batch 5 is the second of the step that follows.
  CHECK(moment(1, 5, 2).saved == 3 * 4 + 1);
  CHECK(moment(1, 5, 2).slot_step == 3);
  CHECK(moment(1, 5, 2).step == 2);
}

TEST_CASE("a slot waits for what was sent from the memory that it takes over, and for weights that it computes with") {
  Program program;
  program.micro_batches = 4;
  program.roles.emplace_back();
  auto& role = program.roles.front();
  role.memory.in_flight = 2;
  role.delay = 1;
  const auto result = placed(role, Lifetime::Saved, 0, 64), kept = placed(role, Lifetime::Sent, 64, 64),
             weights = placed(role, Lifetime::Persistent, 512, 64);
  role.buffers[kept].versions = 3;
  const auto moving = [](InstructionKind kind, BufferIndex b) {
    Instruction i;
    i.kind = kind;
    (kind == InstructionKind::Send ? i.inputs : i.outputs) = {b};
    return i;
  };
  role.bodies = {{BodyKind::Forward, 0, {moving(InstructionKind::Send, result)}},
                 {BodyKind::Backward, 0, {moving(InstructionKind::Send, kept)}},
                 {BodyKind::Update, 0, {moving(InstructionKind::Receive, weights)}}};
  const auto awaited = [&](std::uint16_t body, std::int32_t micro_batch, std::int64_t step, const UnderWay& message) {
    return awaited_by_slot(program, role, {body, micro_batch}, step, message);
  };
  // Two micro-batches in flight: the forward pass of the third takes over the first one's memory, of whatever step.
  CHECK(awaited(0, 2, 1, {0, 0, 1, 0}));
  CHECK_FALSE(awaited(0, 1, 1, {0, 0, 1, 0}));
  CHECK_FALSE(awaited(0, 3, 1, {0, 0, 1, 0}));
  CHECK_FALSE(awaited(1, 2, 1, {0, 0, 1, 0}));  // a backward pass takes over nothing
  CHECK(awaited(0, 1, 2, {0, 0, 1, 3}));        // number 9 behind number 7
  // Of what waits longer every third pass of the same body.
  CHECK(awaited(1, 3, 1, {1, 0, 1, 0}));
  CHECK_FALSE(awaited(1, 2, 1, {1, 0, 1, 0}));
  CHECK_FALSE(awaited(0, 3, 1, {1, 0, 1, 0}));
  // Weights that arrived in step 3 are of version 4: passes of step 5 compute with them, those that run ahead too, and the next update.
  CHECK_FALSE(awaited(0, 0, 4, {2, 0, 3, 0}));
  CHECK(awaited(0, 0, 5, {2, 0, 3, 0}));
  CHECK(awaited(0, 4, 4, {2, 0, 3, 0}));
  CHECK_FALSE(awaited(0, 3, 4, {2, 0, 3, 0}));
  CHECK(awaited(2, 0, 4, {2, 0, 3, 0}));
  CHECK_FALSE(awaited(2, 0, 3, {2, 0, 3, 0}));
  CHECK(awaited_behind_step(program, true));
  CHECK_FALSE(awaited_behind_step(program, false));
  role.delay = 0;
  CHECK(awaited_behind_step(program, false));
}
