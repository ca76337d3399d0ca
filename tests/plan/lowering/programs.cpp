// Questions that interpreters ask of a Program, answered by hand.
#include <numeric>

#include "base/error.hpp"
#include "graph/op_schema.hpp"
#include "plan/lowering/lowering.hpp"
#include "plan/program/program.hpp"
#include "tests/catch.hpp"
#include "tests/plan/lowering/written_program.hpp"

using namespace rehearsal;
using namespace rehearsal::plan;
using rehearsal::plan::test::written_training;

namespace {

Program asked(const char* model, const char* plan, const char* how = "") {
  return lower(written_training(model, plan, how), parse_plan(plan), TableBackend(), {});
}

Instruction moved(InstructionKind kind, std::vector<BufferIndex> from, std::vector<BufferIndex> to) {
  Instruction i;
  i.kind = kind;
  i.inputs = std::move(from);
  i.outputs = std::move(to);
  return i;
}

Buffer sized(std::int64_t elements, DType dtype = DType::F32) {
  Buffer b;
  b.shapes = {{elements}};
  b.dtype = dtype;
  b.bytes = elements * static_cast<std::int64_t>(size_of(dtype));
  return b;
}

std::vector<std::pair<std::int64_t, std::int64_t>> samples_of(const Program& program, int rank) {
  std::vector<std::pair<std::int64_t, std::int64_t>> all;
  for (int m = 0; m < micro_batches_of(program, rank); ++m) {
    const auto range = samples(program, rank, m);
    all.emplace_back(range.first, range.count);
  }
  return all;
}

using Samples = std::vector<std::pair<std::int64_t, std::int64_t>>;

}  // namespace

TEST_CASE("coordinates and groups of ranks: axes lie from the inside out") {
  Program program;
  program.axes = {{"tp", 2, 1}, {"dp", 3, 2}, {"pp", 2, 6}};
  // Rank 9 is 1 + 2 (1 + 3 1): the second of tp, the second of dp, the second stage.
  CHECK(coordinate(program, 9, 0) == 1);
  CHECK(coordinate(program, 9, 1) == 1);
  CHECK(coordinate(program, 9, 2) == 1);
  CHECK(coordinate(program, 10, 1) == 2);
  CHECK(group(program, 9, 0) == std::vector{8, 9});
  CHECK(group(program, 9, 1) == std::vector{7, 9, 11});
  CHECK(group(program, 9, 2) == std::vector{3, 9});
  CHECK(peer(program, 3, {1, 0}) == 9);
  CHECK(peer(program, 9, {-1, 0}) == 3);
  program.axes.pop_back();
  CHECK_THROWS_AS(peer(program, 3, {1, 0}), InternalError);
}

TEST_CASE("samples of micro-batches of replicas, with equal shares, of groups, of ranks of ep and with shares of their own") {
  const auto equal = asked("layers", "dp=2,micro_batch=2");  // 6 samples: 3 each, in two micro-batches of 1 and 2
  CHECK(samples_of(equal, 0) == Samples{{0, 1}, {1, 2}});
  CHECK(samples_of(equal, 1) == Samples{{3, 1}, {4, 2}});
  const auto groups = asked("layers", "dp=4,zero=3,zero_group=2");  // ranks 0 and 1 are a group with the first half
  CHECK(samples_of(groups, 0) == Samples{{0, 1}});
  CHECK(samples_of(groups, 1) == Samples{{1, 2}});
  CHECK(samples_of(groups, 2) == Samples{{3, 1}});
  const auto experts = asked("experts", "dp=2,ep=2,micro_batch=1");  // 4 samples in two micro-batches, each of both ranks
  CHECK(samples_of(experts, 0) == Samples{{0, 1}, {2, 1}});
  CHECK(samples_of(experts, 1) == Samples{{1, 1}, {3, 1}});
  const auto own = asked("layers", "dp=3,shares=1:4:1,micro_batch=1");
  CHECK(samples_of(own, 0) == Samples{{0, 1}});
  CHECK(samples_of(own, 1) == Samples{{1, 1}, {2, 1}, {3, 1}, {4, 1}});
  CHECK(samples_of(own, 2) == Samples{{5, 1}});
  CHECK(own.micro_batches == 4);
  CHECK(micro_batches_of(own, own.role(0)) == 1);
  CHECK(micro_batches_of(own, Role{}) == 4);
  // The replica that has most stands for all.
  CHECK(representatives(own) == std::vector{1});
}

