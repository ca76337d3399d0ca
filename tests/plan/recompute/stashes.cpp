// What waits for the backward pass in the host's memory or in fewer bits: counted by hand.
#include <algorithm>
#include <map>

#include "costmodel/cost_model.hpp"
#include "graph/training.hpp"
#include "graph/zoo/layers.hpp"
#include "platforms/catalog.hpp"
#include "predict/assessment.hpp"
#include "tests/catch.hpp"

using namespace rehearsal;
using namespace rehearsal::plan;
using namespace rehearsal::predict;
using graph::zoo::Layers;

namespace {

constexpr std::int64_t kRows = 512, kWidth = 64;
constexpr std::int64_t kLayerBytes = kRows * kWidth * 4;

graph::TrainingGraph trained(Layers model, graph::TensorId x, const std::string& optimizer = "sgd") {
  graph::TrainingOptions options;
  options.optimizer.name = optimizer;
  const auto result = model.linear("last", x, 2);
  return graph::build_training_graph(graph::with_initial_values(std::move(model).finish(result, "output")), options);
}

/// Products of equal size, each with a ReLU.
graph::TrainingGraph chain(int layers, const std::string& optimizer = "sgd") {
  Layers model;
  auto x = model.input("input", {kRows, kWidth});
  for (int n = 0; n < layers; ++n) {
    const auto name = std::to_string(n);
    x = model.relu("relu" + name, model.linear("linear" + name, x, kWidth));
  }
  return trained(std::move(model), x, optimizer);
}

/// The next product reads what a second ReLU's result is multiplied to: of the first the backward pass wants the signs alone.
graph::TrainingGraph signs() {
  Layers model;
  const auto x = model.linear("linear", model.input("input", {kRows, kWidth}), kWidth);
  const auto y = model.node("twice", "Add", std::vector{model.relu("relu", x), model.constant("one", 1)});
  return trained(std::move(model), y);
}

Program lowered(const graph::TrainingGraph& training, const std::string& plan) {
  return lower(training, parse_plan(plan), TableBackend(), {});
}

/// Bytes that instructions of a kind write, by the name of what they move; every one moves between arenas or changes the type.
std::map<std::string, std::int64_t> moved(const Program& program, InstructionKind kind) {
  std::map<std::string, std::int64_t> bytes;
  const auto& role = program.roles.front();
  for (const auto& body : role.bodies)
    for (const auto& i : body.instructions) {
      if (i.kind != kind) continue;
      const auto &from = role.buffers[i.inputs.front()], &to = role.buffers[i.outputs.front()];
      CHECK((from.on_host != to.on_host || from.dtype != to.dtype));
      CHECK((i.stream == Stream::Host) == crosses_to_host(role, i));
      bytes[to.name] += to.bytes;
    }
  return bytes;
}

std::int64_t arena(const Program& program) { return program.roles.front().memory.arena_bytes; }

}  // namespace

TEST_CASE("offloaded activations leave the device and come back once") {
  const auto training = chain(8);
  const auto none = lowered(training, "dp=1"), offload = lowered(training, "offload=activations");
  const auto out = moved(offload, InstructionKind::Stash), back = moved(offload, InstructionKind::Restore);
  // Of every layer the ReLU's result: 8; of the loss the logits (512 x 2 in f32), and of every row the sum of its exponentials at most.
  for (int n = 0; n < 8; ++n) CHECK(out.at("relu" + std::to_string(n) + ":stash") == kLayerBytes);
  CHECK(out.size() == back.size());
  CHECK(out.size() <= 10);
  std::int64_t all = 0;
  for (const auto& [name, bytes] : out) all += bytes;
  CHECK(offload.roles.front().memory.host_bytes == all);  // all of them are multiples of 64 bytes
  CHECK(none.roles.front().memory.host_bytes == 0);
  // Not more than 3 layers at once: one being copied, one being made, its gradient; without, all 8 and a gradient.
  CHECK(arena(none) - arena(offload) >= 5 * kLayerBytes);
}

