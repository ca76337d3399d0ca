// Sharded updates (ZeRO, Rajbhandari et al. 2020, section 5): gradients are sharded and parameters gathered in buckets, beside kernels,
// and take no more memory than whole ones.
#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "graph/narrow_type.hpp"
#include "graph/training.hpp"
#include "graph/zoo/zoo.hpp"
#include "plan/collectives/exchange.hpp"
#include "plan/lowering/lowering.hpp"
#include "tests/catch.hpp"

using namespace rehearsal;
using namespace rehearsal::plan;

namespace {

constexpr const char* kGpt = "gpt?layers=3&hidden=64&heads=4&seq=16&vocab=96";

struct Model {
  std::string name = kGpt, optimizer = "adam";
  DType dtype = DType::F32;
  std::int64_t batch = 8;
};

graph::TrainingGraph training_of(const Model& m) {
  auto model = graph::zoo::build(m.name, m.batch);
  if (m.dtype != DType::F32) model = graph::with_narrow_type(model, m.dtype).graph;
  graph::TrainingOptions options;
  options.optimizer.name = m.optimizer == "momentum" ? "sgd" : m.optimizer;
  if (m.optimizer == "momentum") options.optimizer.values["momentum"] = 0.9;
  return graph::build_training_graph(graph::with_initial_values(model), options);
}

Program lowered(const graph::TrainingGraph& training, const std::string& plan, std::int64_t bucket_bytes = 40'000) {
  LoweringOptions options;
  options.bucket_bytes = bucket_bytes;
  return lower(training, parse_plan(plan), TableBackend(), options);
}

const Body& body_of(const Role& role, BodyKind kind) {
  return *std::find_if(role.bodies.begin(), role.bodies.end(), [&](const Body& b) { return b.kind == kind; });
}

/// Vectors of the collectives of a body, in bytes.
std::vector<std::int64_t> vectors(const Role& role, BodyKind body, CollectiveKind kind) {
  std::vector<std::int64_t> bytes;
  for (const auto& i : body_of(role, body).instructions)
    if (i.kind == InstructionKind::Collective && role.collectives[static_cast<std::size_t>(i.collective)].kind == kind)
      bytes.push_back(message_bytes(role, i, 0));
  return bytes;
}

std::int64_t sum(const std::vector<std::int64_t>& all) { return std::accumulate(all.begin(), all.end(), std::int64_t{0}); }

std::int64_t parameter_bytes(const graph::TrainingGraph& training) {
  std::int64_t bytes = 0;
  for (const auto& p : training.parameters) bytes += static_cast<std::int64_t>(graph::size_of(training.graph[p.value].type).value());
  return bytes;
}

/// Elements that a rank sends in a step, in messages longer than those of the loss.
std::int64_t sent_by(const Program& program, int rank) {
  const auto& role = program.role(rank);
  std::int64_t elements = 0;
  for (const auto& slot : role.slots)
    for (const auto& i : role.bodies[slot.body].instructions) {
      if (i.kind != InstructionKind::Collective || !runs(program, role, i, slot.micro_batch)) continue;
      const auto& vector = role.buffers[i.outputs.front()];
      const auto count = graph::element_count(vector.shapes.front());
      const auto& info = role.collectives[static_cast<std::size_t>(i.collective)];
      for (const auto& s : steps_of(program, info, role, {rank, slot.micro_batch, count, 4, 1})) elements += count > 1 ? s.send_count : 0;
    }
  return elements;
}

/// Kernels of a body between each collective of a kind and the first instruction that waits for it.
std::vector<int> kernels_behind(const Role& role, BodyKind kind, CollectiveKind collective) {
  const auto& instructions = body_of(role, kind).instructions;
  std::vector<int> counts;
  for (std::size_t at = 0; at < instructions.size(); ++at) {
    const auto& i = instructions[at];
    if (i.kind != InstructionKind::Collective || role.collectives[static_cast<std::size_t>(i.collective)].kind != collective) continue;
    const auto touches = [&](const Instruction& other) {
      const auto has = [&](const std::vector<BufferIndex>& list) {
        return std::find(list.begin(), list.end(), i.outputs.front()) != list.end();
      };
      return has(other.inputs) || has(other.outputs);
    };
    int kernels = 0;
    for (auto n = at + 1; n < instructions.size() && !touches(instructions[n]); ++n)
      kernels += instructions[n].kind == InstructionKind::Kernel;
    counts.push_back(kernels);
  }
  return counts;
}

}  // namespace

