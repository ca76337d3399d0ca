#include "base/error.hpp"
#include "graph/composites.hpp"
#include "graph/gradient.hpp"
#include "tests/catch.hpp"
#include "tests/graph/ops/rows.hpp"

using namespace rehearsal;
using namespace rehearsal::graph;

namespace {

using Types = std::vector<std::optional<TensorType>>;
TensorType f32(Shape shape) { return {DType::F32, std::move(shape)}; }
TensorType f64(Shape shape) { return {DType::F64, std::move(shape)}; }

/// Batch normalization of x [4, 3, 5, 5] with its parameters.
struct Normalized {
  GraphBuilder builder;
  TensorId x = builder.add_input("x", f32({4, 3, 5, 5}));
  TensorId scale = stored("scale", TensorRole::Parameter), bias = stored("bias", TensorRole::Parameter);
  TensorId mean = stored("mean", TensorRole::State), variance = stored("variance", TensorRole::State);

  TensorId stored(const char* name, TensorRole role) { return builder.add_stored(name, f32({3}), role, {}); }
};

const Node& node_of(const Graph& graph, std::string_view op_name) {
  for (const Node& node : graph.nodes()) {
    if (schema(node).name == op_name) return node;
  }
  throw InternalError("the graph has no such node");
}

}  // namespace

TEST_CASE("statistics sum over batch and space, their use is elementwise") {
  const SplitRule sums = RowOn("BatchNormSums", {{{4, 3, 5, 5}}}).labels();
  CHECK(text_of(sums.inputs[0]) == "0 1 2 3");
  CHECK(text_of(sums.outputs[0]) == "- 1");
  CHECK(text_of(sums.kinds) == "SPSS");
  const SplitRule apply =
      RowOn("BatchNormApply", Types{f32({4, 3, 5}), f64({2, 3}), f32({3}), f32({3})}, {{"count", std::int64_t{20}}}).labels();
  CHECK(text_of(apply.inputs[1]) == "- 1");
  CHECK(text_of(apply.inputs[3]) == "1");
  CHECK(text_of(apply.kinds) == "PPP");
  const SplitRule gradient =
      RowOn("BatchNormGradSums", Types{f32({4, 3}), f64({2, 3}), f32({4, 3})}, {{"count", std::int64_t{4}}}).labels();
  CHECK(text_of(gradient.kinds) == "SP");
}

TEST_CASE("group statistics sum over the channels of a group and space") {
  const SplitRule sums = RowOn("GroupNormSums", {{{4, 6, 5}}}, {{"num_groups", std::int64_t{2}}}).labels();
  CHECK(text_of(sums.inputs[0]) == "0 1.2 3");
  CHECK(text_of(sums.outputs[0]) == "- 0 1");
  CHECK(text_of(sums.kinds) == "PPSS");
  const SplitRule parameters = RowOn("GroupNormGradParameters", Types{f32({4, 6, 5}), f64({2, 4, 2}), f32({4, 6, 5})},
                                     {{"num_groups", std::int64_t{2}}, {"count", std::int64_t{15}}})
                                   .labels();
  CHECK(text_of(parameters.outputs[0]) == "1.2");
  CHECK(text_of(parameters.kinds) == "SPPS");
}

TEST_CASE("work of normalizing a layer is seven operations an element") {
  // x minus its mean, squared and summed, the deviation, scale and shift.
  const RowOn layer("LayerNormalization", {{{4, 6, 8}}, {{8}}, {{8}}});
  CHECK(layer.work().flops.value() == 7 * 192);
  CHECK(layer.shape(1) == Shape{4, 6, 1});
}

TEST_CASE("operations of normalizing by element, by hand") {
  // Sums: x, x squared and its sum. Gradients of scale and shift: the normalized x, times dy, and two sums.
  CHECK(RowOn("BatchNormSums", {{{4, 6, 5}}}).work().flops.value() == 3 * 120);
  CHECK(RowOn("GroupNormSums", {{{4, 6, 5}}}, {{"num_groups", std::int64_t{2}}}).work().flops.value() == 3 * 120);
  CHECK(RowOn("GroupNormGradParameters", Types{f32({4, 6, 5}), f64({2, 4, 2}), f32({4, 6, 5})},
              {{"num_groups", std::int64_t{2}}, {"count", std::int64_t{15}}})
            .work()
            .flops.value() == 6 * 120);
}