TEST_CASE("positions on the axes of the sharding, in time too") {
  const auto program = asked("layers", "dp=2,micro_batch=1");
  REQUIRE(program.sharding->axes.size() == 2);
  CHECK(position(program, 1, 2) == Coordinates{1, 2});
  CHECK(position(program, 1, 4) == Coordinates{1, 1});  // of the step that follows
  CHECK(position(program, 0, -1) == Coordinates{0, 0});
}

TEST_CASE("the rank that stands for a stage has the largest blocks, or in a ring the most to do") {
  CHECK(representatives(asked("layers", "tp=3")).size() == 1);
  const auto images = asked("convolutions", "spatial=2");  // 9 columns: 4 and 5
  CHECK(representatives(images) == std::vector{1});
  CHECK(representatives(asked("attention", "cp=2,attention=ring")) == std::vector{1});  // rows 2 and 3 see both blocks of keys
  CHECK(representatives(asked("layers", "pp=2,dp=3,micro_batch=1")) == std::vector{0, 3});
}

TEST_CASE("when an instruction runs: in which micro-batches, and in which steps") {
  Program program;
  program.micro_batches = 5;
  Role role;
  role.bodies = {Body{}};
  program.roles = {role};
  Instruction i;
  const auto runs_in = [&](When when) {
    std::vector<int> in;
    i.when = when;
    for (int m = 0; m < 7; ++m)
      if (runs(program, program.roles.front(), i, m)) in.push_back(m);
    return in;
  };
  CHECK(runs_in(When::Always) == std::vector{0, 1, 2, 3, 4, 5, 6});
  CHECK(runs_in(When::FirstMicroBatch) == std::vector{0, 5});
  CHECK(runs_in(When::LastMicroBatch) == std::vector{4});
  CHECK(runs_in(When::AllButLastMicroBatch) == std::vector{0, 1, 2, 3, 5, 6});
  // Of two copies of the model each has a first and a last one.
  program.roles.front().bodies.front().every = 2;
  CHECK(runs_in(When::FirstMicroBatch) == std::vector{0, 1, 5, 6});
  CHECK(runs_in(When::LastMicroBatch) == std::vector{3, 4});
  CHECK(last_micro_batch(program, program.roles.front(), {BodyKind::Forward, 0, {}, 0, 2}) == 4);
  CHECK(last_micro_batch(program, program.roles.front(), {BodyKind::Forward, 0, {}, 1, 2}) == 3);
  CHECK(last_micro_batch(program, program.roles.front(), {BodyKind::Forward, 0, {}, 0, 1}) == 4);
  const auto kind = [](const char* plan, std::int64_t step) {
    const auto k = kind_of_step(parse_plan(plan), step);
    CHECK_FALSE((k.parts || k.agrees));
    CHECK(k.renews);
    return std::pair{k.later, k.meets};
  };
  CHECK(kind("dp=2,exact_steps=2,compression=sign", 1) == std::pair{false, false});
  CHECK(kind("dp=2,exact_steps=2,compression=sign", 2) == std::pair{true, false});
  CHECK(kind("dp=2,exact_steps=2,local_steps=3", 1) == std::pair{false, false});
  CHECK(kind("dp=2,exact_steps=2,local_steps=3", 3) == std::pair{true, false});
  CHECK(kind("dp=2,exact_steps=2,local_steps=3", 4) == std::pair{true, true});
  CHECK(kind("dp=2,exact_steps=2,local_steps=3", 5) == std::pair{true, false});
  CHECK(kind("dp=2,local_steps=1", 0) == std::pair{true, true});
  const auto runs_during = [&](During during, const StepKind& step) {
    i.when = When::Always;
    i.during = during;
    return runs(program, program.roles.front(), i, 0, step);
  };
  CHECK(runs_during(During::Training, {}));
  CHECK_FALSE(runs_during(During::Exact, {}));
  CHECK(runs_during(During::Exact, {.later = false}));
  CHECK_FALSE(runs_during(During::Later, {.later = false}));
  CHECK(runs_during(During::Meetings, {.meets = true}));
  CHECK_FALSE(runs_during(During::Meetings, {}));
  CHECK(runs_during(During::Partings, {.parts = true}));
  CHECK_FALSE(runs_during(During::Partings, {}));
  CHECK(runs_during(During::Renewals, {}));
  CHECK_FALSE(runs_during(During::Renewals, {.renews = false}));
  CHECK(runs_during(During::Consensus, {.agrees = true}));
  CHECK_FALSE(runs_during(During::Consensus, {.meets = true}));
}

