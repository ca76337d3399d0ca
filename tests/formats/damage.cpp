// What exporters do to weights: taken apart again where that can be told, named where it cannot.

#include <algorithm>
#include <set>

#include "formats/onnx/export_trained.hpp"
#include "formats/onnx/notes.hpp"
#include "tests/catch.hpp"
#include "tests/formats/model_builder.hpp"

namespace rehearsal::formats::testing {
namespace {

void in_module(onnx::NodeProto& node, const std::string& name, const std::string& path) {
  node.set_name(name);
  auto& entry = *node.add_metadata_props();
  entry.set_key("pkg.torch.onnx.name_scopes");
  entry.set_value("['', '" + path + "', 'op']");
}

void sign(ModelBuilder& model, const std::vector<std::string>& parameters, const std::vector<std::string>& buffers = {}) {
  std::string text = "\n# inputs\n";
  for (const auto& name : parameters) text += "p_x: PARAMETER target='" + name + "'\n";
  for (const auto& name : buffers) text += "b_x: BUFFER target='" + name + "'\n";
  auto& entry = *model.graph().add_metadata_props();
  entry.set_key("pkg.torch.export.ExportedProgram.graph_signature");
  entry.set_value(text + "# outputs\n");
}

/// Two normalizations whose gains are stored once, as an exporter does with fresh models, and whose bias of zeros is one tensor, too.
ModelBuilder merged(const std::vector<float>& gain, const std::string& second) {
  ModelBuilder m;
  m.input("x", {"2", "3"}).floats("a.weight", {3}, gain).floats("a.bias", {3}, {0, 0, 0});
  in_module(m.node("LayerNormalization", {"x", "a.weight", "a.bias"}, {"h"}), "first", "a");
  in_module(m.node("LayerNormalization", {"h", "a.weight", "a.bias"}, {"y"}), "second", second);
  m.output("y");
  sign(m, {"a.weight", "a.bias", second + ".weight", second + ".bias"});
  return m;
}

const ExporterDamage* damage_of(const ImportedModel& model, const std::string& tensor) {
  const auto found = std::find_if(model.damage.begin(), model.damage.end(), [&](const auto& d) { return d.tensor == tensor; });
  return found == model.damage.end() ? nullptr : &*found;
}

bool is_parameter(const ImportedModel& model, const std::string& name) {
  const auto t = model.graph.find(name);
  return t != graph::TensorId::None && model.graph[t].role == graph::TensorRole::Parameter;
}

/// Notes what the exporter folded a stored tensor from.
void folded_from(ModelBuilder& model, const std::string& name, const std::string& sources) {
  auto& info = *model.graph().add_value_info();
  info.set_name(name);
  auto& entry = *info.add_metadata_props();
  entry.set_key("pkg.onnxscript.optimizer.folded_from");
  entry.set_value(sources);
}

const graph::Tensor& tensor_of(const ImportedModel& model, const std::string& name) {
  const auto t = model.graph.find(name);
  if (t == graph::TensorId::None) throw std::runtime_error("no tensor " + name);
  return model.graph[t];
}

/// Rows of a table, multiplied with a copy of it that the exporter stored transposed.
ModelBuilder with_transposed_copy() {
  ModelBuilder m;
  m.input("i", {"2"}, 7).floats("table", {3, 2}, {1, 2, 3, 4, 5, 6}).floats("val_9", {2, 3}, {1, 3, 5, 2, 4, 6});
  m.node("Gather", {"table", "i"}, {"h"});
  m.node("MatMul", {"h", "val_9"}, {"y"});
  m.output("y");
  sign(m, {"table"});
  folded_from(m, "val_9", "['table']");
  return m;
}

/// y = x + folded, as a class token or a table of positions is added; x is [2, 2, 3].
ModelBuilder added(const std::vector<std::int64_t>& shape, const std::vector<float>& values, const std::string& sources) {
  ModelBuilder m;
  m.input("x", {"2", "2", "3"}).floats("expand", shape, values);
  m.node("Add", {"x", "expand"}, {"y"});
  m.output("y");
  sign(m, {"token"});
  folded_from(m, "expand", sources);
  return m;
}

}  // namespace

TEST_CASE("a token that was repeated for every sample is one weight again") {
  const ImportedModel model = added({2, 1, 3}, {1, 2, 3, 1, 2, 3}, "['token', 'val_6']").import();
  REQUIRE(is_parameter(model, "token"));
  CHECK(tensor_of(model, "token").type.shape == graph::Shape{1, 1, 3});
  CHECK(damage_of(model, "token")->what == "unfolded");
  // all zeros: [batch, 1, 3] can only be one row
  const ImportedModel zeros = added({2, 1, 3}, std::vector<float>(6, 0), "['token', 'val_6']").import();
  REQUIRE(is_parameter(zeros, "token"));
  CHECK(tensor_of(zeros, "token").type.shape == graph::Shape{1, 1, 3});
}

TEST_CASE("rows that were looked up several times are one row of a weight") {
  // heads are the first axis: the rows (a, b) of a table [3, 2] at positions {0, 1, 2, 0}
  ModelBuilder m;
  m.input("x", {"2", "2", "2", "2"}).floats("permute", {1, 2, 2, 2}, {1, 2, 3, 1, 5, 6, 7, 5});
  m.node("Add", {"x", "permute"}, {"y"});
  m.output("y");
  sign(m, {"table"}, {"index"});
  folded_from(m, "permute", "['table', 'index', 'view', 'index_1', 'val_3']");
  const ImportedModel model = m.import();
  REQUIRE(is_parameter(model, "table"));
  CHECK(tensor_of(model, "table").type.shape == graph::Shape{3, 2});
  const auto values = tensor_of(model, "table");
  CHECK(graph::read_reals(values.contents, values.type.shape, 0, 0) == std::vector<double>{1, 5, 2, 6, 3, 7});
}

TEST_CASE("the transposed copy of a tied weight is the weight") {
  const ImportedModel model = with_transposed_copy().import();
  CHECK(is_parameter(model, "table"));
  CHECK_FALSE(is_parameter(model, "val_9"));
  CHECK(damage_of(model, "val_9")->what == "unfolded");
}

TEST_CASE("a trained file makes the exporter's tensors before what reads them") {
  const ModelBuilder m = with_transposed_copy();
  const TemporaryFolder folder;
  write_bytes(folder.file("m.onnx"), m.bytes());
  export_trained(folder.file("m.onnx"), folder.file("t.onnx"), {});
  onnx::ModelProto written;
  std::ifstream file(folder.file("t.onnx"), std::ios::binary);
  REQUIRE(written.ParseFromIstream(&file));
  std::set<std::string> known{"i"};
  for (const auto& tensor : written.graph().initializer()) known.insert(tensor.name());
  for (const auto& node : written.graph().node()) {
    for (const auto& input : node.input()) CHECK(known.contains(input));
    known.insert(node.output().begin(), node.output().end());
  }
  CHECK(written.graph().node(0).op_type() == "Transpose");
}

TEST_CASE("what was computed with a weight, or cannot be told apart, is named and not undone") {
  const ImportedModel computed = added({2, 1, 3}, {1, 2, 3, 1, 2, 3}, "['token', 'mul']").import();
  CHECK_FALSE(is_parameter(computed, "token"));
  REQUIRE(damage_of(computed, "token"));
  CHECK(damage_of(computed, "token")->what == "computed");
  // zeros over two axes: two rows or one
  const ImportedModel open = added({1, 2, 3}, std::vector<float>(6, 0), "['token', 'val_6']").import();
  CHECK_FALSE(is_parameter(open, "token"));
  CHECK(damage_of(open, "token")->what == "computed");
  CHECK(
      std::any_of(open.warnings.begin(), open.warnings.end(), [](const auto& w) { return w.find("optimize=False") != std::string::npos; }));
}

TEST_CASE("a weight that was only viewed otherwise is trained, and apart from its equals") {
  ModelBuilder m;
  m.input("x", {"2", "3", "1", "1"}).floats("view", {1, 3, 1, 1}, {1, 1, 1});
  in_module(m.node("Mul", {"x", "view"}, {"h"}), "first", "blocks.0");
  in_module(m.node("Mul", {"h", "view"}, {"y"}), "second", "blocks.1");
  m.output("y");
  sign(m, {"blocks.0.gamma", "blocks.1.gamma"});
  folded_from(m, "view", "['blocks.0.gamma', 'val_3']");
  const ImportedModel model = m.import();
  CHECK(is_parameter(model, "view"));
  CHECK(is_parameter(model, "view/blocks.1"));
}

TEST_CASE("weights that were merged for their equal values are trained apart") {
  const ImportedModel model = merged({1, 1, 1}, "b").import();
  for (const char* name : {"a.weight", "a.bias", "b.weight", "b.bias"}) CHECK(is_parameter(model, name));
  REQUIRE(damage_of(model, "b.weight"));
  CHECK(damage_of(model, "b.weight")->what == "merged");
  CHECK(damage_of(model, "b.weight")->undone);
  CHECK_FALSE(damage_of(model, "a.weight"));
}

TEST_CASE("a merged tensor that is split once for all modules is split by each") {
  // q, k and v of two attentions have one bias of zeros [4] in the file, taken apart by one Split
  ModelBuilder m;
  m.input("x", {"2", "2"}).floats("a.in_bias", {4}, {0, 0, 0, 0}).integers("sizes", {2, 2});
  m.node("Split", {"a.in_bias", "sizes"}, {"q", "k"});
  in_module(m.node("Add", {"x", "q"}, {"aq"}), "add_q", "a");
  in_module(m.node("Mul", {"aq", "k"}, {"ak"}), "mul_k", "a");
  in_module(m.node("Add", {"ak", "q"}, {"bq"}), "add_q_1", "b");
  in_module(m.node("Mul", {"bq", "k"}, {"y"}), "mul_k_1", "b");
  m.output("y");
  sign(m, {"a.in_bias", "b.in_bias"});
  const ImportedModel model = m.import();
  REQUIRE(is_parameter(model, "a.in_bias"));
  REQUIRE(is_parameter(model, "b.in_bias"));
  CHECK(damage_of(model, "b.in_bias")->what == "merged");
  CHECK(model.graph[tensor_of(model, "bq").producer].inputs[1] != model.graph[tensor_of(model, "aq").producer].inputs[1]);
  // another module's tensor of another name is none of these
  ModelBuilder other = m;
  other.graph().clear_metadata_props();
  sign(other, {"a.in_bias", "b.out_bias"});
  CHECK_FALSE(is_parameter(other.import(), "b.out_bias"));
}

TEST_CASE("random values are shared on purpose, except between copies of a layer") {
  const ImportedModel tied = merged({0.3F, -0.1F, 0.7F}, "head").import();
  CHECK_FALSE(is_parameter(tied, "head.weight"));
  REQUIRE(damage_of(tied, "head.weight"));
  CHECK(damage_of(tied, "head.weight")->what == "tied");
  CHECK(is_parameter(tied, "head.bias"));  // zeros

  ModelBuilder copies;
  copies.input("x", {"2", "3"}).floats("layers.0.n.weight", {3}, {0.3F, -0.1F, 0.7F});
  in_module(copies.node("Mul", {"x", "layers.0.n.weight"}, {"h"}), "first", "layers.0.n");
  in_module(copies.node("Mul", {"h", "layers.0.n.weight"}, {"y"}), "second", "layers.1.n");
  copies.output("y");
  sign(copies, {"layers.0.n.weight", "layers.1.n.weight"});
  CHECK(is_parameter(copies.import(), "layers.1.n.weight"));
}

TEST_CASE("transposed matrices of copied layers are trained apart, those of other modules are not") {
  const auto model_of = [](const std::string& second) {
    ModelBuilder m;
    m.input("x", {"2", "2"}).floats("val_7", {2, 2}, {0.3F, -0.1F, 0.7F, 0.2F});
    in_module(m.node("MatMul", {"x", "val_7"}, {"h"}), "first", "layers.0.up");
    in_module(m.node("MatMul", {"h", "val_7"}, {"y"}), "second", second);
    m.output("y");
    sign(m, {"layers.0.up.weight", second + ".weight"});
    return m.import();
  };
  const auto parameters = [](const ImportedModel& model) {
    const auto& tensors = model.graph.tensors();
    return std::count_if(tensors.begin(), tensors.end(), [](const auto& t) { return t.role == graph::TensorRole::Parameter; });
  };
  const ImportedModel copies = model_of("layers.1.up");
  CHECK(parameters(copies) == 2);
  REQUIRE(damage_of(copies, "layers.1.up.weight"));
  CHECK(damage_of(copies, "layers.1.up.weight")->stored_as == "val_7/layers.1.up");
  CHECK(parameters(model_of("decoder.up")) == 1);
  CHECK(parameters(model_of("layers.0.up")) == 1);
}

TEST_CASE("a weight that one module uses twice stays one") {
  ModelBuilder m;
  m.input("x", {"2", "3"}).floats("a.weight", {3}, {1, 1, 1});
  in_module(m.node("Mul", {"x", "a.weight"}, {"h"}), "first", "a");
  in_module(m.node("Mul", {"h", "a.weight"}, {"y"}), "second", "a");
  m.output("y");
  sign(m, {"a.weight", "elsewhere.weight"});
  const ImportedModel model = m.import();
  CHECK(model.damage.size() == 1);
  CHECK(damage_of(model, "elsewhere.weight")->what == "missing");
}

TEST_CASE("a bias that was left out because it was 0 is trained again, a constant never becomes a weight") {
  ModelBuilder m;
  m.input("x", {"2", "4"}).floats("val_3", {1}, {0.5F}).floats("up.weight", {3, 4}, std::vector<float>(12, 0.25F));
  in_module(m.node("Mul", {"x", "val_3"}, {"a"}), "scale", "up");
  in_module(m.node("Mul", {"a", "val_3"}, {"b"}), "again", "down");
  set(m.node("Gemm", {"b", "up.weight"}, {"y"}), "transB", std::int64_t{1});
  m.output("y");
  sign(m, {"up.weight", "up.bias", "down.weight"});
  const ImportedModel model = m.import();
  CHECK(is_parameter(model, "up.bias"));
  CHECK(damage_of(model, "up.bias")->what == "restored");
  CHECK_FALSE(is_parameter(model, "down.weight"));
}

TEST_CASE("folded normalizations and renamed weights are named one by one") {
  ModelBuilder m;
  m.input("x", {"2", "4"}).floats("val_7", {4, 3}, std::vector<float>(12, 0.5F));
  in_module(m.node("MatMul", {"x", "val_7"}, {"y"}), "linear", "up");
  m.output("y");
  sign(m, {"up.weight", "norm.weight", "norm.bias"}, {"norm.running_mean", "norm.running_var"});
  const ImportedModel model = m.import();
  REQUIRE(damage_of(model, "up.weight"));
  CHECK(damage_of(model, "up.weight")->what == "renamed");
  CHECK(damage_of(model, "up.weight")->stored_as == "val_7");
  CHECK(damage_of(model, "norm.weight")->what == "folded");
  CHECK(damage_of(model, "norm.bias")->what == "folded");
  const auto names_cause = [](const std::string& w) { return w.find("BatchNormalization") != std::string::npos; };
  CHECK(std::any_of(model.warnings.begin(), model.warnings.end(), names_cause));
}

TEST_CASE("what an exporter keeps to itself is asked for") {
  const auto network = [](const std::string& producer, const std::string& weight) {
    ModelBuilder m;
    m.input("x", {"2", "3"}).floats(weight, {3, 2}, {1, 2, 3, 4, 5, 6}).floats("bias", {2}, {0, 1});
    m.node("MatMul", {"x", weight}, {"h"}).set_name("dense");
    m.node("Add", {"h", "bias"}, {"g"});
    m.node("Relu", {"g"}, {"y"});
    m.output("y");
    m.model().set_producer_name(producer);
    return m;
  };
  const auto warnings = [](ModelBuilder m) { return m.import().warnings; };
  CHECK(warnings(network("tf2onnx", "kernel")).empty());
  ModelBuilder unbiased = network("tf2onnx", "kernel");
  *unbiased.graph().mutable_node(1)->mutable_input(1) = "x2";  // a sum of two activations is no bias
  unbiased.input("x2", {"2", "2"});
  const auto missing = warnings(unbiased);
  REQUIRE(missing.size() == 1);
  CHECK(missing[0].find("'dense'") != std::string::npos);
  CHECK(warnings(network("another", "filters")).empty());
  CHECK(warnings(network("pytorch", "fc.weight")).empty());
  const auto buffer = warnings(network("pytorch", "filters"));
  REQUIRE(buffer.size() == 1);
  CHECK(buffer[0].find("'filters'") != std::string::npos);
  CHECK(buffer[0].find("--freeze") != std::string::npos);
}

TEST_CASE("ones and zeros of a normalization without weights are not those of another") {
  const auto network = [](const std::string& op, const std::string& function, const std::vector<std::string>& plain) {
    ModelBuilder m(20);
    m.input("x", {"2", "3", "4"}).floats("n.weight", {3}, {1, 1, 1}).floats("n.bias", {3}, {0, 0, 0}).output("y");
    set_source_call(m.node(op, {"x", "n.weight", "n.bias"}, {"h"}), function, plain);
    set_source_call(m.node("InstanceNormalization", {"h", "n.weight", "n.bias"}, {"y"}), "aten.instance_norm.default",
                    {"%h", "%p_n_weight", "%p_n_bias", "None"});
    sign(m, {"n.weight", "n.bias"});
    return m.import();
  };
  const std::string norm = "InstanceNormalization";
  const ImportedModel plain = network(norm, "aten.instance_norm.default", {"%x", "None", "None", "None"});
  REQUIRE(damage_of(plain, "h/scale") != nullptr);
  CHECK(damage_of(plain, "h/scale")->what == "constant");
  for (const char* name : {"h/scale", "h/bias"}) CHECK(tensor_of(plain, name).role == graph::TensorRole::Constant);
  for (const char* name : {"n.weight", "n.bias"}) CHECK(is_parameter(plain, name));
  // only the bias is missing; a group normalization that was taken apart; the weights are there, or nothing is known
  const ImportedModel biased = network(norm, "aten.instance_norm.default", {"%x", "%p_n_weight", "None", "None"});
  CHECK(damage_of(biased, "h/scale") == nullptr);
  CHECK(damage_of(biased, "h/bias") != nullptr);
  CHECK(damage_of(network(norm, "aten.group_norm.default", {"%x", "3", "%p_a", "%p_b"}), "h/scale") != nullptr);
  CHECK(network(norm, "aten.instance_norm.default", {"%x", "%p_n_weight", "%p_n_bias"}).damage.empty());
  // not listed at all, in a file where something else was renamed
  ModelBuilder unlisted(20);
  unlisted.input("x", {"2", "3"}).floats("val_1", {3}, {1, 1, 1}).floats("val_2", {3, 3}, std::vector<float>(9, 2)).output("y");
  set_source_call(unlisted.node("LayerNormalization", {"x", "val_1"}, {"h"}), "aten.layer_norm.default", {"%x", "[3]", "None", "None"});
  unlisted.node("MatMul", {"h", "val_2"}, {"y"});
  sign(unlisted, {"fc.weight"});
  const ImportedModel renamed = unlisted.import();
  CHECK(tensor_of(renamed, "h/scale").role == graph::TensorRole::Constant);
  CHECK(is_parameter(renamed, "val_2"));
  CHECK(network(norm, "another.function", {"%x", "None", "None"}).damage.empty());
}

TEST_CASE("a trained file with constants of its own is read again") {
  const TemporaryFolder folder;
  ModelBuilder m(20);
  m.input("x", {"2", "3", "4"}).floats("n.weight", {3}, {1, 1, 1}).floats("n.bias", {3}, {0, 0, 0}).output("y");
  set_source_call(m.node("InstanceNormalization", {"x", "n.weight", "n.bias"}, {"h"}), "aten.instance_norm.default",
                  {"%x", "None", "None", "None"});
  set_source_call(m.node("InstanceNormalization", {"h", "n.weight", "n.bias"}, {"y"}), "aten.instance_norm.default",
                  {"%h", "%p_n_weight", "%p_n_bias", "None"});
  sign(m, {"n.weight", "n.bias"});
  write_bytes(folder.file("m.onnx"), m.bytes());
  const std::vector<float> gain{1, 2, 3};
  export_trained(folder.file("m.onnx"), folder.file("t.onnx"), {{"n.weight", {{DType::F32, {3}}, std::as_bytes(std::span(gain))}}});
  const ImportedModel trained = import_onnx(folder.file("t.onnx"), {});
  const auto values = [&](const char* name) {
    const auto& tensor = tensor_of(trained, name);
    return graph::read_reals(tensor.contents, tensor.type.shape, 0, 0);
  };
  CHECK(values("n.weight") == std::vector<double>{1, 2, 3});
  CHECK(values("h/scale") == std::vector<double>{1, 1, 1});
  CHECK(tensor_of(trained, "h/scale").role == graph::TensorRole::Constant);
}

TEST_CASE("a folded normalization without weights is named, too") {
  const auto network = [](const std::string& module) {
    ModelBuilder m(18);
    m.input("x", {"1", "1", "2", "2"}).floats("conv.weight", {1, 1, 1, 1}, {2}).output("y");
    in_module(m.node("Conv", {"x", "conv.weight"}, {"h"}), "conv", "norm");
    in_module(m.node("Relu", {"h"}, {"y"}), "relu", module);
    sign(m, {"conv.weight"}, {"norm.running_mean", "norm.running_var"});
    return m.import();
  };
  const ImportedModel folded = network("relu");
  REQUIRE(damage_of(folded, "norm") != nullptr);
  CHECK(damage_of(folded, "norm")->what == "folded");
  CHECK(network("norm").damage.empty());  // something of it is there
}

TEST_CASE("the model's call tells which weight or buffer an operand was") {
  ModelBuilder m(18);
  m.input("x", {"2", "3"}).floats("gain", {3}, {1, 1, 1}).output("y");
  set_source_call(m.node("Mul", {"x", "gain"}, {"a"}), "aten.mul.Tensor", {"%x", "%p_gain"});
  set_source_call(m.node("Mul", {"a", "gain"}, {"b"}), "aten.mul.Tensor", {"%a", "%b_scale"});
  set_source_call(m.node("Mul", {"b", "gain"}, {"c"}), "aten.mul.Tensor", {"%b", "%p_other"});
  set_source_call(m.node("Mul", {"c", "gain"}, {"d"}), "aten.mul.Tensor", {"%c", "%p_other"});
  set_source_call(m.node("Mul", {"d", "gain"}, {"y"}), "aten.mul.Tensor", {"%d", "%p_gain"});
  auto& signature = *m.graph().add_metadata_props();
  signature.set_key("pkg.torch.export.ExportedProgram.graph_signature");
  signature.set_value(
      "p_gain: PARAMETER target='gain'\n  p_other: PARAMETER target='other'\nb_scale: BUFFER target='scale' persistent=True\n");
  const ImportedModel model = m.import();
  for (const char* name : {"gain", "other"}) CHECK(is_parameter(model, name));
  CHECK(tensor_of(model, "scale").role == graph::TensorRole::Constant);
  CHECK(damage_of(model, "scale")->what == "constant");
  CHECK(damage_of(model, "other")->what == "merged");
  std::map<std::string, int> reads;
  for (const auto& node : model.graph.nodes()) ++reads[model.graph[node.inputs[1]].name];
  CHECK(reads == std::map<std::string, int>{{"gain", 2}, {"scale", 1}, {"other", 2}});
}

TEST_CASE("what tf2onnx left out of a normalization is asked for, a bias behind a change of shape is seen") {
  ModelBuilder m;
  m.input("x", {"2", "4"}).floats("kernel", {4, 4}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6, 7}).floats("bias", {2}, {1, 2});
  m.integers("heads", {2, 2, 2}).integers("axes", {2}).floats("epsilon", {}, {0.001F}).output("y");
  m.model().set_producer_name("tf2onnx");
  m.node("MatMul", {"x", "kernel"}, {"h"}).set_name("dense");
  m.node("Reshape", {"h", "heads"}, {"r"});
  m.node("Add", {"r", "bias"}, {"g"});
  set(m.node("ReduceMean", {"g"}, {"mean"}), "axes", std::vector<std::int64_t>{2});
  m.node("Sub", {"g", "mean"}, {"centered"});
  m.node("Mul", {"centered", "centered"}, {"squares"});
  set(m.node("ReduceMean", {"squares"}, {"variance"}), "axes", std::vector<std::int64_t>{2});
  m.node("Add", {"variance", "epsilon"}, {"v"});
  m.node("Sqrt", {"v"}, {"root"});
  m.node("Reciprocal", {"root"}, {"scale"});
  m.node("Mul", {"g", "scale"}, {"scaled"});
  m.node("Neg", {"mean"}, {"negative"});
  m.node("Mul", {"negative", "scale"}, {"shift"});
  m.node("Add", {"scaled", "shift"}, {"y"});
  const ImportedModel model = m.import();
  CHECK(model.recognized == std::map<std::string, std::int64_t>{{"LayerNormalization", 1}});
  REQUIRE(model.warnings.size() == 1);
  CHECK(model.warnings[0].find("1 layer normalizations ('y') have no gain or no bias") != std::string::npos);
}

TEST_CASE("weights that were taken apart go back into the file apart") {
  const TemporaryFolder folder;
  ModelBuilder model = merged({1, 1, 1}, "b");
  write_bytes(folder.file("m.onnx"), model.bytes());
  const std::vector<float> first{1, 2, 3}, second{4, 5, 6};
  const graph::TensorType type{DType::F32, {3}};
  export_trained(folder.file("m.onnx"), folder.file("t.onnx"),
                 {{"a.weight", {type, std::as_bytes(std::span(first))}}, {"b.weight", {type, std::as_bytes(std::span(second))}}});
  const ImportedModel trained = import_onnx(folder.file("t.onnx"), {});
  const auto values = [&](const char* name) {
    const auto& tensor = trained.graph[trained.graph.find(name)];
    return graph::read_reals(tensor.contents, tensor.type.shape, 0, 0);
  };
  CHECK(values("a.weight") == std::vector<double>{1, 2, 3});
  CHECK(values("b.weight") == std::vector<double>{4, 5, 6});
}

}  // namespace rehearsal::formats::testing
