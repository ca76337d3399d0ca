// What a plan makes of a model: who reduces, sends and receives what.
#include "plan/lowering/lowering.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "base/error.hpp"
#include "graph/op_schema.hpp"
#include "graph/training.hpp"
#include "graph/zoo/layers.hpp"
#include "graph/zoo/zoo.hpp"
#include "tests/catch.hpp"

using namespace rehearsal;
using namespace rehearsal::plan;

namespace {

constexpr const char* kGpt = "gpt?layers=2&hidden=16&heads=2&seq=8&vocab=24";
constexpr const char* kResnet = "resnet18?image=32&classes=10";

graph::TrainingGraph training_of(const std::string& model, std::int64_t batch) {
  return graph::build_training_graph(graph::with_initial_values(graph::zoo::build(model, batch)), {});
}

/// Four layers of 8x8 weights and 8 biases: 4 (64 + 8) = 288 parameters, 1152 bytes.
graph::TrainingGraph mlp(std::int64_t batch) {
  graph::zoo::Layers layers;
  auto x = layers.builder().add_input("input", {DType::F32, {batch, 8}});
  for (const auto* name : {"a", "b", "c"}) x = layers.relu(std::string(name) + ".relu", layers.linear(name, x, 8));
  const auto result = layers.linear("d", x, 8);
  return graph::build_training_graph(graph::with_initial_values(std::move(layers).finish(result, "output")), {});
}

Program lowered(const graph::TrainingGraph& training, const std::string& plan, std::int64_t bucket_bytes = 25'000'000) {
  LoweringOptions options;
  options.bucket_bytes = bucket_bytes;
  return lower(training, parse_plan(plan), TableBackend(), options);
}

struct Played {
  const Body* body;
  const Instruction* instruction;
  int micro_batch;
};

/// Every run of an instruction in a step of this rank.
std::vector<Played> played_by(const Program& program, int rank) {
  std::vector<Played> played;
  const auto& role = program.role(rank);
  for (const auto& slot : role.slots)
    for (const auto& i : role.bodies[slot.body].instructions)
      if (runs(program, role, i, slot.micro_batch)) played.push_back({&role.bodies[slot.body], &i, slot.micro_batch});
  return played;
}

std::size_t variant_of(const Role& role, const Played& p) {
  return per_micro_batch(p.body->kind) ? role.variant_of[static_cast<std::size_t>(p.micro_batch)] : 0;
}

struct Reduced {
  std::map<graph::TensorId, int> gradients;  ///< how often each is in a bucket that is reduced
  std::int64_t gradient_bytes = 0;           ///< of buckets
  std::int64_t other_bytes = 0;              ///< of the loss's and BatchNormalization's sums
  int buckets = 0;
  std::map<graph::TensorId, int> others;  ///< reduced on their own
};

Reduced reduced_by(const Program& program, int rank) {
  Reduced reduced;
  const auto& role = program.role(rank);
  for (const auto& p : played_by(program, rank)) {
    if (p.instruction->kind != InstructionKind::Collective) continue;
    const auto target = p.instruction->outputs.front();
    const auto bytes = message_bytes(role, *p.instruction, variant_of(role, p));
    bool bucket = false;
    for (const auto& b : role.buffers)
      if (b.part_of == target && b.category == MemoryCategory::Gradients) ++reduced.gradients[b.tensor], bucket = true;
    (bucket ? reduced.gradient_bytes : reduced.other_bytes) += bytes;
    reduced.buckets += bucket ? 1 : 0;
    if (!bucket) ++reduced.others[p.instruction->tensor];
  }
  return reduced;
}

/// What buckets must hold. Scale and shift of BatchNormalization are not among them: their gradients are the sums that its backward pass
/// reduces over the whole batch anyway.
std::set<graph::TensorId> bucketed_gradients_of(const graph::TrainingGraph& training) {
  std::set<graph::TensorId> gradients;
  for (const auto& p : training.parameters) {
    const auto& name = training.graph[p.value].name;
    if (name.find("bn") == std::string::npos && name.find("downsample.1") == std::string::npos) gradients.insert(p.gradient);
  }
  return gradients;
}

/// (sender, receiver, channel, micro-batch) -> bytes of what is sent, or of what is received, by all ranks.
using Letters = std::multimap<std::tuple<int, int, std::uint32_t, int>, std::int64_t>;
Letters letters(const Program& program, InstructionKind kind) {
  Letters found;
  for (int rank = 0; rank < program.ranks; ++rank)
    for (const auto& p : played_by(program, rank)) {
      if (p.instruction->kind != kind) continue;
      const auto& role = program.role(rank);
      const auto& info = role.messages[static_cast<std::size_t>(p.instruction->message)];
      const int other = peer(program, rank, info);
      const auto ends = kind == InstructionKind::Send ? std::pair{rank, other} : std::pair{other, rank};
      found.insert({{ends.first, ends.second, info.channel, p.micro_batch}, message_bytes(role, *p.instruction, variant_of(role, p))});
    }
  return found;
}

void check_refused(const graph::TrainingGraph& training, const std::string& plan, const std::string& word) {
  INFO(plan);
  try {
    (void)lowered(training, plan);
    FAIL("the plan was lowered");
  } catch (const Refusal& refusal) {
    CHECK_THAT(refusal.what(), contains(word));
  }
}

}  // namespace