TEST_CASE("gradients are sharded and parameters gathered in buckets, each byte once") {
  const auto training = training_of({});
  const auto bytes = parameter_bytes(training);
  // 3 x (64 x 192 + 64 x 64 + 2 x 64 x 256, biases of 192 + 64 + 256 + 64, 4 x 64 of norms) + (96 + 16) x 64 + 2 x 64 = 157,248 of 4 bytes
  CHECK(bytes == 628'992);
  for (const auto* plan : {"dp=4,zero=1", "dp=4,zero=2", "dp=4,zero=3"}) {
    INFO(plan);
    const auto program = lowered(training, plan);
    const auto& role = program.role(0);
    const auto scattered = vectors(role, BodyKind::Backward, CollectiveKind::ReduceScatter),
               gathered = vectors(role, BodyKind::Forward, CollectiveKind::AllGather),
               again = vectors(role, BodyKind::Backward, CollectiveKind::AllGather);
    CHECK(sum(scattered) == bytes);
    CHECK(sum(gathered) == bytes);
    // 12 matrices of 16,384 to 65,536 bytes; 40,000 hold one of 16,384 and what is smaller, or one of 24,576 (the table), or none more.
    for (const auto& all : {scattered, gathered}) {
      CHECK(all.size() <= 20);
      CHECK(std::ranges::all_of(all, [](std::int64_t b) { return b <= 40'000 || b == 64 * 192 * 4 || b == 64 * 256 * 4; }));
    }
    CHECK(vectors(role, BodyKind::Update, CollectiveKind::AllGather).empty());
    CHECK(vectors(role, BodyKind::Update, CollectiveKind::ReduceScatter).empty());
    // Stage 3 gathers again what gradients of activations want: all matrices but the first use of the tables, and no biases.
    CHECK(again.empty() == (std::string(plan) != "dp=4,zero=3"));
  }
  // What one rank sends is what it sends where whole gradients are summed: 3/4 of all, twice, in rings.
  const auto whole = sent_by(lowered(training, "dp=4,allreduce=ring"), 1);
  CHECK(whole == 2 * 3 * bytes / 4 / 4);
  CHECK(sent_by(lowered(training, "dp=4,zero=1"), 1) == whole);
  CHECK(sent_by(lowered(training, "dp=4,zero=2"), 1) == whole);
}

TEST_CASE("in groups of replicas a part is summed by those that have it, and everything else stays in the group") {
  const auto training = training_of({});
  const auto bytes = parameter_bytes(training);
  const auto program = lowered(training, "dp=4,zero=1,zero_group=2,allreduce=ring");
  REQUIRE(program.axes.size() >= 2);
  CHECK(program.axes[0].name == "shard");  // neighbours, and those that are two ranks away
  CHECK((program.axes[0].size == 2 && program.axes[0].stride == 1));
  CHECK(program.axes[1].name == "dp");
  CHECK((program.axes[1].size == 2 && program.axes[1].stride == 2));
  const auto& role = program.role(0);
  CHECK(sum(vectors(role, BodyKind::Backward, CollectiveKind::ReduceScatter)) == bytes);
  CHECK(sum(vectors(role, BodyKind::Forward, CollectiveKind::AllGather)) == bytes);
  // The halves: every rank has one. Few bytes more, since parts begin at multiples of 64.
  const auto halves = sum(vectors(role, BodyKind::Update, CollectiveKind::AllReduce));
  CHECK(halves >= bytes / 2);
  CHECK(halves < bytes / 2 + 64 * 60);
  // Of two ranks each sends half of the bytes to deal them out, half of its half twice to sum it, and its half of the parameters.
  const auto sent = sent_by(program, 1);
  CHECK(sent >= (bytes / 2 + bytes / 2 + bytes / 2) / 4);
  CHECK(sent < (bytes / 2 + bytes / 2 + bytes / 2 + 64 * 60) / 4);
}

TEST_CASE("with micro-batches stages 1 and 2 gather once a step, stage 1 scatters once, stages 2 and 3 each time") {
  const auto training = training_of({});
  const auto runs_of = [&](const char* plan, BodyKind body, CollectiveKind kind) {
    const auto program = lowered(training, plan);
    const auto& role = program.role(0);
    std::int64_t bytes = 0;
    for (const auto& slot : role.slots)
      for (const auto& i : role.bodies[slot.body].instructions)
        if (role.bodies[slot.body].kind == body && i.kind == InstructionKind::Collective && runs(program, role, i, slot.micro_batch) &&
            role.collectives[static_cast<std::size_t>(i.collective)].kind == kind)
          bytes += message_bytes(role, i, 0);
    return bytes;
  };
  const auto bytes = parameter_bytes(training);
  const std::int64_t table = 96 * 64 * 4;      // used twice: what both uses make is added up once, in the update
  for (const auto* stage : {"1", "2", "3"}) {  // 4 micro-batches
    const auto plan = std::string("dp=2,micro_batch=1,zero=") + stage;
    INFO(plan);
    CHECK(runs_of(plan.c_str(), BodyKind::Forward, CollectiveKind::AllGather) == (*stage == '3' ? 4 : 1) * bytes);
    CHECK(runs_of(plan.c_str(), BodyKind::Backward, CollectiveKind::ReduceScatter) == (*stage == '1' ? 1 : 4) * (bytes - table));
    CHECK(runs_of(plan.c_str(), BodyKind::Update, CollectiveKind::ReduceScatter) == table);
  }
  // Without overlap the sums of stage 1 wait for the update.
  CHECK(runs_of("dp=2,micro_batch=1,zero=1,overlap=off", BodyKind::Backward, CollectiveKind::ReduceScatter) == 0);
  CHECK(runs_of("dp=2,micro_batch=1,zero=1,overlap=off", BodyKind::Update, CollectiveKind::ReduceScatter) == bytes);
}

TEST_CASE("a higher stage never needs more memory") {
  for (const auto& model : {Model{}, Model{kGpt, "momentum"}, Model{kGpt, "sgd"}, Model{kGpt, "adam", DType::BF16},
                            Model{"resnet18?image=32&classes=10", "momentum"}, Model{"vgg11?image=32&classes=10", "momentum"}})
    for (const auto* shape : {"dp=2", "dp=4", "dp=8", "dp=4,micro_batch=1", "dp=2,pp=2,micro_batch=1", "dp=2,tp=2,micro_batch=2"}) {
      if (model.name != kGpt && std::string(shape).find("micro") != std::string::npos) continue;  // statistics of the whole batch
      const auto training = training_of(model);
      INFO(model.name << ", " << model.optimizer << ", " << name(model.dtype) << ", " << shape);
      std::int64_t before = 0;
      // Of two ranks without state of the optimizer each saves half of the gradients and keeps half of the parameters a second time.
      const bool saves_nothing = model.optimizer == "sgd" && std::string(shape).starts_with("dp=2");
      for (const auto* stage : {"0", "1", "2"}) {
        if (saves_nothing && *stage == '2') continue;
        const auto bytes = lowered(training, std::string(shape) + ",zero=" + stage).role(0).memory.arena_bytes;
        INFO("zero=" << stage << ": " << before << " -> " << bytes);
        if (before > 0) CHECK(bytes <= before + before / 50);
        before = bytes;
      }
    }
}

TEST_CASE("kernels run beside what is gathered and sharded, unless overlap=off") {
  const auto training = training_of({});
  const auto most = [](const std::vector<int>& counts) { return counts.empty() ? 0 : *std::max_element(counts.begin(), counts.end()); };
  const auto waiting = [](const std::vector<int>& counts) { return std::count(counts.begin(), counts.end(), 0); };
  for (const auto* plan : {"dp=2,zero=1", "dp=2,zero=2", "dp=2,zero=3", "dp=2,zero=1,micro_batch=1", "dp=2,zero=2,micro_batch=1"}) {
    INFO(plan);
    const auto on = lowered(training, plan), off = lowered(training, std::string(plan) + ",overlap=off");
    const auto gathered = kernels_behind(on.role(0), BodyKind::Forward, CollectiveKind::AllGather),
               late = kernels_behind(off.role(0), BodyKind::Forward, CollectiveKind::AllGather),
               scattered = kernels_behind(on.role(0), BodyKind::Backward, CollectiveKind::ReduceScatter);
    REQUIRE(gathered.size() == late.size());
    REQUIRE(gathered.size() > 4);
    REQUIRE(scattered.size() > 4);
    CHECK(waiting(gathered) <= 1);   // the first
    CHECK(waiting(scattered) <= 1);  // the last
    // Where the next message is packed with the one before it nothing hides either.
    CHECK(waiting(late) > static_cast<std::ptrdiff_t>(late.size()) / 2);
    for (std::size_t n = 0; n < late.size(); ++n) CHECK(gathered[n] >= late[n]);
    if (plan[8] != '1') CHECK(most(kernels_behind(off.role(0), BodyKind::Backward, CollectiveKind::ReduceScatter)) == 0);
  }
  // The order of kernels is the same, and no more is on its way than 40,000 bytes beside the largest message, [64, 256] in f32, twice.
  const auto on = lowered(training, "dp=2,zero=3"), off = lowered(training, "dp=2,zero=3,overlap=off");
  CHECK(on.role(0).memory.arena_bytes <= off.role(0).memory.arena_bytes + 2 * (40'000 + 64 * 256 * 4));
  for (const auto kind : {BodyKind::Forward, BodyKind::Backward}) {
    std::vector<graph::NodeId> first, second;
    for (const auto& i : body_of(on.role(0), kind).instructions)
      if (i.kind == InstructionKind::Kernel) first.push_back(i.node);
    for (const auto& i : body_of(off.role(0), kind).instructions)
      if (i.kind == InstructionKind::Kernel) second.push_back(i.node);
    CHECK(first == second);
  }
}

TEST_CASE("parts are as equal as a dimension allows, and running statistics stay whole") {
  // [6, 64] of 4 ranks: 2 of 6 rows are a third, 16 of 64 columns a quarter.
  const auto gpt = training_of({"gpt?layers=1&hidden=64&heads=4&seq=6&vocab=96"});
  const auto position = gpt.graph.find("wpe.weight");
  REQUIRE(position != graph::TensorId::None);
  CHECK(lowered(gpt, "dp=4,zero=1").sharding->layout(position)[0].dim == 1);
  const auto images = training_of({"resnet18?image=32&classes=10"});
  const auto program = lowered(images, "dp=4,zero=1");
  for (std::size_t t = 0; t < images.graph.tensors().size(); ++t)
    if (images.graph.tensors()[t].role == graph::TensorRole::State) CHECK(program.sharding->layouts[t][0].replicated());
}

TEST_CASE("what has no state of the optimizer is not sharded by stage 1, and a warning says so") {
  const auto training = training_of({kGpt, "sgd"});
  const auto program = lowered(training, "dp=2,zero=1");
  REQUIRE(program.warnings.size() == 1);
  CHECK_THAT(program.warnings.front(), contains("zero=1 is without effect") && contains("sgd"));
  CHECK(vectors(program.role(0), BodyKind::Backward, CollectiveKind::ReduceScatter).empty());
  CHECK(lowered(training, "dp=2,zero=2").warnings.empty());
  CHECK(lowered(training_of({kGpt, "momentum"}), "dp=2,zero=1").warnings.empty());
}
