// Lowering pass by pass: which run for which plan, what each leaves, and that a role which breaks a pass's promise is found and named.
#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "graph/training.hpp"
#include "graph/zoo/zoo.hpp"
#include "plan/lowering/check_role.hpp"
#include "plan/lowering/role_passes.hpp"
#include "tests/catch.hpp"

using namespace rehearsal;
using namespace rehearsal::plan;

namespace {

graph::TrainingGraph decoder(const std::string& optimizer) {
  graph::TrainingOptions options;
  options.optimizer.name = optimizer;
  return graph::build_training_graph(graph::with_initial_values(graph::zoo::build("gpt?layers=4&hidden=16&heads=2&seq=8&vocab=24", 16)),
                                     options);
}

struct Left {
  std::string pass;
  Role role;
};

/// What every pass left of the first role.
std::vector<Left> passes_of(const std::string& plan, const std::string& optimizer = "sgd") {
  std::vector<Left> left;
  LoweringOptions options;
  std::size_t roles = 0;
  options.after_pass = [&](const PassResult& result) {
    if (result.pass == role_passes().front().name) ++roles;
    if (roles == 1) left.push_back({std::string(result.pass), result.role});
  };
  static_cast<void>(lower(decoder(optimizer), parse_plan(plan), TableBackend(), options));
  return left;
}

bool ran(const std::vector<Left>& passes, const std::string& name) { return std::ranges::find(passes, name, &Left::pass) != passes.end(); }

std::size_t count_of(const Role& role, BodyKind body, InstructionKind kind) {
  std::size_t count = 0;
  for (const auto& b : role.bodies)
    if (b.kind == body) count += static_cast<std::size_t>(std::ranges::count(b.instructions, kind, &Instruction::kind));
  return count;
}

Instruction& first_kernel(Role& role) {
  for (auto& body : role.bodies)
    for (auto& i : body.instructions)
      if (i.kind == InstructionKind::Kernel && body.kind == BodyKind::Forward) return i;
  throw InternalError("no kernel");
}

}  // namespace

TEST_CASE("passes run where the plan has something for them to do") {
  const auto one = passes_of("dp=2");
  CHECK(ran(one, "prefetch"));
  CHECK(!ran(one, "hold sums back"));
  CHECK(!ran(one, "exchange shared parameters"));
  CHECK(!ran(one, "weight gradients"));
  CHECK(!ran(one, "meet"));
  CHECK(ran(passes_of("dp=2,local_steps=2"), "meet"));
  CHECK(ran(passes_of("dp=2,local_steps=2,staleness=1,outer=elastic"), "meet"));
  CHECK(ran(passes_of("dp=4,local_steps=2,outer=gossip"), "meet"));
  CHECK(ran(passes_of("dp=4,local_steps=2,outer=adasum"), "meet"));
  const auto apart = passes_of("dp=2,overlap=off");
  CHECK(ran(apart, "keep collectives apart"));
  CHECK(!ran(apart, "prefetch"));
  const auto both = passes_of("pp=2,micro_batch=1,schedule=dualpipe");
  for (const auto* name : {"weight gradients", "sums of both copies", "exchange shared parameters"}) CHECK(ran(both, name));
}

TEST_CASE("every pass runs for some plan, in the order of the table") {
  std::set<std::string> seen;
  for (const auto* plan : {"dp=2,overlap=off,local_steps=2", "pp=2,micro_batch=1,schedule=dualpipe"}) {
    INFO(plan);
    std::vector<std::size_t> order;
    for (const auto& left : passes_of(plan)) {
      seen.insert(left.pass);
      const auto row = std::ranges::find(role_passes(), left.pass, &RolePass::name);
      order.push_back(static_cast<std::size_t>(row - role_passes().begin()));
    }
    CHECK(std::ranges::is_sorted(order));
  }
  const auto spread = passes_of("dp=2,decompositions=spread", "shampoo");
  for (const auto& left : spread) seen.insert(left.pass);
  CHECK(ran(spread, "spread decompositions"));
  seen.insert("plan arrivals");  // of backends that keep what comes early: those of exec/
  for (const auto& pass : role_passes()) CHECK(seen.contains(std::string(pass.name)));
}

