#include "graph/narrow_type.hpp"

#include "graph/builder.hpp"
#include "graph/composites.hpp"
#include "graph/op_schema.hpp"
#include "graph/training.hpp"
#include "tests/catch.hpp"

using namespace rehearsal;
using namespace rehearsal::graph;

namespace {

class Model {
 public:
  TensorId input(const Shape& shape) { return builder_.add_input("x", {DType::F32, shape}); }
  TensorId parameter(const std::string& name, const Shape& shape) {
    return builder_.add_stored(name, {DType::F32, shape}, TensorRole::Parameter, {});
  }
  TensorId named(const char* op, std::vector<TensorId> inputs, const std::string& name, Attributes attributes = {}) {
    return builder_.add(op, std::move(inputs), std::move(attributes), {name, Phase::Forward, NodeId::None, {name}}).front();
  }
  /// A convolution by 1x1 from and to 8 channels.
  TensorId convolution(TensorId x, const std::string& name, std::int64_t from = 8) {
    return named("Conv", {x, parameter(name + ".weight", {8, from, 1, 1})}, name);
  }
  TensorId normalization(TensorId x, const std::string& name) {
    BatchNorm norm;
    norm.x = x;
    norm.scale = parameter(name + ".weight", {8});
    norm.bias = parameter(name + ".bias", {8});
    norm.running_mean = builder_.add_stored(name + ".mean", {DType::F32, {8}}, TensorRole::State, {});
    norm.running_var = builder_.add_stored(name + ".var", {DType::F32, {8}}, TensorRole::State, {});
    return add_batch_norm(builder_, norm, name);
  }
  TensorId pooled(TensorId x, const std::string& name) {
    return named("ReduceSum", {x}, name, {{"axes", std::vector<std::int64_t>{2, 3}}, {"keepdims", std::int64_t{1}}, {"scale", 1.0 / 1024}});
  }
  Graph build(TensorId output) {
    builder_.set_outputs({output});
    return std::move(builder_).build();
  }

 private:
  GraphBuilder builder_;
};

/// A gate of one value per sample and channel on an image of 32 x 32: statistics of 4 values, beside those of 4 * 32 * 32 = 4096.
Graph gated(bool normalized_again) {
  Model m;
  const TensorId image = m.normalization(m.convolution(m.input({4, 3, 32, 32}), "first", 3), "first_norm");
  const TensorId gate = m.normalization(m.convolution(m.pooled(image, "mean"), "gate"), "gate_norm");
  const TensorId last = m.convolution(m.named("Mul", {image, gate}, "product"), "last");
  return m.build(m.pooled(normalized_again ? m.normalization(last, "last_norm") : last, "y"));
}

DType type(const Graph& graph, const std::string& tensor) {
  INFO(tensor);
  REQUIRE(graph.find(tensor) != TensorId::None);
  return graph[graph.find(tensor)].type.dtype;
}

}  // namespace

TEST_CASE("what statistics of few values reach stays in f32") {
  const auto narrowed = with_narrow_type(gated(true), DType::BF16);
  CHECK(narrowed.first == "gate_norm");
  CHECK(narrowed.fewest_values == 4);
  // FLOPs at 4 * 1024 pixels: first 2 * 4096 * 8 * 3 = 196608, last 2 * 4096 * 8 * 8 = 524288; gate at 4 pixels 2 * 4 * 8 * 8 = 512
  CHECK(narrowed.share == Approx(512.0 / (196608 + 524288 + 512)));
  for (const char* tensor : {"x", "first", "first.weight", "first_norm.weight", "mean", "last", "last.weight", "y"})
    CHECK(type(narrowed.graph, tensor) == DType::BF16);
  for (const char* tensor : {"gate", "gate.weight", "gate_norm.weight", "gate_norm.mean", "first_norm.mean", "product"})
    CHECK(type(narrowed.graph, tensor) == DType::F32);
}

TEST_CASE("up to the loss, where nothing is normalized over more") {
  const auto narrowed = with_narrow_type(gated(false), DType::F16);
  for (const char* tensor : {"product", "last", "last.weight", "y"}) CHECK(type(narrowed.graph, tensor) == DType::F32);
  CHECK(narrowed.share == Approx((524288.0 + 512) / (196608 + 524288 + 512)));
  for (const char* tensor : {"first", "first_norm.weight", "mean"}) CHECK(type(narrowed.graph, tensor) == DType::F16);
}

TEST_CASE("where one statistic is of few values, those of some hundred are kept, too") {
  for (const std::int64_t image : {32, 16}) {
    Model m;
    const TensorId first = m.normalization(m.convolution(m.input({4, 3, image, image}), "first", 3), "first_norm");
    const TensorId gate = m.normalization(m.convolution(m.pooled(first, "mean"), "gate"), "gate_norm");
    const auto narrowed = with_narrow_type(m.build(gate), DType::BF16);
    // The gate's are of 4 values, the first ones of 4 * 32 * 32 = 4096 or of 4 * 16 * 16 = 1024.
    CHECK(narrowed.fewest_values == 4);
    CHECK(type(narrowed.graph, "gate") == DType::F32);
    CHECK(type(narrowed.graph, "first") == (image == 32 ? DType::BF16 : DType::F32));
    CHECK(narrowed.first == (image == 32 ? "gate_norm" : "first_norm"));
  }
}

TEST_CASE("enough values keep nothing but running statistics in f32") {
  for (const std::int64_t image : {16, 8, 7}) {
    Model m;
    const TensorId first = m.normalization(m.convolution(m.input({4, 3, image, image}), "first", 3), "norm");
    const auto narrowed = with_narrow_type(m.build(m.pooled(m.convolution(first, "last"), "y")), DType::BF16);
    TrainingOptions options;
    options.loss = "mse";
    const Graph trained = build_training_graph(with_initial_values(narrowed.graph), options).graph;
    // 4 * 16 * 16 = 1024 values, 4 * 8 * 8 = 256, 4 * 7 * 7 = 196
    const DType computed = image == 7 ? DType::F32 : DType::BF16;
    for (const Node& node : trained.nodes()) {
      INFO(image << ": " << node.name << " " << schema(node).name);
      if (schema(node).family == CostFamily::Convolution) CHECK(trained[node.outputs[0]].type.dtype == computed);
    }
    CHECK((narrowed.kept == 0) == (image != 7));
    CHECK(narrowed.share == (image == 7 ? 1 : 0));
    CHECK(type(trained, "first.weight") == computed);
    CHECK(type(trained, "norm.mean") == DType::F32);
  }
}