TEST_CASE("replicas reduce every gradient once") {
  const auto [model, plan] = GENERATE(table<std::string, std::string>(
      {{kResnet, "dp=2"}, {kResnet, "dp=2,overlap=off"}, {kResnet, "dp=2,pp=2"}, {kGpt, "dp=2"}, {kGpt, "dp=4,micro_batch=1"}}));
  INFO(model << " " << plan);
  const auto training = training_of(model, 8);
  const auto program = lowered(training, plan, 50'000);
  const auto wanted = bucketed_gradients_of(training);
  std::map<graph::TensorId, int> together;
  for (int stage = 0; stage < program.plan.pp; ++stage)
    for (int rank = 0; rank < program.ranks; ++rank) {
      if (program.role(rank).stage != stage || coordinate(program, rank, 0) != 0) continue;
      const auto reduced = reduced_by(program, rank);
      for (const auto& [gradient, times] : reduced.gradients) together[gradient] += times;
      // The sum of a shared matrix's two gradients is built after the loop over micro-batches, and reduced there on its own.
      for (const auto& [tensor, times] : reduced.others)
        if (wanted.contains(tensor)) together[tensor] += times;
    }
  CHECK(together.size() == wanted.size());
  for (const auto gradient : wanted) {
    INFO(training.graph[gradient].name);
    CHECK(together[gradient] == 1);
  }
}

TEST_CASE("bytes that replicas reduce, by hand") {
  // Every gradient is padded to 64 bytes: 8x8 floats are 256, 8 floats are 32 and become 64. 4 (256 + 64) = 1280 in one bucket.
  // The loss is reduced as its sum and its weight, f64 each: 16 bytes.
  const auto training = mlp(8);
  const auto one = reduced_by(lowered(training, "dp=2"), 0);
  CHECK(one.buckets == 1);
  CHECK(one.gradient_bytes == 1280);
  CHECK(one.other_bytes == 16);
  // At most 640 bytes each: two layers to a bucket. With micro-batches they are still reduced once a step.
  for (const auto* plan : {"dp=2", "dp=2,micro_batch=1", "dp=2,overlap=off"}) {
    INFO(plan);
    const auto many = reduced_by(lowered(training, plan, 640), 1);
    CHECK(many.buckets == 2);
    CHECK(many.gradient_bytes == 1280);
  }
  CHECK(reduced_by(lowered(training, "dp=1"), 0).buckets == 0);
}

TEST_CASE("reductions overlap with the backward pass only when they may") {
  const auto training = mlp(8);
  for (const bool overlap : {true, false}) {
    INFO((overlap ? "overlap" : "no overlap"));
    const auto program = lowered(training, overlap ? "dp=2" : "dp=2,overlap=off", 640);
    for (const auto& p : played_by(program, 0))
      if (p.instruction->kind == InstructionKind::Collective &&
          program.role(0).buffers[p.instruction->outputs.front()].category == MemoryCategory::Gradients)
        CHECK((p.body->kind == BodyKind::Backward) == overlap);
    if (overlap) continue;
    // The first of them waits for the last kernel of the backward pass, so that no interpreter begins it earlier.
    const auto& role = program.role(0);
    const auto& updates = role.bodies.back().instructions;
    const auto first =
        std::find_if(updates.begin(), updates.end(), [](const Instruction& i) { return i.kind == InstructionKind::Collective; });
    REQUIRE(first != updates.end());
    CHECK(std::any_of(first->after.begin(), first->after.end(), [&](const Dependency& d) {
      const auto& body = role.bodies[d.body];
      return body.kind == BodyKind::Backward && std::none_of(body.instructions.begin() + d.instruction + 1, body.instructions.end(),
                                                             [](const Instruction& i) { return i.stream == Stream::Compute; });
    }));
  }
}

TEST_CASE("what replicas sum in the last micro-batch of a pipeline is complete by then, in both copies of a model too") {
  const auto training = mlp(24);
  for (const std::string schedule : {"1f1b", "zb-h1", "zb-v", "dualpipe", "dualpipe-v"})
    for (const int samples : {1, 2, 3, 6}) {
      const auto program = lowered(training, "dp=2,pp=2,micro_batch=" + std::to_string(samples) + ",schedule=" + schedule, 640);
      std::size_t sums = 0;
      for (const auto& role : program.roles)
        for (std::size_t s = 0; s < role.slots.size(); ++s)
          for (const auto& i : role.bodies[role.slots[s].body].instructions) {
            if (i.when != When::LastMicroBatch || !runs(program, role, i, role.slots[s].micro_batch)) continue;
            ++sums;
            INFO(schedule << ", " << samples << " samples, slot " << s);
            CHECK(std::none_of(role.slots.begin() + static_cast<std::ptrdiff_t>(s) + 1, role.slots.end(),
                               [&](const Slot& later) { return later.body == role.slots[s].body; }));
          }
      CHECK(sums > 0);
    }
}

TEST_CASE("BatchNormalization's sums are reduced in both passes") {
  // ResNet-18 has 20 of them: of 64 channels 1 + 4, of 128, 256 and 512 channels 4 and one of the shortcut, 4800 channels in all. Each
  // has two sums a channel in each pass: of x and x², then of the gradient and its product with the normalized x. 4800·2 sums in f64.
  const auto training = training_of(kResnet, 4);
  const auto program = lowered(training, "dp=2");
  std::map<std::pair<BodyKind, std::string_view>, std::pair<int, std::int64_t>> sums;
  for (const auto& p : played_by(program, 0)) {
    if (p.instruction->kind != InstructionKind::Collective || p.instruction->tensor == graph::TensorId::None) continue;
    const auto producer = training.graph[p.instruction->tensor].producer;
    auto& [count, bytes] = sums[{p.body->kind, graph::schema(training.graph[producer]).name}];
    ++count;
    bytes += message_bytes(program.role(0), *p.instruction, variant_of(program.role(0), p));
  }
  CHECK(sums[{BodyKind::Forward, "BatchNormSums"}] == std::pair(20, std::int64_t{76'800}));
  CHECK(sums[{BodyKind::Backward, "BatchNormGradSums"}] == std::pair(20, std::int64_t{76'800}));
}

TEST_CASE("a micro-batch has at most the samples of a replica, and every replica has as many micro-batches") {
  const auto problems = [](std::int64_t batch, const std::string& plan) {
    std::string text;
    for (const auto& v : validate(mlp(batch), parse_plan(plan))) text += v.key + ": " + v.problem + "\n";
    return text;
  };
  CHECK(problems(4, "dp=2,micro_batch=2").empty());
  CHECK_THAT(problems(4, "dp=2,micro_batch=3"), contains("micro_batch: 3 samples, but a replica has 2"));
  // Replicas of 3 and 2 samples: two micro-batches of at most 2 each; three of at most one are one too many for the second.
  CHECK(problems(5, "dp=2,micro_batch=2").empty());
  CHECK_THAT(problems(5, "dp=2,micro_batch=1"), contains("micro_batch: the smallest replica has fewer samples"));
}

TEST_CASE("what is sent is received") {
  const auto [model, batch, plan] = GENERATE(table<std::string, std::int64_t, std::string>({
      {kResnet, 4, "pp=2"},
      {kResnet, 8, "dp=2,pp=2"},
      {kGpt, 6, "pp=2,micro_batch=1"},
      {kGpt, 7, "pp=3,micro_batch=2,schedule=gpipe"},  // 2 2 2 1
      {kGpt, 7, "dp=2,pp=2,micro_batch=2"},            // 2 2 and 2 1
      {kGpt, 8, "dp=2,pp=4,micro_batch=1,order=pp.tp.cp.ep.dp"},
  }));
  INFO(model << " " << plan);
  const auto program = lowered(training_of(model, batch), plan);
  const auto sent = letters(program, InstructionKind::Send), received = letters(program, InstructionKind::Receive);
  CHECK(sent.size() >= static_cast<std::size_t>(2 * program.micro_batches));  // an activation there, a gradient back
  CHECK(sent == received);
  for (auto at = sent.begin(); at != sent.end(); at = sent.upper_bound(at->first)) CHECK(sent.count(at->first) == 1);
}

TEST_CASE("a matrix shared by two stages has one gradient and one update") {
  const auto training = training_of(kGpt, 4);
  const auto program = lowered(training, "pp=2,micro_batch=1");
  // The embedding is on the first stage, the last layer on the last one: both hold the matrix, one updates it and sends it.
  for (const auto& p : training.parameters) {
    int holders = 0, updates = 0;
    for (const auto& role : program.roles) {
      holders += std::any_of(role.buffers.begin(), role.buffers.end(),
                             [&](const Buffer& b) { return b.tensor == p.value && b.lifetime == Lifetime::Persistent; })
                     ? 1
                     : 0;
      for (const auto& body : role.bodies)
        updates += static_cast<int>(
            std::count_if(body.instructions.begin(), body.instructions.end(), [&](const Instruction& i) { return i.node == p.update; }));
    }
    INFO(training.graph[p.value].name);
    CHECK(updates == 1);
    CHECK(holders == (training.graph[p.value].name.find("wte") == std::string::npos ? 1 : 2));
  }
}

TEST_CASE("uneven shares cover the batch once") {
  for (const auto* plan : {"dp=2", "dp=2,micro_batch=2", "dp=3"}) {
    INFO(plan);
    const auto program = lowered(mlp(5), plan);
    std::vector<int> seen(5, 0);
    for (int rank = 0; rank < program.ranks; ++rank)
      for (int m = 0; m < program.micro_batches; ++m) {
        const auto range = samples(program, rank, m);
        CHECK(range.count == program.role(rank).variant_samples[program.role(rank).variant_of[static_cast<std::size_t>(m)]]);
        for (auto s = range.first; s < range.first + range.count; ++s) ++seen[static_cast<std::size_t>(s)];
      }
    CHECK(seen == std::vector<int>(5, 1));
  }
}

TEST_CASE("dependencies name what happened before") {
  const auto program = lowered(training_of(kGpt, 8), "dp=2,pp=2,micro_batch=1");
  for (const auto& role : program.roles)
    for (std::size_t b = 0; b < role.bodies.size(); ++b)
      for (std::size_t n = 0; n < role.bodies[b].instructions.size(); ++n)
        for (const auto& d : role.bodies[b].instructions[n].after) {
          CHECK((d.body < b || (d.body == b && d.instruction < n)));
          CHECK(role.bodies[d.body].instructions[d.instruction].stream != role.bodies[b].instructions[n].stream);
        }
}

TEST_CASE("plans that do not suit are refused with the reason") {
  const auto resnet = training_of(kResnet, 4);
  check_refused(resnet, "micro_batch=1", "bn1");
  check_refused(resnet, "dp=5", "dp=4");
  check_refused(resnet, "pp=1000", "stages");
  check_refused(resnet, "micro_batch=5", "micro_batch");
  check_refused(mlp(5), "dp=2,micro_batch=1", "micro_batch");  // 3 and 2 samples, 3 micro-batches
  const auto experts = training_of("moe?layers=2&hidden=16&heads=2&kv_heads=2&ffn=32&rotary=0&seq=8&experts=4&vocab=40", 12);
  check_refused(experts, "ep=2", "2 ranks do not divide the 1 of dp");
  check_refused(experts, "dp=3,ep=2", "2 ranks do not divide the 3 of dp");
  check_refused(experts, "dp=2,cp=2,ep=4", "use a degree that divides dp");
  check_refused(experts, "dp=4,ep=2,micro_batch=2", "equal shares");  // 3 samples of each replica in two parts
  for (const auto* key : {"cp=2", "ep=2", "interleave=2"})
    check_refused(resnet, key, std::string(key).substr(0, std::string(key).find('=')));
  check_refused(mlp(4), "tp=99", "has 8 elements");
  check_refused(resnet, "dp=auto", "a search");
  check_refused(mlp(12), "dp=4,zero=3,zero_group=2,shares=2:1:2:1", "needs replicas with equally many samples");
  check_refused(mlp(8), "dp=2,pp=2,micro_batch=1,schedule=dualpipe,compression=sign", "two ranks have halves of them");
  check_refused(mlp(8), "dp=2,zero=1,local_steps=2", "zero=1 gives each a part");
}

TEST_CASE("a compressor says from which step on gradients travel compressed") {
  const auto program = lowered(mlp(8), "dp=2,compression=sparcml:0.5,exact_steps=3");
  CHECK(std::ranges::any_of(program.warnings,
                            [](const std::string& w) { return w.find("; before step 4 gradients travel whole") != std::string::npos; }));
}

TEST_CASE("named cuts are nodes of the model, one less than there are stages") {
  const auto message = [](const std::string& plan) -> std::string {
    try {
      (void)lowered(mlp(8), plan);
      return "lowered";
    } catch (const BadInput& error) {
      return error.what();
    }
  };
  CHECK_THAT(message("pp=2,cuts=nowhere"), contains("no node \"nowhere\""));
  check_refused(mlp(8), "pp=2,cuts=a|b", "2 cuts for pp=2; there must be 1");
}
