// Memory that a message is under way with is left alone: every schedule is held to it, and what is wrong is seen and named.
#include "plan/memory/check_messages.hpp"

#include <algorithm>
#include <optional>

#include "base/error.hpp"
#include "graph/training.hpp"
#include "graph/zoo/layers.hpp"
#include "graph/zoo/zoo.hpp"
#include "plan/lowering/lowering.hpp"
#include "plan/schedules/schedule.hpp"
#include "tests/catch.hpp"

using namespace rehearsal;
using namespace rehearsal::plan;

namespace {

/// One matrix is the embedding's and the last product's: the first and the last stage share it. A norm of all gradients crosses stages,
/// too.
graph::TrainingGraph tied(bool clipped) {
  graph::TrainingOptions options;
  options.optimizer.name = "adam";
  if (clipped) options.clip_norm = 1;
  return graph::build_training_graph(
      graph::with_initial_values(graph::zoo::build("gpt?layers=4&hidden=16&heads=2&seq=8&vocab=24&tied=1", 16)), options);
}

/// The first and the last product read one matrix alike: its gradient's parts are made by products of two stages, and nothing moves them.
graph::TrainingGraph shared_matrix() {
  graph::zoo::Layers layers;
  const auto matrix = layers.parameter("shared", {8, 8});
  auto x = layers.matmul("first", layers.input("input", {16, 8}), matrix);
  for (const auto* name : {"a", "b", "c", "d", "e", "f"}) x = layers.relu(std::string(name) + ".relu", layers.linear(name, x, 8));
  return graph::build_training_graph(graph::with_initial_values(std::move(layers).finish(layers.matmul("last", x, matrix), "output")), {});
}

Program lowered(const std::string& plan, bool clipped = false) {
  LoweringOptions options;
  options.bucket_bytes = 2000;
  return lower(tied(clipped), parse_plan(plan), TableBackend(), options);
}

/// Nothing where an asynchronous schedule cannot: it wants as many micro-batches as stages, and `pipedream` no shared weights.
std::optional<Program> lowered_unless_refused(const std::string& plan, bool clipped) {
  try {
    return lowered(plan, clipped);
  } catch (const Refusal& refusal) {
    CHECK(schedule(parse_plan(plan).schedule).asynchronous);
    return std::nullopt;
  }
}

Instruction* find(Program& program, int stage, BodyKind kind, InstructionKind what) {
  for (auto& role : program.roles)
    for (auto& body : role.bodies)
      for (auto& i : body.instructions)
        if (role.stage == stage && body.kind == kind && i.kind == what) return &i;
  return nullptr;
}

void forget_dependencies(Program& program, InstructionKind on) {
  for (auto& role : program.roles)
    for (auto& body : role.bodies)
      for (auto& i : body.instructions)
        std::erase_if(i.after, [&](const Dependency& d) { return role.bodies[d.body].instructions[d.instruction].kind == on; });
}

}  // namespace

TEST_CASE("no schedule touches what a message is under way with") {
  for (const auto& row : schedule_table())
    for (const int stages : {2, 4})
      for (const int micro_batch : {1, 2, 4})
        for (const bool clipped : {false, true})
          for (const std::string more : {"", ",zero=1,dp=2", ",zero=3,dp=2", ",recompute=full", ",tp=2,overlap=off"}) {
            const auto plan = "pp=" + std::to_string(stages) + ",schedule=" + std::string(row.name) +
                              (row.name == "pipedream" ? "" : ",micro_batch=" + std::to_string(micro_batch)) +
                              (row.chunks == 0 ? ",interleave=2" : "") + more;
            INFO(plan << (clipped ? ", clipped" : ""));
            if (const auto program = lowered_unless_refused(plan, clipped)) CHECK_NOTHROW(check_messages(*program));
          }
}

TEST_CASE("a shared matrix's gradient is added up where it is made, and sent once a step") {
  for (const auto& row : schedule_table()) {
    if (row.name == "pipedream") continue;  // it updates after every micro-batch, and shares nothing between stages
    const auto plan = "pp=4,schedule=" + std::string(row.name) + (row.asynchronous ? ",micro_batch=2" : ",micro_batch=1") +
                      (row.chunks == 0 ? ",interleave=2" : "");
    INFO(plan);
    const auto training = shared_matrix();
    for (const char* more : {",dp=2,zero=1", ",dp=2,zero=2"})
      CHECK_NOTHROW(check_messages(lower(training, parse_plan(plan + more), TableBackend(), {})));
    const auto program = lower(training, parse_plan(plan), TableBackend(), {});
    CHECK_NOTHROW(check_messages(program));
    for (const auto& role : program.roles)
      for (const auto& body : role.bodies)
        for (const auto& i : body.instructions) {
          const bool of_shared = i.tensor != graph::TensorId::None && training.graph[i.tensor].name == "last.grad_1";
          // Copies of both directions meet before the update, when each has its sum.
          if (of_shared && (i.kind == InstructionKind::Send || i.kind == InstructionKind::Receive)) CHECK(body.kind == BodyKind::Update);
        }
  }
}