TEST_CASE("normalized axes of a layer stay whole") {
  const RowOn layer("LayerNormalization", {{{4, 7, 16}}, {{16}}, {{16}}}, {{"axis", std::int64_t{-1}}});
  CHECK(layer.shape(1) == Shape{4, 7, 1});
  CHECK(text_of(layer.labels().inputs[1]) == "2");
  CHECK(text_of(layer.labels().outputs[2]) == "0 1 -");
  CHECK(text_of(layer.labels().kinds) == "PPO");
  const RowOn parameters("LayerNormalizationGradParameters", {{{4, 7, 16}}, {{4, 7, 1}}, {{4, 7, 1}}, {{4, 7, 16}}});
  CHECK(parameters.shape() == Shape{16});
  CHECK(text_of(parameters.labels().kinds) == "SSO");
}

TEST_CASE("what normalizations refuse") {
  CHECK(says(refusal("LayerNormalization", {{{4, 16}}, {{8}}}), {"scale", "[16]"}));
  CHECK(says(refusal("LayerNormalization", {{{4, 16}}}, {{"axis", std::int64_t{2}}}), {"axis"}));
  CHECK(says(refusal("BatchNormApply", {{{4, 3}}, {{2, 3}}, {{3}}, {{3}}}, {{"count", std::int64_t{4}}}), {"f64"}));
  CHECK(says(refusal("BatchNormInference", {{{4, 3}}, {{3}}, {{3}}, {{3}}, {{4}}}), {"variance", "[3]"}));
  CHECK(says(refusal("GroupNormSums", {{{4, 6, 5}}}, {{"num_groups", std::int64_t{4}}}), {"'num_groups' is 4", "6 channels"}));
  Normalized n;
  CHECK_THROWS_AS(add_batch_norm(n.builder, {.x = n.scale, .scale = n.scale, .bias = n.bias}, "bn"), BadInput);
}

TEST_CASE("batch normalization is two forward nodes and an update of its statistics") {
  Normalized n;
  const TensorId y = add_batch_norm(n.builder, {n.x, n.scale, n.bias, n.mean, n.variance, 1e-5, 0.9}, "bn");
  n.builder.set_outputs({y});
  const Graph graph = std::move(n.builder).build();
  REQUIRE(graph.nodes().size() == 3);
  CHECK(graph.nodes()[0].name == "bn.sums");
  CHECK(graph.nodes()[1].attributes.integer("count", 0) == 100);  // 4 * 5 * 5
  const Node& running = graph.nodes()[2];
  CHECK(running.phase == Phase::Update);
  CHECK(graph[running.outputs[0]].role == TensorRole::Updated);
  CHECK(graph[graph[running.outputs[0]].stored_in].name == "mean");
  CHECK(graph[graph[running.outputs[1]].stored_in].name == "variance");
}

TEST_CASE("the gradient of batch normalization does not stop at its statistics") {
  Normalized n;
  const TensorId y = add_batch_norm(n.builder, {.x = n.x, .scale = n.scale, .bias = n.bias}, "bn");
  const TensorId loss = n.builder.add1("ReduceSum", {y}, {{"keepdims", std::int64_t{0}}});
  std::vector<Untrainable> blocked;
  const std::vector<TensorId> wanted{n.x, n.scale, n.bias};
  auto gradients = differentiate(n.builder, loss, wanted, blocked);
  CHECK(blocked.empty());
  for (const TensorId g : gradients) CHECK(g != TensorId::None);
  gradients.push_back(y);
  n.builder.set_outputs(gradients);
  const Graph graph = std::move(n.builder).build();
  CHECK(node_of(graph, "BatchNormGradInput").forward != NodeId::None);
  CHECK(node_of(graph, "BatchNormGradInput").inputs[4] == node_of(graph, "BatchNormGradSums").outputs[0]);  // one sum serves all three
  CHECK(node_of(graph, "BatchNormGradParameters").inputs[0] == node_of(graph, "BatchNormGradSums").outputs[0]);
}
