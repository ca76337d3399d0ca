// A graph written and read again is the same graph.

#include <algorithm>
#include <cstring>
#include <set>

#include "formats/onnx/export_trained.hpp"
#include "formats/onnx/model_export.hpp"
#include "formats/onnx/model_file.hpp"
#include "graph/op_schema.hpp"
#include "graph/training.hpp"
#include "graph/zoo/zoo.hpp"
#include "tests/catch.hpp"
#include "tests/formats/model_builder.hpp"

namespace rehearsal::formats {
namespace {

using graph::TensorRole;
using testing::bad_input;
using testing::ModelBuilder;
using testing::set;
using testing::TemporaryFolder;
using testing::write_bytes;

/// Stored tensors as "role name type", in a set: their order is of no meaning.
std::set<std::string> stored(const graph::Graph& graph) {
  std::set<std::string> rows;
  for (const graph::Tensor& tensor : graph.tensors()) {
    if (tensor.role != TensorRole::Parameter && tensor.role != TensorRole::State) continue;
    rows.insert((tensor.role == TensorRole::State ? "state " : "parameter ") + tensor.name + " " + graph::to_text(tensor.type.shape));
  }
  return rows;
}

std::multiset<std::string> operators(const graph::Graph& graph) {
  std::multiset<std::string> names;
  for (const graph::Node& node : graph.nodes()) names.emplace(graph::schema(node).name);
  return names;
}

TEST_CASE("a model of the zoo keeps its operators, parameters and state", "[export]") {
  const TemporaryFolder folder;
  for (const char* name :
       {"zoo:resnet18?image=32&classes=10", "zoo:unet2d?image=32", "zoo:gpt?layers=2&hidden=16&heads=2&seq=8&vocab=20"}) {
    CAPTURE(name);
    const graph::Graph model = graph::zoo::build(name);
    export_onnx(model, folder.file("m.onnx"));
    const ImportedModel read = import_onnx(folder.file("m.onnx"), {});
    CHECK(stored(read.graph) == stored(model));
    CHECK(operators(read.graph) == operators(model));
    REQUIRE(read.graph.outputs().size() == model.outputs().size());
    CHECK(read.graph[read.graph.outputs()[0]].type == model[model.outputs()[0]].type);
    CHECK(read.warnings.empty());
    for (const graph::Tensor& tensor : read.graph.tensors()) {
      if (tensor.role == TensorRole::Parameter) CHECK_FALSE(tensor.contents.known());
    }
  }
}

TEST_CASE("contents that follow a rule are written as rules", "[export]") {
  const TemporaryFolder folder;
  graph::GraphBuilder builder;
  const auto x = builder.add_input("x", {DType::F32, {2, 3}});
  const auto w = builder.add_stored("w", {DType::F32, {3, 4}}, TensorRole::Parameter, {DType::F32, graph::RandomNormal{0.5, 0.25}});
  const auto b = builder.add_stored("b", {DType::F32, {4}}, TensorRole::Parameter, {DType::F32, graph::Fill{0.5}});
  builder.set_outputs({builder.add1("Gemm", {x, w, b})});
  export_onnx(std::move(builder).build(), folder.file("m.onnx"));
  const ImportedModel read = import_onnx(folder.file("m.onnx"), {});
  const auto contents = [&](const char* name) { return read.graph[read.graph.find(name)].contents.source; };
  REQUIRE(std::holds_alternative<graph::RandomNormal>(contents("w")));
  CHECK(std::get<graph::RandomNormal>(contents("w")).deviation == 0.25);
  REQUIRE(std::holds_alternative<graph::Fill>(contents("b")));
  CHECK(std::get<graph::Fill>(contents("b")).value == 0.5);
}

TEST_CASE("weights are stored with the values that are given", "[export]") {
  const TemporaryFolder folder;
  const graph::Graph model = graph::zoo::build("zoo:gpt?layers=1&hidden=8&heads=2&seq=4&vocab=11");
  std::vector<std::byte> buffer;
  ExportOptions options;
  options.weights = true;
  // every element of the tensor is the tensor's number
  options.values = [&](graph::TensorId t) -> const std::byte* {
    if (model[t].role != TensorRole::Parameter) return nullptr;
    const auto count = static_cast<std::size_t>(graph::element_count(model[t].type.shape));
    const std::vector<float> values(count, static_cast<float>(graph::index(t)));
    buffer.resize(count * sizeof(float));
    std::memcpy(buffer.data(), values.data(), buffer.size());
    return buffer.data();
  };
  export_onnx(model, folder.file("m.onnx"), options);
  const ImportedModel read = import_onnx(folder.file("m.onnx"), {});
  CHECK(stored(read.graph) == stored(model));
  for (std::size_t i = 0; i < model.tensors().size(); ++i) {
    const graph::Tensor& tensor = model.tensors()[i];
    if (tensor.role != TensorRole::Parameter) continue;
    const graph::Tensor& again = read.graph[read.graph.find(tensor.name)];
    CHECK(graph::read_reals(again.contents, again.type.shape, 0, 0).back() == static_cast<double>(i));
  }
}

TEST_CASE("frozen floats stay frozen, and means stay means", "[export]") {
  const TemporaryFolder folder;
  graph::GraphBuilder builder;
  const auto x = builder.add_input("x", {DType::F32, {2, 4}});
  const auto frozen = builder.add_constant("frozen", graph::Value::of_reals({1, 2, 3, 4}, {4}));
  const auto product = builder.add1("Mul", {x, frozen});
  builder.set_outputs({builder.add1("ReduceSum", {product}, {{"axes", std::vector<std::int64_t>{1}}, {"scale", 0.25}})});
  export_onnx(std::move(builder).build(), folder.file("m.onnx"));
  const ImportedModel read = import_onnx(folder.file("m.onnx"), {});
  CHECK(read.graph[read.graph.find("frozen")].role == TensorRole::Constant);
  CHECK(read.operators.at("ReduceMean") == 1);  // 1/4 of the sum of 4 elements
}

TEST_CASE("a file that cannot be written leaves nothing behind", "[export]") {
  const TemporaryFolder folder;
  const graph::Graph model = graph::zoo::build("zoo:gpt?layers=1&hidden=8&heads=2&seq=4&vocab=11");
  const std::string message = bad_input([&] { export_onnx(model, folder.file("no/such/folder/m.onnx")); });
  CHECK(message.find("m.onnx") != std::string::npos);
  CHECK(std::filesystem::is_empty(folder.file("")));
}

TEST_CASE("a trained file is written for use, and trains on when it is read again", "[export]") {
  ModelBuilder m(17);
  m.input("x", {"2", "3"}).output("y").output("mean").floats("g", {3}, {1, 1, 1}).floats("b", {3}, {0, 0, 0});
  m.floats("rm", {3}, {0, 0, 0}).floats("rv", {3}, {1, 1, 1}).floats("ratio", {}, {0.5F});
  m.tensor("on", {}, 9).add_int32_data(1);
  set(m.node("BatchNormalization", {"x", "g", "b", "rm", "rv"}, {"h", "mean", "var"}), "training_mode", std::int64_t{1});
  m.node("Dropout", {"h", "ratio", "on"}, {"y"});
  const TemporaryFolder folder;
  write_bytes(folder.file("m.onnx"), m.bytes());
  export_trained(folder.file("m.onnx"), folder.file("t.onnx"), {});
  const ModelFile written = read_model(folder.file("t.onnx"));
  const auto& graph = written.model.graph();
  CHECK(graph.node(0).output_size() == 1);
  CHECK(graph.node(0).attribute(0).i() == 0);
  CHECK(graph.node(1).input(2).empty());
  CHECK(graph.output_size() == 1);
  const ImportedModel again = import_onnx(folder.file("t.onnx"), {});
  const auto has = [&](const char* op) {
    return std::any_of(again.graph.nodes().begin(), again.graph.nodes().end(), [&](const auto& n) { return graph::schema(n).name == op; });
  };
  CHECK(has("BatchNormRunning"));
  CHECK(has("Dropout"));
}

}  // namespace
}  // namespace rehearsal::formats