TEST_CASE("an update's message lasts into the next step, and so does its memory") {
  auto program = lowered("pp=2,micro_batch=2,schedule=pipedream-2bw");
  auto& last = program.roles.back();
  const auto* send = find(program, 1, BodyKind::Update, InstructionKind::Send);
  REQUIRE(send != nullptr);
  const auto sent = base_of(last, send->inputs.front());
  CHECK(last.buffers[sent].sent);
  CHECK_NOTHROW(check_messages(program));
  // In the place of what a forward pass computes, as it once was laid out.
  const auto& passes = *std::find_if(last.bodies.begin(), last.bodies.end(), [](const Body& b) { return b.kind == BodyKind::Forward; });
  const auto kernel = std::find_if(passes.instructions.begin(), passes.instructions.end(),
                                   [](const Instruction& i) { return i.kind == InstructionKind::Kernel; });
  last.buffers[sent].offset = last.buffers[kernel->outputs.front()].offset;
  last.buffers[send->inputs.front()].offset = last.buffers[sent].offset;
  CHECK_THROWS_WITH(check_messages(program), contains("stage 1, step 1") &&
                                                 contains("writes " + last.buffers[kernel->outputs.front()].name) &&
                                                 contains("(send of " + last.buffers[sent].name + ") of step 0"));
}

TEST_CASE("a gradient that goes past other stages has a place for every micro-batch that is on its way there") {
  // Two layers cut into eight parts: what is added to the residual goes past the part between.
  const auto training =
      graph::build_training_graph(graph::with_initial_values(graph::zoo::build("gpt?layers=2&hidden=16&heads=2&seq=8&vocab=24", 8)), {});
  auto program = lower(training, parse_plan("pp=4,schedule=interleaved,interleave=2,micro_batch=1"), TableBackend(), {});
  int rings = 0;
  for (auto& role : program.roles)
    for (auto& b : role.buffers)
      if (b.lifetime == Lifetime::Sent) {
        ++rings;
        CHECK(b.sent);
        CHECK(b.versions >= role.memory.in_flight);
      }
  CHECK(rings > 0);
  CHECK_NOTHROW(check_messages(program));
  // With one place each, the next micro-batch waits for what waits for it.
  for (auto& role : program.roles)
    for (auto& b : role.buffers)
      if (b.lifetime == Lifetime::Sent) b.versions = 1;
  CHECK_THROWS_WITH(check_messages(program), contains("wait for each other for ever") && contains("(send of"));
}

TEST_CASE("what has not arrived is not read, what has not left is not written") {
  SECTION("a message between stages") {
    auto program = lowered("pp=2,micro_batch=2");
    forget_dependencies(program, InstructionKind::Receive);
    CHECK_THROWS_WITH(check_messages(program), contains("reads") && contains("(receive of"));
  }
  SECTION("a sum between replicas") {
    auto program = lowered("dp=2");
    forget_dependencies(program, InstructionKind::Collective);
    CHECK_THROWS_WITH(check_messages(program), contains("(collective of"));
  }
  SECTION("a kernel's workspace") {
    auto program = lowered("dp=2");
    auto& role = program.roles.front();
    const auto body = std::ranges::find_if(role.bodies, [](const Body& b) { return b.kind == BodyKind::Backward; });
    const auto is = [](InstructionKind kind) { return [kind](const Instruction& i) { return i.kind == kind; }; };
    const auto sum = std::ranges::find_if(body->instructions, is(InstructionKind::Collective));
    const auto kernel = std::find_if(sum, body->instructions.end(), is(InstructionKind::Kernel));
    REQUIRE(kernel != body->instructions.end());
    kernel->workspace = sum->outputs.front();
    CHECK_THROWS_WITH(check_messages(program),
                      contains("kernel writes " + role.buffers[kernel->workspace].name) && contains("(collective of"));
  }
  SECTION("what a copy of the model sends to the other, and adds to") {
    auto program = lowered("pp=2,micro_batch=1,schedule=dualpipe");
    forget_dependencies(program, InstructionKind::Send);
    CHECK_THROWS_WITH(check_messages(program), contains("accumulate writes") && contains("(send of"));
  }
  SECTION("the place of another micro-batch") {
    auto program = lowered("pp=2,micro_batch=1,schedule=gpipe");
    for (auto& role : program.roles) role.memory.saved_stride = 0;
    CHECK_THROWS_WITH(check_messages(program), contains("may still be under way"));
  }
}

TEST_CASE("stages that wait for each other are found") {
  auto program = lowered("pp=2,micro_batch=2");
  // The first stage goes back before it has gone forth.
  std::reverse(program.roles.front().slots.begin(), program.roles.front().slots.end());
  CHECK_THROWS_WITH(check_messages(program), contains("wait for each other for ever") && contains("stage 1"));
}