TEST_CASE("a pass leaves what its row says") {
  const auto passes = passes_of("dp=2,micro_batch=4");
  const auto after = [&](const std::string& name) { return std::ranges::find(passes, name, &Left::pass)->role; };
  CHECK(after("open bodies").bodies.size() == 4);  // prologue, forward, backward, update: one chunk, one copy
  CHECK(after("plan gradients").buffers.size() > 0);
  CHECK(count_of(after("plan gradients"), BodyKind::Forward, InstructionKind::Kernel) == 0);
  CHECK(count_of(after("forward"), BodyKind::Forward, InstructionKind::Kernel) > 0);
  CHECK(count_of(after("forward"), BodyKind::Backward, InstructionKind::Kernel) == 0);
  CHECK(count_of(after("backward"), BodyKind::Update, InstructionKind::Kernel) == 0);
  CHECK(count_of(after("update"), BodyKind::Update, InstructionKind::Kernel) > 0);
  CHECK(count_of(after("update"), BodyKind::Update, InstructionKind::Report) == 0);
  CHECK(count_of(after("report loss"), BodyKind::Update, InstructionKind::Report) == 1);
  CHECK(after("join copies").slots.empty());
  // 16 samples over two replicas in micro-batches of 4: what is alike for all of them, two forward and two backward passes, the update.
  CHECK(after("order slots").slots.size() == 6);
  CHECK(after("order slots").memory.arena_bytes == 0);
  CHECK(after("lay out memory").memory.arena_bytes > 0);
}

TEST_CASE("a gather that is moved ahead of a stash leaves waiting for it to what computes behind the stash") {
  // The first thing computed behind a stash waits until it has left: where that packed a gather, the gather went ahead, and nobody waited.
  for (const auto& left : passes_of("dp=2,zero=3,micro_batch=2,offload=activations")) CHECK_NOTHROW(check_role(left.role, left.pass));
  const auto role = passes_of("dp=2,zero=3,micro_batch=2,offload=activations").back().role;
  const auto body = std::ranges::find(role.bodies, BodyKind::Forward, &Body::kind) - role.bodies.begin();
  const auto& forward = role.bodies[static_cast<std::size_t>(body)].instructions;
  const auto stashes = static_cast<std::size_t>(std::ranges::count(forward, InstructionKind::Stash, &Instruction::kind));
  std::set<std::uint32_t> awaited;
  for (const auto& i : forward)
    for (const auto& d : i.after)
      if (d.body == body && forward[d.instruction].kind == InstructionKind::Stash) awaited.insert(d.instruction);
  CHECK(stashes > 0);
  CHECK(awaited.size() > 0);
}

TEST_CASE("weights on their way to another stage are not overwritten by a meeting") {
  // Of a matrix that the first and the last stage share: the update sends it, and the meeting makes a mean of it in place.
  for (const std::string outer : {"average", "nesterov", "adasum"}) {
    INFO(outer);
    auto role = passes_of("dp=2,pp=2,micro_batch=4,local_steps=1,outer=" + outer).back().role;
    REQUIRE_NOTHROW(check_role(role, "lay out memory"));
    std::set<std::pair<std::size_t, std::uint32_t>> sent;
    for (std::size_t b = 0; b < role.bodies.size(); ++b)
      for (std::size_t n = 0; n < role.bodies[b].instructions.size(); ++n)
        if (role.bodies[b].kind == BodyKind::Update && role.bodies[b].instructions[n].kind == InstructionKind::Send)
          sent.insert({b, static_cast<std::uint32_t>(n)});
    REQUIRE(sent.size() == 1);
    for (auto& body : role.bodies)
      for (auto& i : body.instructions) std::erase_if(i.after, [&](const Dependency& d) { return sent.contains({d.body, d.instruction}); });
    CHECK_THROWS_WITH(check_role(role, "a pass"), contains("writes what is still being sent"));
  }
}