TEST_CASE("steps overlap where slots run ahead or weights are older than the newest") {
  Program program;
  program.roles.resize(2);
  CHECK_FALSE(crosses_steps(program));
  program.roles[1].delay = 1;
  CHECK(crosses_steps(program));
  program.roles[1].delay = 0;
  program.roles[0].opening = {{0, 0}};
  CHECK(crosses_steps(program));
}

TEST_CASE("the micro-batch in which a slot finds what it depends on") {
  Program program;
  program.micro_batches = 4;
  Role role;
  for (const auto kind : {BodyKind::Prologue, BodyKind::Forward, BodyKind::Update}) role.bodies.push_back({kind, 0, {}});
  program.roles = {role};
  const auto found = [&](std::uint16_t body, std::int32_t micro_batch, std::uint16_t on) {
    return micro_batch_of(program, program.roles.front(), {body, micro_batch}, {on, 0});
  };
  CHECK(found(1, 3, 1) == 3);
  CHECK(found(1, 3, 0) == 0);
  CHECK(found(1, 6, 0) == 4);  // the prologue of the step that follows
  CHECK(found(2, 0, 1) == 3);  // an update's is the last one
  CHECK(found(2, 0, 2) == 0);
}

TEST_CASE("bytes of messages: of the buffer that is written, in the shape of its micro-batch, of collectives half where the rest arrives") {
  Role role;
  role.buffers = {sized(10), sized(20, DType::F64), sized(30)};
  role.buffers[2].shapes.push_back({36});
  role.collectives.resize(2);
  role.collectives[1].received_behind = true;
  CHECK(message_bytes(role, moved(InstructionKind::Send, {0}, {}), 0) == 40);
  CHECK(message_bytes(role, moved(InstructionKind::Receive, {}, {1}), 0) == 160);
  CHECK(message_bytes(role, moved(InstructionKind::Receive, {0}, {1}), 0) == 160);
  CHECK(message_bytes(role, moved(InstructionKind::Send, {2}, {}), 1) == 144);
  CHECK(message_bytes(role, moved(InstructionKind::Send, {2}, {}), 5) == 144);  // there are two sizes
  CHECK(message_bytes(role, moved(InstructionKind::Send, {0}, {}), 1) == 40);
  auto sum = moved(InstructionKind::Collective, {2}, {2});
  sum.collective = 0;
  CHECK(message_bytes(role, sum, 0) == 120);
  CHECK(elements_of_collective(role, sum, 1) == 36);
  sum.collective = 1;
  CHECK(elements_of_collective(role, sum, 0) == 15);
  CHECK(elements_of_collective(role, sum, 3) == 18);
}

TEST_CASE("gradients among the operands of compressors") {
  const auto of = [](InstructionKind kind, std::size_t inputs, std::size_t outputs) {
    std::vector<BufferIndex> from(inputs), to(outputs);
    std::iota(from.begin(), from.end(), 10U), std::iota(to.begin(), to.end(), 20U);
    const auto i = moved(kind, from, to);
    const auto found = gradients_of(i);
    return std::vector<BufferIndex>(found.begin(), found.end());
  };
  using Indices = std::vector<BufferIndex>;
  CHECK(of(InstructionKind::Compress, 2, 1) == Indices{10, 11});    // two gradients, one message
  CHECK(of(InstructionKind::Compress, 4, 3) == Indices{10, 11});    // and what is kept of each
  CHECK(of(InstructionKind::Decompress, 1, 2) == Indices{20, 21});  // what all sent
  CHECK(of(InstructionKind::Decompress, 4, 4) == Indices{20, 21});  // two factors, and what is kept of two gradients
  CHECK(of(InstructionKind::Recompress, 3, 1) == Indices{11, 12});  // the sum of first factors, two gradients
  CHECK(of(InstructionKind::Recompress, 2, 2).empty());             // a share of the sum, and what is kept of that
  CHECK_THROWS_AS(gradients_of(moved(InstructionKind::Pack, {0}, {1})), InternalError);
}

