// Bytes in use while each instruction of a step runs.
#include "plan/memory/in_use.hpp"

#include "graph/training.hpp"
#include "graph/zoo/zoo.hpp"
#include "plan/lowering/lowering.hpp"
#include "plan/schedules/schedule.hpp"
#include "tests/catch.hpp"

using namespace rehearsal;
using namespace rehearsal::plan;

namespace {

BufferIndex add_buffer(Role& role, std::int64_t bytes, Lifetime lifetime, BufferIndex part_of = kNoBuffer) {
  Buffer buffer;
  buffer.bytes = bytes;
  buffer.lifetime = lifetime;
  buffer.part_of = part_of;
  role.buffers.push_back(buffer);
  return static_cast<BufferIndex>(role.buffers.size() - 1);
}

Instruction computing(std::vector<BufferIndex> from, std::vector<BufferIndex> to) {
  Instruction i;
  i.inputs = std::move(from);
  i.outputs = std::move(to);
  return i;
}

/// Two layers, of which the backward pass reads the first one's result.
Program two_layers(std::vector<Slot> slots) {
  Program program;
  program.micro_batches = 2;
  auto& role = program.roles.emplace_back();
  const auto weights = add_buffer(role, 1000, Lifetime::Persistent), saved = add_buffer(role, 128, Lifetime::Saved),
             view = add_buffer(role, 64, Lifetime::Saved, saved), result = add_buffer(role, 640, Lifetime::Transient),
             gradient = add_buffer(role, 320, Lifetime::Transient);
  auto& forward = role.bodies.emplace_back();
  forward.instructions = {computing({weights}, {saved}), computing({view}, {result})};
  auto& backward = role.bodies.emplace_back();
  backward.kind = BodyKind::Backward;
  backward.instructions = {computing({}, {gradient}), computing({gradient, saved}, {weights}), computing({}, {weights})};
  role.slots = std::move(slots);
  return program;
}

std::vector<std::int64_t> bytes_of(const Program& program) {
  const auto& role = program.roles.front();
  const BytesInUse in_use(program, role);
  std::vector<std::int64_t> bytes;
  for (const auto& slot : role.slots)
    for (std::uint32_t i = 0; i < role.bodies[slot.body].instructions.size(); ++i)
      bytes.push_back(in_use.at(slot.body, i, slot.micro_batch));
  return bytes;
}

}  // namespace

TEST_CASE("a micro-batch holds what it saved from its forward to its backward pass") {
  // Weights take 1000 bytes, rounded up to blocks of 64: 1024. A saved tensor takes 128, a result 640, a gradient 320.
  // Forward: 1024 + 128, then the result besides. Backward: with a gradient; behind its last reader the saved tensor is gone.
  CHECK(bytes_of(two_layers({{0, 0}, {1, 0}, {0, 1}, {1, 1}})) ==
        std::vector<std::int64_t>{1152, 1792, 1472, 1472, 1024, 1152, 1792, 1472, 1472, 1024});
  // Both forward passes first: the second one finds the first one's 128 bytes there.
  CHECK(bytes_of(two_layers({{0, 0}, {0, 1}, {1, 0}, {1, 1}})) ==
        std::vector<std::int64_t>{1152, 1792, 1280, 1920, 1600, 1600, 1152, 1472, 1472, 1024});
}

TEST_CASE("an outline counts passes") {
  auto program = two_layers({{0, 0}, {0, 1}, {1, 0}, {1, 1}, {2, 0}});
  auto& update = program.roles.front().bodies.emplace_back();
  update.kind = BodyKind::Update;
  update.instructions = {computing({}, {})};
  program.roles.front().outline = {5000, 100, 7, 30};
  program.roles.front().buffers.clear();
  for (auto& body : program.roles.front().bodies)
    for (auto& i : body.instructions) i.inputs.clear(), i.outputs.clear();
  // 5007, and 100 for each pass between its first and its last instruction; 5030 for the update.
  CHECK(bytes_of(program) == std::vector<std::int64_t>{5107, 5107, 5207, 5207, 5207, 5207, 5207, 5107, 5107, 5107, 5030});
}

TEST_CASE("an outline of one byte is one, and what is sent beside it is a part of it") {
  auto program = two_layers({{0, 0}, {1, 0}});
  auto& role = program.roles.front();
  role.outline = {1, 100, 0, 0};
  for (auto& b : role.buffers) b.lifetime = Lifetime::Transient;
  CHECK(bytes_of(program) == std::vector<std::int64_t>{101, 101, 101, 101, 101});
  role.outline = {};
  CHECK(bytes_of(program) == std::vector<std::int64_t>{1024 + 128, 128 + 640, 320, 1024 + 128 + 320, 1024});
}

TEST_CASE("where steps overlap, what an earlier one began is there from the start, and what a later one ends stays") {
  // The pass of micro-batch 0 came in the step before; that of 2, the next step's first, goes back in the next.
  auto program = two_layers({{0, 1}, {1, 0}, {0, 2}, {1, 1}});
  auto& role = program.roles.front();
  role.delay = 1;
  role.buffers.front().versions = 2;
  // Weights take 2 x 1024 bytes, what a micro-batch saved 128: those of 0 and 1, of 1 alone behind the gradients of 0, of 1 and 2, of 2.
  CHECK(bytes_of(program) == std::vector<std::int64_t>{2304, 2944, 2624, 2624, 2176, 2304, 2944, 2624, 2624, 2176});
  CHECK(BytesInUse(program, role).peak() == 2944);
  CHECK(BytesInUse(program, role).at(0, 0, 0) == 0);  // not a slot of this step
  // An outline's passes, too.
  role.outline = {5000, 100, 7, 0};
  role.buffers.clear();
  for (auto& body : role.bodies)
    for (auto& i : body.instructions) i.inputs.clear(), i.outputs.clear();
  CHECK(bytes_of(program) == std::vector<std::int64_t>{5207, 5207, 5207, 5207, 5207, 5207, 5207, 5207, 5207, 5207});
}

TEST_CASE("what waits on the host takes nothing of the device") {
  auto program = two_layers({{0, 0}, {1, 0}});
  auto& role = program.roles.front();
  for (const BufferIndex b : {0U, 1U}) role.buffers[b].on_host = true;
  CHECK(bytes_of(program) == std::vector<std::int64_t>{0, 640, 320, 320, 0});
  CHECK(BytesInUse(Program{}, Role{}).peak() == 0);
}

TEST_CASE("no schedule uses more than the arena has") {
  graph::TrainingOptions options;
  options.optimizer.name = "adam";
  const auto training = graph::build_training_graph(
      graph::with_initial_values(graph::zoo::build("gpt?layers=4&hidden=16&heads=2&seq=8&vocab=24&tied=0", 16)), options);
  for (const auto& row : schedule_table())
    for (const std::string more : {"", ",zero=3,dp=2", ",recompute=full"}) {
      const auto text = "pp=2,schedule=" + std::string(row.name) + (row.name == "pipedream" ? "" : ",micro_batch=4") +
                        (row.chunks == 0 ? ",interleave=2" : "") + more;
      INFO(text);
      const auto program = lower(training, parse_plan(text), TableBackend(), {});
      for (const auto& role : program.roles) {
        const BytesInUse in_use(program, role);
        CHECK(in_use.peak() <= role.memory.arena_bytes);
        CHECK(in_use.peak() > role.memory.arena_bytes / 3);
      }
    }
}
