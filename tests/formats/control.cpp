// Loops and branches disappear; what they store is stored once. And files with flipped bytes never do worse than be refused.

#include <algorithm>

#include "base/random.hpp"
#include "graph/op_schema.hpp"
#include "tests/catch.hpp"
#include "tests/formats/model_builder.hpp"

namespace rehearsal::formats {
namespace {

using testing::ModelBuilder;

std::int64_t count(const graph::Graph& graph, std::string_view op) {
  return std::count_if(graph.nodes().begin(), graph.nodes().end(), [&](const graph::Node& node) { return graph::schema(node).name == op; });
}

void add_value(onnx::GraphProto& body, const char* name, bool input) { (input ? body.add_input() : body.add_output())->set_name(name); }

onnx::NodeProto& add_node(onnx::GraphProto& body, const char* op, const std::vector<const char*>& inputs, const char* output) {
  auto& node = *body.add_node();
  node.set_op_type(op);
  for (const char* name : inputs) node.add_input(name);
  node.add_output(output);
  return node;
}

/// h = h W, `rounds` times, W being stored in the body; every h is a result too.
ModelBuilder looping(std::int64_t rounds) {
  ModelBuilder model;
  model.input("h0", {"2", "3"}).output("h").output("all");
  model.integers("rounds", {rounds});
  auto& node = model.node("Loop", {"rounds", "", "h0"}, {"h", "all"});
  auto& attribute = *node.add_attribute();
  attribute.set_name("body");
  attribute.set_type(onnx::AttributeProto::GRAPH);
  auto& body = *attribute.mutable_g();
  for (const char* name : {"i", "condition", "state"}) add_value(body, name, true);
  auto& w = *body.add_initializer();
  w.set_name("w");
  w.set_data_type(1);
  w.add_dims(3);
  w.add_dims(3);
  for (int k = 0; k < 9; ++k) w.add_float_data(0.5F);
  add_node(body, "MatMul", {"state", "w"}, "next");
  for (const char* name : {"condition", "next", "next"}) add_value(body, name, false);
  return model;
}

TEST_CASE("a loop is unrolled, and its weights stay one tensor", "[import]") {
  const ImportedModel model = looping(3).import();
  CHECK(count(model.graph, "MatMul") == 3);
  const auto& tensors = model.graph.tensors();
  CHECK(std::count_if(tensors.begin(), tensors.end(), [](const graph::Tensor& t) { return t.role == graph::TensorRole::Parameter; }) == 1);
  CHECK(model.tensors.at("all").shape == graph::Shape{3, 2, 3});
  CHECK(model.tensors.at("h").shape == graph::Shape{2, 3});
}

TEST_CASE("a number of rounds that depends on data is said", "[import]") {
  ModelBuilder model = looping(3);
  model.graph().clear_initializer();
  model.input("rounds", {"1"}, 7);
  CHECK_THROWS_AS(model.import(), DependsOnData);
  ImportOptions options;
  options.given["rounds"] = {{{DType::I64, {1}}}, false, false, {graph::Value::vector({2})}};
  CHECK(count(model.import(options).graph, "MatMul") == 2);
  options.given["rounds"].known = {graph::Value::vector({1 << 20})};
  CHECK_THROWS_AS(model.import(options), BadInput);
}

TEST_CASE("of a node that becomes several the last has the file's name", "[import]") {
  ModelBuilder model;
  model.input("x", {"2", "3"}).output("norm").node("ReduceL1", {"x"}, {"norm"}).clear_name();
  const ImportedModel imported = model.import();
  const graph::TensorId norm = imported.graph.find("norm");
  REQUIRE(norm != graph::TensorId::None);
  CHECK(imported.graph.outputs() == std::vector<graph::TensorId>{norm});
  CHECK(imported.graph[norm].type.shape == graph::Shape{1, 1});
}

/// Some bytes replaced, a piece doubled, or the end cut off.
std::string mutated(std::string bytes, std::uint64_t number) {
  const auto draw = [&](std::uint64_t index, std::size_t below) { return static_cast<std::size_t>(random_bits(7, number, index) % below); };
  const std::size_t at = draw(1, bytes.size());
  if (number % 8 == 0) return bytes.substr(0, at);
  if (number % 8 == 1) return bytes.insert(at, bytes.substr(draw(2, bytes.size()), draw(3, 40)));
  for (std::uint64_t i = 0; i <= draw(4, 4); ++i) bytes[draw(10 + i, bytes.size())] = static_cast<char>(random_bits(8, number, i));
  return bytes;
}

TEST_CASE("mutated files are imported or refused", "[fuzz]") {
  ModelBuilder image;
  image.input("x", {"batch", "3", "8", "8"}).output("y").floats("w", {4, 3, 3, 3}, std::vector<float>(108, 0.1F));
  image.node("Conv", {"x", "w"}, {"c"});
  image.node("Relu", {"c"}, {"r"});
  image.integers("shape", {0, -1});
  image.node("Reshape", {"r", "shape"}, {"y"});
  const testing::TemporaryFolder folder;
  ImportOptions options;
  options.batch = 2;
  options.collect_unknown = true;
  for (const std::string& bytes : {image.bytes(), looping(2).bytes()}) {
    for (std::uint64_t number = 0; number < 1500; ++number) {
      CAPTURE(number);
      testing::write_bytes(folder.file("model.onnx"), mutated(bytes, number));
      try {
        (void)import_onnx(folder.file("model.onnx"), options);
      } catch (const Error& error) {
        INFO(error.what());
        CHECK(error.status() != ExitStatus::Internal);
      }
    }
  }
}

}  // namespace
}  // namespace rehearsal::formats