TEST_CASE("micro-batches of other sizes come in turn, step after step") {
  Role role;
  role.variant_of = {0, 0, 1};
  std::vector<std::size_t> found;
  for (int m = 0; m < 7; ++m) found.push_back(variant_of_micro_batch(role, m));
  CHECK(found == std::vector<std::size_t>{0, 0, 1, 0, 0, 1, 0});
}

TEST_CASE("what is kept, what leaves for the host, which update is first, who takes part") {
  Buffer kept = sized(4);
  kept.lifetime = Lifetime::Persistent;
  kept.category = MemoryCategory::OptimizerState;
  CHECK(is_kept_vector(kept));
  auto other = kept;
  other.category = MemoryCategory::Parameters;
  CHECK_FALSE(is_kept_vector(other));
  other = kept;
  other.tensor = static_cast<graph::TensorId>(0);
  CHECK_FALSE(is_kept_vector(other));
  other = kept;
  other.part_of = 0;
  CHECK_FALSE(is_kept_vector(other));
  other = kept;
  other.lifetime = Lifetime::Step;
  CHECK_FALSE(is_kept_vector(other));

  Role role;
  role.buffers = {sized(1), sized(1)};
  role.buffers[1].on_host = true;
  CHECK(crosses_to_host(role, moved(InstructionKind::Stash, {0}, {1})));
  CHECK(crosses_to_host(role, moved(InstructionKind::Restore, {1}, {0})));
  CHECK_FALSE(crosses_to_host(role, moved(InstructionKind::Stash, {0}, {0})));
  CHECK_FALSE(crosses_to_host(role, moved(InstructionKind::Reorder, {0}, {1})));
  for (const auto kind : {BodyKind::Forward, BodyKind::Update}) role.bodies.push_back({kind, 0, {}});
  CHECK(first_update(role) == nullptr);
  role.slots = {{0, 0}, {0, 1}, {1, 0}, {1, 0}};
  CHECK(first_update(role) == &role.slots[2]);

  Program program;
  program.axes = {{"dp", 2, 1}};
  program.role_of = {0, 0};
  program.roles = {role};
  program.roles[0].collectives.resize(1);
  program.roles[0].collectives[0].root = 1;
  CHECK(steps_between_renewals(program) == 1);
  program.roles[0].collectives[0].every = 7;
  CHECK(steps_between_renewals(program) == 7);
  auto kernel = moved(InstructionKind::Kernel, {0}, {0});
  CHECK(takes_part(program, 0, kernel));
  kernel.collective = 0;
  CHECK_FALSE(takes_part(program, 0, kernel));
  CHECK(takes_part(program, 1, kernel));
  kernel.kind = InstructionKind::Compress;
  CHECK(takes_part(program, 0, kernel));
}

TEST_CASE("what a schedule of the learning rate changes: updates that read it, not what backends make of several, not what meetings add") {
  const auto training = written_training("layers", "dp=2,local_steps=2,outer=nesterov", "sgd");
  auto program = lower(training, parse_plan("dp=2,local_steps=2,outer=nesterov"), TableBackend(), {});
  Role& role = program.roles.front();
  const auto count = [&] {
    std::size_t following = 0;
    for (const auto& body : role.bodies)
      following += static_cast<std::size_t>(
          std::ranges::count_if(body.instructions, [&](const Instruction& i) { return follows_rate(role, i, training.graph); }));
    return following;
  };
  CHECK(count() == 6);  // three weights and three biases
  for (auto& kernel : role.kernels) kernel.op = kernel.op.empty() ? "Relu" : kernel.op;
  CHECK(count() == 0);
}
