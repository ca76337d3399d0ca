// What is computed again, counted by hand, and what it saves.
#include <algorithm>
#include <map>
#include <set>

#include "graph/training.hpp"
#include "graph/zoo/layers.hpp"
#include "graph/zoo/zoo.hpp"
#include "plan/lowering/lowering.hpp"
#include "tests/catch.hpp"

using namespace rehearsal;
using namespace rehearsal::plan;
using graph::zoo::Layers;

namespace {

constexpr std::int64_t kRows = 512, kWidth = 16;
constexpr std::int64_t kLayerBytes = kRows * kWidth * 4;

graph::TrainingGraph training_of(const graph::Graph& model) { return graph::build_training_graph(graph::with_initial_values(model), {}); }

/// `layers` times a product and a ReLU of equal size; the loss of 2 classes at the end is small beside them.
graph::TrainingGraph chain(int layers) {
  Layers model;
  auto x = model.input("input", {kRows, kWidth});
  for (int n = 0; n < layers; ++n) {
    const auto name = std::to_string(n);
    x = model.relu("relu" + name, model.linear("linear" + name, x, kWidth));
  }
  const auto result = model.linear("last", x, 2);
  return training_of(std::move(model).finish(result, "output"));
}

graph::TrainingGraph zoo(const std::string& name, std::int64_t batch) { return training_of(graph::zoo::build(name, batch)); }

Program lowered(const graph::TrainingGraph& training, const std::string& plan) {
  return lower(training, parse_plan(plan), TableBackend(), {});
}

/// Instructions of role 0 that are there again: kernels by operator, others by kind.
std::map<std::string, int> again(const graph::TrainingGraph& training, const Program& program) {
  std::map<std::string, int> counts;
  for (const auto& body : program.roles.front().bodies)
    for (const auto& i : body.instructions) {
      if (!i.again) continue;
      CHECK(body.kind == BodyKind::Backward);
      const bool kernel = i.kind == InstructionKind::Kernel;
      ++counts[std::string(kernel ? graph::schema(training.graph[i.node]).name : name(i.kind))];
    }
  return counts;
}

/// Results of the forward pass that are there for the backward pass, by the operator that made them.
std::map<std::string, int> kept(const graph::TrainingGraph& training, const Program& program) {
  std::map<std::string, int> counts;
  const Role& role = program.roles.front();
  std::set<BufferIndex> seen;
  for (const auto& body : role.bodies) {
    if (body.kind != BodyKind::Forward) continue;
    for (const auto& i : body.instructions)
      for (const auto b : i.outputs)
        if (i.kind == InstructionKind::Kernel && b != kNoBuffer && role.buffers[b].lifetime == Lifetime::Saved && seen.insert(b).second)
          ++counts[std::string(graph::schema(training.graph[i.node]).name)];
  }
  return counts;
}

std::int64_t arena(const Program& program) { return program.roles.front().memory.arena_bytes; }

}  // namespace

TEST_CASE("full recomputation of n equal layers keeps about 2 sqrt(n) of them") {
  const auto training = chain(16);
  const auto none = lowered(training, "dp=1"), full = lowered(training, "recompute=full");
  CHECK(kept(training, none).at("Relu") == 16);
  // k segments: k - 1 results are kept between them, and of a segment of m layers m - 1 inside it (the last one: m). With X results in the
  // fullest segment k segments have at most k (X + 1) - 1 layers: the fewest (k - 1) + X for 16 of them is 7 (k 3, 4, 5 or 6 with X 5, 4,
  // 3, 2).
  const auto again_by = again(training, full), kept_by = kept(training, full);
  const int last = kept_by.at("Relu") + again_by.at("Relu") - 16;
  CHECK(last == 0);  // every ReLU is kept or recomputed, none both
  CHECK(again_by.size() == 2);
  // A ReLU is recomputed with the product in front of it.
  CHECK(again_by.at("Gemm") == again_by.at("Relu"));
  // 9 layers less at the fullest moment, give or take what one layer's backward pass has at work beside its segment.
  const auto saved = arena(none) - arena(full);
  INFO("saved " << saved / kLayerBytes << " layers");
  CHECK(saved >= 8 * kLayerBytes);
  CHECK(saved <= 9 * kLayerBytes);
}

TEST_CASE("full recomputation of some blocks makes the first of them again, and keeps the others whole") {
  const auto training = zoo("gpt?layers=3&hidden=64&heads=4&seq=64&vocab=96", 4);
  const auto none = lowered(training, "dp=1"), one = lowered(training, "recompute=full:1"), two = lowered(training, "recompute=full:2");
  const auto once = again(training, one), twice = again(training, two);
  CHECK(once.at("Softmax") == 1);
  CHECK(once.at("MatMul") >= 2);  // scores, and what they weigh
  for (const auto& [op, count] : once) CHECK(twice.at(op) == 2 * count);
  CHECK(kept(training, none).at("Softmax") == 3);
  CHECK(kept(training, one).at("Softmax") == 2);
  CHECK(arena(two) < arena(one));
  CHECK(arena(one) < arena(none));
  CHECK_THROWS_WITH(lowered(training, "recompute=full:4"), contains("recompute=full:4: the model has 3 equal blocks; use full"));
  CHECK_THROWS_WITH(lowered(chain(1), "recompute=full:1"), contains("the model has 0 equal blocks"));
  const auto steps = zoo("gnmt?layers=2&hidden=8&vocab=20&enc_seq=40&dec_seq=40", 2);  // of recurrent layers, 40 of each
  CHECK_THROWS_WITH(lowered(steps, "recompute=full:1"), contains("the model has 0 equal blocks"));
}

TEST_CASE("a chain too short to gain is left alone") {
  // Give or take the logits of 2 classes and what the loss makes of them: less than a fourth of a layer of 16 features.
  const auto training = chain(2);
  CHECK(arena(lowered(training, "recompute=full")) <= arena(lowered(training, "dp=1")) + kLayerBytes / 4);
}

TEST_CASE("selective recomputation of a chain makes ReLUs again and no product") {
  // The ReLU needs its result, the next product too; the product in front of it is kept in its place: nothing is saved, so nothing is done.
  const auto training = chain(4);
  auto counts = again(training, lowered(training, "recompute=selective"));
  counts.erase("LogSumExp");  // of two classes in the loss
  CHECK(counts.empty());
}

TEST_CASE("selective recomputation of a transformer block") {
  const auto training = zoo("gpt?layers=3&hidden=64&heads=4&seq=64&vocab=96", 4);
  const auto none = lowered(training, "dp=1"), selective = lowered(training, "recompute=selective");
  const auto counts = again(training, selective);
  for (const auto& [op, count] : counts) UNSCOPED_INFO(op << " " << count);
  for (const auto& [op, count] : kept(training, selective)) UNSCOPED_INFO("kept " << op << " " << count);
  for (const auto& [op, count] : kept(training, none)) UNSCOPED_INFO("none kept " << op << " " << count);
  CHECK(counts.at("MatMul") == 3);  // attention scores only
  CHECK(counts.at("Softmax") == 3);
  CHECK(arena(selective) < arena(none));
}
