// What the importer takes for weights: roles, files without them, external data.

#include <algorithm>
#include <cmath>

#include "graph/op_schema.hpp"
#include "tests/catch.hpp"
#include "tests/formats/model_builder.hpp"

namespace rehearsal::formats {
namespace {

using graph::Shape;
using graph::TensorRole;
using testing::bad_input;
using testing::contains;
using testing::ModelBuilder;
using testing::set;
using testing::TemporaryFolder;
using testing::write_bytes;

TensorRole role_of(const ImportedModel& model, const std::string& name) {
  const graph::TensorId t = model.graph.find(name);
  REQUIRE(t != graph::TensorId::None);
  return model.graph[t].role;
}

TEST_CASE("roles of stored tensors", "[import]") {
  ModelBuilder model;
  model.input("x", {"2", "3", "4", "4"}).output("y");
  model.floats("conv.weight", {3, 3, 1, 1}, std::vector<float>(9, 0.5F)).floats("mean", {3}, {0, 0, 0}).floats("var", {3}, {1, 1, 1});
  model.floats("gain", {3}, {1, 1, 1})
      .floats("shift", {3}, {0, 0, 0})
      .floats("temperature", {}, {2})
      .floats("val_7", {1}, {3})
      .floats("scale", {1, 1}, {3});
  model.floats("mask", {4, 4}, {0, -1e9F, -1e9F, -1e9F, 0, 0, -1e9F, -1e9F, 0, 0, 0, -1e9F, 0, 0, 0, 0})
      .floats("position", {4, 4}, std::vector<float>(16, 0.1F));
  model.node("Conv", {"x", "conv.weight"}, {"c"});
  model.node("BatchNormalization", {"c", "gain", "shift", "mean", "var"}, {"n"});
  std::string last = "n";
  for (const char* name : {"temperature", "val_7", "scale", "mask", "position"}) {
    const std::string next = std::string(name) == "position" ? "y" : std::string("with_") + name;
    model.node("Add", {last, name}, {next});
    last = next;
  }
  const ImportedModel imported = model.import();
  for (const char* name : {"conv.weight", "gain", "shift", "scale", "position"}) CHECK(role_of(imported, name) == TensorRole::Parameter);
  for (const char* name : {"temperature", "val_7", "mask"}) CHECK(role_of(imported, name) == TensorRole::Constant);
  for (const char* name : {"mean", "var"}) CHECK(role_of(imported, name) == TensorRole::State);
}

TEST_CASE("positions as sines and cosines are no parameters unless the file says so", "[import]") {
  const auto table = [](double base, double disturbed) {
    std::vector<float> values;  // four positions of (sin, cos) at frequencies 1 and 1 / base
    for (int position = 0; position < 4; ++position) {
      for (const double frequency : {1.0, 1 / base}) {
        values.push_back(static_cast<float>(std::sin(position * frequency)));
        values.push_back(static_cast<float>(std::cos(position * frequency) + (position == 2 ? disturbed : 0)));
      }
    }
    return values;
  };
  ModelBuilder model;
  model.input("x", {"2", "4", "4"}).output("y");
  model.floats("inv_freq", {4}, {1, 0.1F, 0.01F, 0.001F})
      .floats("decay", {4}, {1, 0.5F, 0.4F, 0.2F})
      .floats("slopes", {4}, {0.5F, 0.25F, 0.125F, 0.0625F});
  model.floats("pe", {4, 4}, table(100, 0)).floats("learned", {4, 4}, table(100, 0.01)).floats("pos_embed", {1, 4, 4}, table(10, 0));
  std::string last = "x";
  for (const char* name : {"inv_freq", "decay", "slopes", "pe", "learned", "pos_embed"}) {
    const std::string next = std::string(name) == "pos_embed" ? "y" : std::string("with_") + name;
    model.node("Add", {last, name}, {next});
    last = next;
  }
  const ImportedModel imported = model.import();
  for (const char* name : {"inv_freq", "pe", "pos_embed"}) CHECK(role_of(imported, name) == TensorRole::Constant);
  for (const char* name : {"decay", "slopes", "learned"}) CHECK(role_of(imported, name) == TensorRole::Parameter);
  auto& info = *model.graph().add_value_info();
  info.set_name("pos_embed");
  auto& entry = *info.add_metadata_props();
  entry.set_key("pkg.torch.export.graph_signature.InputSpec.kind");
  entry.set_value("PARAMETER");
  const ImportedModel declared = model.import();
  CHECK(role_of(declared, "pos_embed") == TensorRole::Parameter);
  CHECK(std::any_of(declared.warnings.begin(), declared.warnings.end(),
                    [](const std::string& w) { return w.find("'pos_embed'") != w.npos; }));
}

TEST_CASE("what the exporter says about a tensor stands above the rule", "[import]") {
  ModelBuilder model;
  model.input("x", {"2", "3"})
      .output("y")
      .floats("buffer", {3}, {1, 2, 3})
      .floats("logit_scale", {}, {1})
      .declare("buffer", {"3"})
      .declare("logit_scale", {});
  const char* kinds[] = {"BUFFER", "PARAMETER"};
  for (int i = 0; i < 2; ++i) {
    auto& entry = *model.graph().mutable_value_info(i)->add_metadata_props();
    entry.set_key("pkg.torch.export.graph_signature.InputSpec.kind");
    entry.set_value(kinds[i]);
  }
  model.node("Mul", {"x", "buffer"}, {"a"});
  model.node("Mul", {"a", "logit_scale"}, {"y"});
  const ImportedModel imported = model.import();
  CHECK(role_of(imported, "buffer") == TensorRole::Constant);
  CHECK(role_of(imported, "logit_scale") == TensorRole::Parameter);
}

TEST_CASE("Identity of a stored tensor is a parameter of its own", "[import]") {
  ModelBuilder model;
  model.input("x", {"2", "3"}).output("y").floats("shared", {3}, {1, 2, 3});
  model.node("Identity", {"shared"}, {"b.weight"});
  model.node("Mul", {"x", "shared"}, {"a"});
  model.node("Mul", {"a", "b.weight"}, {"y"});
  const ImportedModel imported = model.import();
  CHECK(role_of(imported, "shared") == TensorRole::Parameter);
  CHECK(role_of(imported, "b.weight") == TensorRole::Parameter);
  const graph::Tensor& copy = imported.graph[imported.graph.find("b.weight")];
  CHECK(graph::read_reals(copy.contents, copy.type.shape, 0, 0) == std::vector<double>{1, 2, 3});
}

TEST_CASE("a copy that the model makes of a weight is no parameter of its own", "[import]") {
  ModelBuilder traced;  // TorchScript names results of operators by scope
  traced.input("x", {"2", "3"}).output("y").floats("scale", {3}, {1, 2, 3});
  traced.node("Identity", {"scale"}, {"/norm/Identity_output_0"});
  traced.node("Mul", {"x", "/norm/Identity_output_0"}, {"y"});
  const ImportedModel imported = traced.import();
  CHECK(role_of(imported, "scale") == TensorRole::Parameter);
  CHECK(imported.graph.find("/norm/Identity_output_0") == graph::TensorId::None);

  ModelBuilder exported;  // torch.export lists its parameters
  exported.input("x", {"2", "3"}).output("y").floats("scale", {3}, {1, 2, 3});
  exported.node("Identity", {"scale"}, {"clone"});
  exported.node("Mul", {"x", "clone"}, {"y"});
  auto& signature = *exported.graph().add_metadata_props();
  signature.set_key("pkg.torch.export.ExportedProgram.graph_signature");
  signature.set_value("# inputs\np_scale: PARAMETER target='scale'\n# outputs\n");
  const ImportedModel listed = exported.import();
  CHECK(role_of(listed, "scale") == TensorRole::Parameter);
  CHECK(listed.graph.find("clone") == graph::TensorId::None);
}

TEST_CASE("running statistics never share storage", "[import]") {
  ModelBuilder model;
  model.input("x", {"2", "3"}).output("y").floats("ones", {3}, {1, 1, 1}).floats("zeros", {3}, {0, 0, 0});
  model.node("BatchNormalization", {"x", "ones", "zeros", "zeros", "ones"}, {"a"}).set_name("first");
  model.node("BatchNormalization", {"a", "ones", "zeros", "zeros", "ones"}, {"y"}).set_name("second");
  const ImportedModel imported = model.import();
  std::size_t states = 0;
  for (const auto& tensor : imported.graph.tensors()) states += tensor.role == TensorRole::State;
  CHECK(states == 4);  // mean and variance of each
  CHECK(role_of(imported, "first.running_mean") == TensorRole::State);
  CHECK(role_of(imported, "second.running_var") == TensorRole::State);
  CHECK(role_of(imported, "ones") == TensorRole::Parameter);
  CHECK_FALSE(imported.warnings.empty());
}

TEST_CASE("files without weights: inputs, declared names, generated tensors", "[import]") {
  ModelBuilder model;
  model.input("x", {"batch", "3"}).input("a.weight", {"4", "3"}).declare("b.weight", {"5", "4"}).output("y").integers("shape", {6, 5});
  set(model.node("Gemm", {"x", "a.weight"}, {"h"}), "transB", std::int64_t{1});
  set(model.node("Gemm", {"h", "b.weight"}, {"g"}), "transB", std::int64_t{1});
  model.node("ConstantOfShape", {"shape"}, {"c.weight"});
  set(model.node("Gemm", {"g", "c.weight"}, {"y"}), "transB", std::int64_t{1});
  ImportOptions options;
  options.batch = 2;
  const ImportedModel imported = model.import(options);
  for (const char* name : {"a.weight", "b.weight", "c.weight"}) CHECK(role_of(imported, name) == TensorRole::Parameter);
  CHECK(imported.graph.inputs().size() == 1);
  CHECK(imported.tensors.at("y").shape == Shape{2, 6});
  CHECK_FALSE(imported.graph[imported.graph.find("a.weight")].contents.known());
  CHECK(imported.graph[imported.graph.find("c.weight")].contents.known());
}

TEST_CASE("an input that TorchScript numbered is data", "[import]") {
  ModelBuilder model;
  model.input("input.1", {"2", "3"}).input("fc.scale", {"3"}).floats("fc.weight", {3, 3}, std::vector<float>(9, 1)).output("y");
  model.node("MatMul", {"input.1", "fc.weight"}, {"h"});
  model.node("Mul", {"h", "fc.scale"}, {"y"});
  const ImportedModel imported = model.import();
  CHECK(role_of(imported, "input.1") == TensorRole::Input);
  CHECK(role_of(imported, "fc.scale") == TensorRole::Parameter);
}

TEST_CASE("what exporters of PyTorch compute from nothing is no weight", "[import]") {
  ModelBuilder model;
  model.input("x", {"3", "5"}).output("y").integers("shape", {6, 5});
  model.model().set_producer_name("pytorch");
  model.node("ConstantOfShape", {"shape"}, {"/decoder/ConstantOfShape_output_0"});
  set(model.node("Gemm", {"x", "/decoder/ConstantOfShape_output_0"}, {"y"}), "transB", std::int64_t{1});
  const ImportedModel imported = model.import();
  for (const auto& tensor : imported.graph.tensors()) CHECK(tensor.role != TensorRole::Parameter);

  // nor what torch.export does not list: the ones of a normalization without weights
  ModelBuilder listed(21);
  listed.input("x", {"2", "4"}).floats("fc.weight", {4, 4}, std::vector<float>(16, 2)).integers("shape", {4}).output("y");
  auto& signature = *listed.graph().add_metadata_props();
  signature.set_key("pkg.torch.export.ExportedProgram.graph_signature");
  signature.set_value("p_fc_weight: PARAMETER target='fc.weight'\n");
  listed.node("MatMul", {"x", "fc.weight"}, {"h"});
  listed.node("ConstantOfShape", {"shape"}, {"val_7"});
  listed.node("LayerNormalization", {"h", "val_7"}, {"y"});
  const ImportedModel unlisted = listed.import();
  for (const auto& tensor : unlisted.graph.tensors()) CHECK((tensor.role == TensorRole::Parameter) == (tensor.name == "fc.weight"));
}

TEST_CASE("external data", "[import]") {
  ModelBuilder model;
  model.input("x", {"3"}).output("y");
  auto& w = model.tensor("w", {3}, 1);
  w.set_data_location(onnx::TensorProto::EXTERNAL);
  auto& location = *w.add_external_data();
  location.set_key("location");
  location.set_value("weights.bin");
  auto& offset = *w.add_external_data();
  offset.set_key("offset");
  offset.set_value("4");
  model.node("Add", {"x", "w"}, {"y"});
  const TemporaryFolder folder;
  const std::string path = folder.file("model.onnx");
  const auto refusal = [&](const ImportOptions& options = {}) {
    write_bytes(path, model.bytes());
    return bad_input([&] { (void)import_onnx(path, options); });
  };

  const std::string absent = refusal();
  CHECK(contains(absent, "weights.bin"));
  CHECK(contains(absent, "'w'"));
  ImportOptions lenient;
  lenient.allow_missing_weights = true;
  CHECK(refusal(lenient).empty());

  const float values[] = {9, 1, 2, 3};
  write_bytes(folder.file("weights.bin"), std::string(reinterpret_cast<const char*>(values), sizeof values));
  CHECK(refusal().empty());
  const ImportedModel imported = import_onnx(path, {});
  const graph::Tensor& tensor = imported.graph[imported.graph.find("w")];
  CHECK(graph::read_reals(tensor.contents, tensor.type.shape, 0, 0) == std::vector<double>{1, 2, 3});

  offset.set_value("8");  // 8 + 12 bytes of 16
  CHECK(contains(refusal(), "outside the file"));
  offset.set_value("4");
  for (const char* outside : {"../weights.bin", "/etc/passwd", "a/../../weights.bin"}) {
    location.set_value(outside);
    CHECK(contains(refusal(), "folder of the model"));
  }
}

}  // namespace
}  // namespace rehearsal::formats