TEST_CASE("in a pipeline every micro-batch in flight has its place on the host") {
  const auto program = lowered(chain(8), "pp=2,micro_batch=64");
  const auto offload = lowered(chain(8), "pp=2,micro_batch=64,offload=activations");
  const auto& role = offload.roles.front();
  CHECK(role.memory.in_flight == 2);
  CHECK(role.memory.host_bytes == 2 * role.memory.host_saved_stride);
  CHECK(role.memory.host_saved_stride > 0);
  CHECK(arena(offload) < arena(program));
}

TEST_CASE("an offloaded optimizer keeps its slots on the host and brings them one by one") {
  const auto training = chain(4, "adam");
  const auto none = lowered(training, "dp=1"), offload = lowered(training, "offload=optimizer");
  // Two moments of 4 x (64 x 64 + 64) + 2 x 64 + 2 numbers; the biases of the last layer (8 bytes) take 64.
  const std::int64_t matrices = 4 * (64 * 64 + 64) + 2 * 64;
  CHECK(offload.roles.front().memory.host_bytes == 2 * (matrices * 4 + 64));
  const auto slots = [](const Program& p) {
    return p.roles.front().memory.by_category[static_cast<std::size_t>(MemoryCategory::OptimizerState)];
  };
  CHECK(slots(none) >= 2 * matrices * 4);
  CHECK(slots(offload) < slots(none) / 2);
  CHECK(moved(offload, InstructionKind::Restore).size() == 2 * 10);
  CHECK(moved(offload, InstructionKind::Stash).size() == 2 * 10);
}

TEST_CASE("signs of a ReLU take a bit each, and only where nothing else is wanted") {
  const auto training = signs();
  const auto gist = lowered(training, "compression=gist");
  const auto out = moved(gist, InstructionKind::Stash);
  REQUIRE(out.size() == 1);
  CHECK(out.begin()->second == kRows * kWidth / 8);
  CHECK(moved(gist, InstructionKind::Restore).begin()->second == kLayerBytes);
  CHECK(gist.warnings.empty());
  // In a chain the next product wants the ReLU's result itself.
  const auto none = lowered(chain(3), "compression=gist");
  CHECK(moved(none, InstructionKind::Stash).empty());
  REQUIRE(!none.warnings.empty());
  CHECK_THAT(none.warnings.back(), contains("compression=gist is without effect"));
}

TEST_CASE("rounded results take half the bytes, and the plan says that they are rounded") {
  const auto training = chain(8);
  const auto gist = lowered(training, "compression=gist-bf16");
  CHECK(moved(gist, InstructionKind::Stash).at("relu3:stash") == kLayerBytes / 2);
  REQUIRE(!gist.warnings.empty());
  CHECK_THAT(gist.warnings.front(), contains("other mathematics"));
  CHECK(arena(lowered(training, "dp=1")) - arena(gist) >= 3 * kLayerBytes);  // 8 layers in 4, and one whole at work
}

TEST_CASE("what a product reads of a ReLU waits sparsely, with the room that the plan says") {
  const auto training = chain(8);
  const auto room = [&](const char* plan) { return moved(lowered(training, plan), InstructionKind::Stash).at("relu3:stash"); };
  // A bit an element, and three quarters of the numbers; or half of them.
  const std::int64_t elements = kRows * kWidth;
  CHECK(room("compression=gist-sparse") == elements / 8 + elements * 3 / 4 * 4);
  CHECK(room("compression=gist-sparse:0.5") == elements / 8 + elements / 2 * 4);
  const auto half = lowered(training, "compression=gist-sparse:0.5");
  CHECK(moved(half, InstructionKind::Restore).at("relu3") == kLayerBytes);
  CHECK(half.warnings.empty());
  // 8 layers of which 17 / 32 are kept, and one whole at work.
  CHECK(arena(lowered(training, "dp=1")) - arena(half) >= 2 * kLayerBytes);
  // Where signs are all that is wanted, they are all that is kept.
  CHECK(moved(lowered(signs(), "compression=gist-sparse"), InstructionKind::Stash).begin()->second == elements / 8);
}