TEST_CASE("a role that is not what a pass promised is found and named") {
  auto role = passes_of("dp=2,micro_batch=4").back().role;
  REQUIRE_NOTHROW(check_role(role, "lay out memory"));
  const auto fails = [&](const std::string& what) {
    CHECK_THROWS_WITH(check_role(role, "a pass"), contains("after 'a pass'") && contains(what));
  };
  SECTION("a buffer that is not there") {
    first_kernel(role).inputs.front() = static_cast<BufferIndex>(role.buffers.size());
    fails("names a buffer that is not there");
  }
  SECTION("a kernel that is not there") {
    first_kernel(role).kernel = static_cast<std::int32_t>(role.kernels.size());
    fails("names a kernel that is not there");
  }
  SECTION("indices that lead nowhere") {
    const auto sets = static_cast<std::int32_t>(role.attributes.size()), messages = static_cast<std::int32_t>(role.messages.size()),
               collectives = static_cast<std::int32_t>(role.collectives.size()),
               redistributions = static_cast<std::int32_t>(role.redistributions.size());
    const auto copy = role;
    const auto fails_with = [&](auto&& change, const char* what) {
      role = copy;
      change(first_kernel(role));
      fails(std::string("names a ") + what + " that is not there");
    };
    fails_with([&](Instruction& i) { i.workspace = static_cast<BufferIndex>(role.buffers.size()); }, "workspace");
    fails_with([&](Instruction& i) { i.outputs.front() = static_cast<BufferIndex>(role.buffers.size()); }, "buffer");
    fails_with([&](Instruction& i) { i.attributes = sets; }, "set of attributes");
    fails_with([&](Instruction& i) { i.message = messages; }, "message");
    fails_with([&](Instruction& i) { i.collective = collectives; }, "collective");
    fails_with([&](Instruction& i) { i.redistribution = redistributions; }, "redistribution");
  }
  SECTION("waiting for what is not there, or for its own stream") {
    auto& kernels = role.bodies[1].instructions;
    REQUIRE(kernels.size() > 2);
    kernels.back().after.push_back({static_cast<std::uint16_t>(role.bodies.size()), 0});
    fails("waits for an instruction that is not there");
    kernels.back().after.back() = {1, static_cast<std::uint32_t>(kernels.size())};
    fails("waits for an instruction that is not there");
    kernels.back().after.back() = {1, 0};
    kernels.front().stream = kernels.back().stream;
    fails("waits for its own stream");
  }
  SECTION("what is written behind the instruction that reads it") {
    for (auto& body : role.bodies)
      if (body.kind == BodyKind::Forward && body.instructions.size() > 2) std::swap(body.instructions[1], body.instructions.back());
    fails("which nothing has written");
  }
  SECTION("a slot of a body that is not there") {
    role.slots.push_back({static_cast<std::uint16_t>(role.bodies.size()), 0});
    fails("a slot runs a body that is not there");
  }
  SECTION("what nothing wrote") {
    auto fresh = role.buffers[first_kernel(role).outputs.front()];
    fresh.part_of = kNoBuffer;
    fresh.name = "nobody's";
    fresh.lifetime = Lifetime::Transient;
    role.buffers.push_back(fresh);
    first_kernel(role).inputs.front() = static_cast<BufferIndex>(role.buffers.size() - 1);
    fails("reads nobody's, which nothing has written");
  }
  SECTION("waiting for what comes behind") {
    auto& kernel = first_kernel(role);
    const auto body = static_cast<std::uint16_t>(
        std::ranges::find_if(role.bodies, [&](const Body& b) { return !b.instructions.empty() && b.kind == BodyKind::Forward; }) -
        role.bodies.begin());
    kernel.after.push_back({body, static_cast<std::uint32_t>(role.bodies[body].instructions.size() - 1)});
    fails("waits for what comes behind it");
  }
  SECTION("a part that ends behind its whole") {
    const auto part = std::ranges::find_if(role.buffers, [](const Buffer& b) { return b.part_of != kNoBuffer; });
    REQUIRE(part != role.buffers.end());
    part->part_offset = role.buffers[part->part_of].bytes;
    fails("ends behind " + role.buffers[part->part_of].name);
  }
  SECTION("a body that never runs") {
    std::erase_if(role.slots, [&](const Slot& s) { return role.bodies[s.body].kind == BodyKind::Backward; });
    fails("never runs");
  }
  SECTION("a place behind the arena") {
    const auto placed = std::ranges::find_if(role.buffers, [](const Buffer& b) { return b.part_of == kNoBuffer && b.offset >= 0; });
    placed->offset = role.memory.arena_bytes;
    fails("ends behind its arena");
  }
}
