#include "graph/adapters.hpp"

#include <set>

#include "base/error.hpp"
#include "graph/builder.hpp"
#include "graph/op_schema.hpp"
#include "graph/training.hpp"
#include "graph/zoo/zoo.hpp"
#include "tests/catch.hpp"

using namespace rehearsal;
using namespace rehearsal::graph;

namespace {

constexpr const char* kGpt = "zoo:gpt?layers=2&hidden=16&heads=2&seq=6&vocab=24&batch=2";

std::set<std::string> names(const Graph& g, TensorRole role) {
  std::set<std::string> names;
  for (const Tensor& t : g.tensors())
    if (t.role == role) names.insert(t.name);
  return names;
}

/// x [4, 6] times a weight that is stored [8, 6], as PyTorch stores it, and one product more with the same weight.
Graph transposed_twice() {
  GraphBuilder b;
  const TensorId x = b.add_input("x", {DType::F32, {4, 6}});
  const TensorId w = b.add_stored("w", {DType::F32, {8, 6}}, TensorRole::Parameter, {DType::F32, Fill{1}});
  const auto product = [&](const char* name) {
    return b.add("MatMul", {x, w}, {{"trans_b", std::int64_t{1}}}, {name, Phase::Forward, NodeId::None, {}}).front();
  };
  const TensorId sum = b.add1("Add", {product("first"), product("second")});
  b.set_outputs({sum});
  return std::move(b).build();
}

}  // namespace

TEST_CASE("adapters stand beside every matrix but the one that makes the result, and alone are trained") {
  const Graph model = zoo::build(kGpt);
  const auto adapted = with_adapters(model, {4, 8, {}});
  CHECK(adapted.weights == 2 * 4);  // attention's input and output, both of the feed-forward layer
  CHECK(names(adapted.graph, TensorRole::Frozen) == names(model, TensorRole::Parameter));
  const auto trained = names(adapted.graph, TensorRole::Parameter);
  CHECK(trained.size() == 2 * 8);
  std::int64_t elements = 0;
  for (const auto& name : trained) {
    const Tensor& t = adapted.graph[adapted.graph.find(name)];
    elements += element_count(t.type.shape);
    const bool first = name.ends_with(kAdapterA);
    CHECK(first != name.ends_with(kAdapterB));
    // A is drawn from ±1/sqrt(in), B is zero.
    if (first) CHECK(std::get<RandomUniform>(t.contents.source).high == Approx(1 / std::sqrt(static_cast<double>(t.type.shape[0]))));
    if (!first) CHECK(std::get<Fill>(t.contents.source).value == 0);
  }
  // Of each layer 16 x 48, 16 x 16, 16 x 64 and 64 x 16: the rank times the sum of their sides.
  CHECK(elements == 2 * 4 * (64 + 32 + 80 + 80));
  CHECK(adapted.graph.outputs().size() == model.outputs().size());
  CHECK(adapted.graph[adapted.graph.outputs()[0]].name == model[model.outputs()[0]].name);
  const TrainingGraph training = build_training_graph(with_initial_values(adapted.graph), {});
  CHECK(training.parameters.size() == trained.size());
}

TEST_CASE("targets are names of weights or nodes") {
  const Graph model = zoo::build(kGpt);
  CHECK(with_adapters(model, {4, 0, {"*attn*"}}).weights == 4);
  CHECK(with_adapters(model, {4, 0, {"*attn*", "h.0.mlp*"}}).weights == 6);
  CHECK_THROWS_WITH(with_adapters(model, {4, 0, {"*attn*", "q_proj*"}}), contains("q_proj*") && contains("matches no weight"));
  CHECK_THROWS_WITH(with_adapters(model, {17, 0, {}}), contains("rank 17") && contains("from 1 to 16"));
}

TEST_CASE("a weight that two nodes use has one adapter, a transposed one has its sides exchanged") {
  const auto adapted = with_adapters(transposed_twice(), {2, 0, {}});
  CHECK(adapted.weights == 1);
  CHECK(adapted.graph[adapted.graph.find("w.lora_A")].type.shape == Shape{6, 2});
  CHECK(adapted.graph[adapted.graph.find("w.lora_B")].type.shape == Shape{2, 8});
}

TEST_CASE("a weight that is read both ways has an adapter for either") {
  GraphBuilder b;
  const TensorId x = b.add_input("x", {DType::F32, {4, 6}});
  const TensorId w = b.add_stored("w", {DType::F32, {8, 6}}, TensorRole::Parameter, {DType::F32, Fill{1}});
  const TensorId code = b.add1("MatMul", {x, w}, {{"trans_b", std::int64_t{1}}});
  b.set_outputs({b.add1("Relu", {b.add1("MatMul", {code, w})})});
  const auto adapted = with_adapters(std::move(b).build(), {2, 2, {}});
  std::multiset<Shape> shapes;
  for (const auto& name : names(adapted.graph, TensorRole::Parameter)) shapes.insert(adapted.graph[adapted.graph.find(name)].type.shape);
  // 6 to 8 features by way of 2, and back
  CHECK(shapes == std::multiset<Shape>{{6, 2}, {2, 8}, {8, 2}, {2, 6}});
  CHECK(adapted.weights == 2);
}

TEST_CASE("a model without matrices has no place for adapters") {
  GraphBuilder b;
  b.set_outputs({b.add1("Relu", {b.add_input("x", {DType::F32, {2, 3}})})});
  CHECK_THROWS_AS(with_adapters(std::move(b).build(), {}), Refusal);
}

TEST_CASE("globs choose the roles of a model without its training graph") {
  std::vector<std::string> warnings;
  TrainingOptions options;
  options.freeze = {"*"};
  options.train = {"*ln_f*"};
  const Graph model = with_roles(zoo::build(kGpt), options, warnings);
  for (const auto& name : names(model, TensorRole::Parameter)) CHECK_THAT(name, contains("ln_f"));
  CHECK_FALSE(names(model, TensorRole::Parameter).empty());
  CHECK_FALSE(names(model, TensorRole::Frozen).empty());
  CHECK(warnings.empty());
}