TEST_CASE("what is made again is made from values, not from signs") {
  // The sum is dropped, and made again of what the ReLU made.
  const auto program = lowered(signs(), "compression=gist,recompute=selective");
  CHECK(moved(program, InstructionKind::Stash).empty());
  CHECK(moved(lowered(signs(), "compression=gist"), InstructionKind::Stash).size() == 1);
}

TEST_CASE("bits fill the last byte") {
  // 3 x 11 results of a ReLU: 33 signs in five bytes, and sparsely in five bytes made whole numbers (8), with ceil(33 / 2) of them.
  Layers model;
  const auto x = model.linear("linear", model.input("input", {3, 11}), 11);
  const auto y = model.node("twice", "Add", std::vector{model.relu("relu", x), model.constant("one", 1)});
  CHECK(moved(lowered(trained(std::move(model), y), "compression=gist"), InstructionKind::Stash).begin()->second == 5);
  Layers chained;
  auto z = chained.input("input", {3, 11});
  for (const auto* name : {"a", "b"}) z = chained.relu(std::string(name) + ".relu", chained.linear(name, z, 11));
  const auto sparse = moved(lowered(trained(std::move(chained), z), "compression=gist-sparse:0.5"), InstructionKind::Stash);
  CHECK(sparse.at("a.relu:stash") == 8 + 17 * 4);
}

TEST_CASE("dropout leaves the zeros of a ReLU") {
  Layers model;
  const auto x = model.relu("relu", model.linear("linear", model.input("input", {kRows, kWidth}), kWidth));
  const auto y = model.dropout("dropout", x, 0.5);
  const auto training = trained(std::move(model), y);
  const auto out = moved(lowered(training, "compression=gist-sparse"), InstructionKind::Stash);
  CHECK(out.at("relu:stash") == kRows * kWidth / 8);  // read by its own gradient alone
  CHECK(out.at("dropout:stash") == kRows * kWidth / 8 + kRows * kWidth * 3 / 4 * 4);
}

TEST_CASE("a way to the host is needed, and its copies take time") {
  const auto training = chain(8);
  auto platform = platforms::with_devices(platforms::load("dgx-a100"), 1);
  const auto dims = std::make_shared<const graph::LogicalDims>(training.graph);
  const TableBackend backend;
  const auto seconds = [&](double bandwidth, const char* plan) {
    platform.nodes.front().device.host_bandwidth->value = BytesPerSecond(bandwidth);
    const costmodel::CostModel model(platforms::device_of(platform, 0), {}, "f32");
    const auto evaluator = closed_form_evaluator();
    return assess({training, dims, platform, backend, model, "f32"}, parse_plan(plan), *evaluator).step.value();
  };
  REQUIRE(platform.nodes.front().device.host_bandwidth);
  CHECK(seconds(1e9, "offload=activations") > seconds(100e9, "offload=activations"));
  // 8 layers of 128 KiB there and back take at least 2 x 8 x 131072 / 1e9 seconds.
  CHECK(seconds(1e9, "offload=activations") >= 2 * 8 * static_cast<double>(kLayerBytes) / 1e9);
  CHECK(seconds(1e9, "dp=1") == seconds(100e9, "dp=1"));
  platform.nodes.front().device.host_bandwidth.reset();
  const costmodel::CostModel model(platforms::device_of(platform, 0), {}, "f32");
  CHECK_THROWS_WITH(lower_for({training, dims, platform, backend, model, "f32"}, parse_plan("offload=activations")),
                    contains("host_bandwidth"));
}
