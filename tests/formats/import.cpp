// What the importer makes of small files: versions of operators, symbols, weights, errors.

#include <algorithm>

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

std::vector<std::string> operators(const ImportedModel& model) {
  std::vector<std::string> names;
  for (const auto& node : model.graph.nodes()) names.emplace_back(graph::schema(node).name);
  return names;
}

TensorRole role_of(const ImportedModel& model, const std::string& name) {
  const graph::TensorId t = model.graph.find(name);
  REQUIRE(t != graph::TensorId::None);
  return model.graph[t].role;
}

std::string refusal_of(ModelBuilder& model, const ImportOptions& options = {}) {
  return bad_input([&] { (void)model.import(options); });
}

// Symbols

TEST_CASE("--batch binds first dimensions, --bind the others, and the rest is listed", "[import]") {
  ModelBuilder model;
  model.input("x", {"batch", "seq"}).input("y", {"batch", "2*seq"}).output("z");
  model.node("Concat", {"x", "y"}, {"z"});
  set(model.graph().mutable_node()->at(0), "axis", std::int64_t{1});
  const std::string nothing = refusal_of(model);
  CAPTURE(nothing);
  CHECK(contains(nothing, "'batch', 'seq'"));
  CHECK(contains(nothing, "--bind"));
  CHECK(contains(nothing, "--batch"));
  ImportOptions options;
  options.batch = 3;
  options.binds["seq"] = 5;
  CHECK(model.import(options).tensors.at("z").shape == Shape{3, 15});  // 5 + 2 * 5
  options.binds["sequence"] = 7;
  const auto warnings = model.import(options).warnings;
  CHECK(std::any_of(warnings.begin(), warnings.end(), [](const std::string& w) { return contains(w, "sequence=7"); }));
}

TEST_CASE("sizes that nobody gives are assumed for those who ask about structure alone", "[import]") {
  ModelBuilder model;
  model.input("x", {"batch", "seq"}).input("y", {"batch", "2*seq"}).output("z");
  model.node("Concat", {"x", "y"}, {"z"});
  set(model.graph().mutable_node()->at(0), "axis", std::int64_t{1});
  ImportOptions options;
  options.assume_sizes = true;
  const auto imported = model.import(options);
  CHECK(imported.tensors.at("z").shape == Shape{4, 48});  // 4 samples; 16 + 2 * 16
  CHECK(std::any_of(imported.warnings.begin(), imported.warnings.end(),
                    [](const std::string& w) { return contains(w, "assumed: 'batch' = 4, 'seq' = 16"); }));
  options.binds["seq"] = 5;
  CHECK(model.import(options).tensors.at("z").shape == Shape{4, 15});
}

TEST_CASE("a dimension without a name is bound by input and axis", "[import]") {
  ModelBuilder model;
  model.input("x", {"", ""}).output("y");
  model.node("Relu", {"x"}, {"y"});
  ImportOptions options;
  options.batch = 2;
  CHECK(contains(refusal_of(model, options), "'x.1'"));
  options.binds["x.1"] = 7;
  CHECK(model.import(options).tensors.at("y").shape == Shape{2, 7});
}

// Versions of operators

TEST_CASE("old and new forms of Slice, Squeeze, Split and ReduceSum give the same graph", "[import]") {
  ModelBuilder old(9), fresh(13);
  for (ModelBuilder* model : {&old, &fresh}) model->input("x", {"4", "1", "6"}).output("y").output("q").output("r");
  auto& slice = old.node("Slice", {"x"}, {"s"});
  set(slice, "starts", std::vector<std::int64_t>{1});
  set(slice, "ends", std::vector<std::int64_t>{1000});
  set(slice, "axes", std::vector<std::int64_t>{-1});
  set(old.node("Squeeze", {"s"}, {"t"}), "axes", std::vector<std::int64_t>{1});
  auto& split = old.node("Split", {"t"}, {"q", "r"});
  set(split, "split", std::vector<std::int64_t>{2, 3});
  set(split, "axis", std::int64_t{1});
  set(old.node("ReduceSum", {"t"}, {"y"}), "axes", std::vector<std::int64_t>{0});

  fresh.integers("starts", {1})
      .integers("ends", {1000})
      .integers("axes", {-1})
      .integers("one", {1})
      .integers("sizes", {2, 3})
      .integers("zero", {0});
  fresh.node("Slice", {"x", "starts", "ends", "axes"}, {"s"});
  fresh.node("Squeeze", {"s", "one"}, {"t"});
  set(fresh.node("Split", {"t", "sizes"}, {"q", "r"}), "axis", std::int64_t{1});
  fresh.node("ReduceSum", {"t", "zero"}, {"y"});
  const ImportedModel a = old.import(), b = fresh.import();
  CHECK(a.graph.hash() == b.graph.hash());
  CHECK(a.tensors.at("q").shape == Shape{4, 2});
  CHECK(a.tensors.at("y").shape == Shape{1, 5});  // 6 - 1 columns
}

TEST_CASE("Reshape resolves 0 and -1", "[import]") {
  ModelBuilder model;
  model.input("x", {"2", "3", "4"}).output("y").integers("shape", {0, -1});
  model.node("Reshape", {"x", "shape"}, {"y"});
  CHECK(model.import().tensors.at("y").shape == Shape{2, 12});
  model.graph().mutable_initializer(0)->set_int64_data(1, 5);
  CHECK(contains(refusal_of(model), "the_Reshape"));
}

TEST_CASE("a chain of shape arithmetic folds away", "[import]") {
  ModelBuilder model;
  model.input("x", {"batch", "6", "4"}).output("y").integers("zero", {0}).integers("minus", {-1});
  model.node("Shape", {"x"}, {"s"});
  model.node("Gather", {"s", "zero"}, {"b"});
  set(model.node("Concat", {"b", "minus"}, {"target"}), "axis", std::int64_t{0});
  model.node("Reshape", {"x", "target"}, {"y"});
  ImportOptions options;
  options.batch = 5;
  const ImportedModel imported = model.import(options);
  CHECK(operators(imported) == std::vector<std::string>{"Reshape"});
  CHECK(imported.tensors.at("y").shape == Shape{5, 24});
  CHECK(imported.tensors.at("target").shape == Shape{2});  // folded tensors keep their type in the listing
}

TEST_CASE("Softmax before version 13 runs over all dimensions from its axis on", "[import]") {
  ModelBuilder model(11);
  model.input("x", {"2", "3", "4"}).output("y");
  model.node("Softmax", {"x"}, {"y"});
  const ImportedModel imported = model.import();
  CHECK(operators(imported) == std::vector<std::string>{"Reshape", "Softmax", "Reshape"});
  CHECK(imported.graph.tensors()[graph::index(imported.graph.nodes()[1].outputs[0])].type.shape == Shape{2, 12});
}

TEST_CASE("Dropout drops in training whatever form the file has", "[import]") {
  ModelBuilder model(13);
  model.input("x", {"2", "3"}).output("y").floats("ratio", {}, {0.25F});
  model.node("Dropout", {"x", "ratio"}, {"y"});  // two operands: no training flag
  const ImportedModel imported = model.import();
  REQUIRE(operators(imported) == std::vector<std::string>{"Dropout"});
  CHECK(imported.graph.nodes()[0].attributes.number("ratio", 0) == 0.25);
  ImportOptions inference;
  inference.training_form = false;
  CHECK(operators(model.import(inference)) != std::vector<std::string>{"Dropout"});
  model.graph().mutable_initializer(0)->set_float_data(0, 0);
  CHECK(operators(model.import()) != std::vector<std::string>{"Dropout"});
}

TEST_CASE("SAME padding is written out", "[import]") {
  ModelBuilder model;
  model.input("x", {"1", "1", "5"}).output("y").floats("w", {1, 1, 2}, {1, 1});
  auto& conv = model.node("Conv", {"x", "w"}, {"y"});
  auto& mode = *conv.add_attribute();
  mode.set_name("auto_pad");
  mode.set_s("SAME_LOWER");
  set(conv, "strides", std::vector<std::int64_t>{2});
  // 5 / 2 rounded up: 3 windows, which cover (3 - 1) * 2 + 2 = 6 positions, 1 more than there are; LOWER puts it first
  const ImportedModel imported = model.import();
  CHECK(imported.graph.nodes()[0].attributes.integers("pads") == std::vector<std::int64_t>{1, 0});
  CHECK(imported.tensors.at("y").shape == Shape{1, 1, 3});
}

TEST_CASE("a mean is a scaled sum", "[import]") {
  ModelBuilder model;
  model.input("x", {"2", "3", "4", "5"}).output("y");
  model.node("GlobalAveragePool", {"x"}, {"y"});
  const ImportedModel imported = model.import();
  REQUIRE(operators(imported) == std::vector<std::string>{"ReduceSum"});
  CHECK(imported.graph.nodes()[0].attributes.number("scale", 0) == Approx(1.0 / 20));  // 4 * 5 pixels
}

TEST_CASE("a bound written in f64 keeps its digits", "[import]") {
  ModelBuilder model;
  model.input("x", {"2"}).output("y");
  model.tensor("low", {}, 11).add_double_data(-0.8);
  set(model.node("Cast", {"low"}, {"single"}), "to", std::int64_t{1});
  model.node("Clip", {"x", "single"}, {"y"});
  const ImportedModel imported = model.import();
  REQUIRE(operators(imported) == std::vector<std::string>{"Clip"});
  CHECK(imported.graph.nodes()[0].attributes.number("min", 0) == -0.8);  // as a float it would be -0.800000012
}

TEST_CASE("Einsum becomes products of matrices", "[import]") {
  ModelBuilder model;
  model.input("x", {"2", "3", "4"}).input("y", {"5", "4"}).output("z");
  auto& equation = *model.node("Einsum", {"x", "y"}, {"z"}).add_attribute();
  equation.set_name("equation");
  equation.set_s("bij, kj -> bik");
  const ImportedModel imported = model.import();
  CHECK(imported.tensors.at("z").shape == Shape{2, 3, 5});
  const auto names = operators(imported);
  CHECK(std::count(names.begin(), names.end(), "MatMul") == 1);
  equation.set_s("bij,kj->bkx");
  CHECK(contains(refusal_of(model), "the_Einsum"));
}

TEST_CASE("a recurrent layer is unrolled, both ways", "[import]") {
  ModelBuilder model;
  // 3 steps, batch 2, 4 features, 5 hidden units, 2 directions
  model.input("x", {"3", "2", "4"}).output("y").output("h");
  model.floats("w", {2, 20, 4}, std::vector<float>(160, 0.1F))
      .floats("r", {2, 20, 5}, std::vector<float>(200, 0.1F))
      .floats("b", {2, 40}, std::vector<float>(80, 0.F));
  auto& lstm = model.node("LSTM", {"x", "w", "r", "b"}, {"y", "h", ""});
  set(lstm, "hidden_size", std::int64_t{5});
  auto& direction = *lstm.add_attribute();
  direction.set_name("direction");
  direction.set_s("bidirectional");
  const ImportedModel imported = model.import();
  CHECK(imported.tensors.at("y").shape == Shape{3, 2, 2, 5});
  CHECK(imported.tensors.at("h").shape == Shape{2, 2, 5});
  const auto names = operators(imported);
  // per direction one product with W for all steps, and one with R for every step but the first, whose state is zero: 2 * (1 + 2)
  CHECK(std::count(names.begin(), names.end(), "MatMul") == 6);
  CHECK(role_of(imported, "r") == TensorRole::Parameter);
}

TEST_CASE("functions, bounds and lengths of a recurrent layer become operators", "[import]") {
  ModelBuilder model;
  // 3 steps, batch 2, 4 features, 5 hidden units
  model.input("x", {"3", "2", "4"}).input("lengths", {"2"}, 6).output("y");
  model.floats("w", {1, 5, 4}, std::vector<float>(20, 0.1F)).floats("r", {1, 5, 5}, std::vector<float>(25, 0.1F));
  auto& rnn = model.node("RNN", {"x", "w", "r", "", "lengths"}, {"y", ""});
  set(rnn, "hidden_size", std::int64_t{5});
  set(rnn, "clip", 2.F);
  auto& functions = *rnn.add_attribute();
  functions.set_name("activations");
  functions.add_strings("LeakyRelu");
  auto& alphas = *rnn.add_attribute();
  alphas.set_name("activation_alpha");
  alphas.add_floats(0.25F);
  const ImportedModel imported = model.import();
  const auto names = operators(imported);
  // one of each per step; a mask per step for the output and, but in the last whose state nobody reads, one for the state: 3 + 2
  CHECK(std::count(names.begin(), names.end(), "LeakyRelu") == 3);
  CHECK(std::count(names.begin(), names.end(), "Clip") == 3);
  CHECK(std::count(names.begin(), names.end(), "Where") == 5);
  functions.set_strings(0, "Gaussian");
  CHECK(contains(refusal_of(model), "Gaussian"));
  functions.add_strings("Tanh");
  CHECK(contains(refusal_of(model), "it needs 1"));
}

TEST_CASE("columns go back to the places of their image", "[import]") {
  ModelBuilder model(18);
  // image 3 x 4, block 2 x 2, padded by 1 on the low sides: 3 x 4 positions, 4 elements of the block, 2 channels
  model.input("x", {"2", "8", "12"}).output("y");
  model.integers("image", {3, 4}).integers("block", {2, 2});
  auto& node = model.node("Col2Im", {"x", "image", "block"}, {"y"});
  set(node, "pads", std::vector<std::int64_t>{1, 1, 0, 0});
  const ImportedModel imported = model.import();
  CHECK(imported.tensors.at("y").shape == Shape{2, 2, 3, 4});
  node.mutable_attribute(0)->set_ints(0, 2);
  CHECK(contains(refusal_of(model), "[batch, channels x 4, 16]"));  // (3 + 2 - 1) x (4 + 1 - 1)
}

// Weights

TEST_CASE("ones and zeros of a normalization without weights are no parameters", "[import]") {
  ModelBuilder model;
  model.input("x", {"2", "4"}).output("y");
  for (const char* name : {"/a/Constant_output_0", "/a/Constant_1_output_0"}) {
    auto& value = *model.node("Constant", {}, {name}).add_attribute();
    value.set_name("value");
    value.mutable_t()->set_data_type(1);
    value.mutable_t()->add_dims(4);
    for (int i = 0; i < 4; ++i) value.mutable_t()->add_float_data(std::string(name) == "/a/Constant_output_0" ? 1.F : 0.F);
  }
  model.floats("gain", {4}, {1, 1, 1, 1}).floats("shift", {4}, {0, 0, 0, 0});
  model.node("LayerNormalization", {"x", "/a/Constant_output_0", "/a/Constant_1_output_0"}, {"h"});
  model.node("LayerNormalization", {"h", "gain", "shift"}, {"y"});
  const ImportedModel imported = model.import();
  std::size_t parameters = 0;
  for (const auto& tensor : imported.graph.tensors()) parameters += tensor.role == TensorRole::Parameter ? 1 : 0;
  CHECK(parameters == 2);
  CHECK(role_of(imported, "gain") == TensorRole::Parameter);
}

TEST_CASE("group normalization with numbers per group, as before version 21", "[import]") {
  ModelBuilder model(18);
  model.input("x", {"2", "6", "5"}).output("y");
  model.floats("gain", {3}, {1, 2, 3}).floats("shift", {3}, {0, 0, 0});
  auto& norm = model.node("GroupNormalization", {"x", "gain", "shift"}, {"y"});
  set(norm, "num_groups", std::int64_t{3});
  const ImportedModel imported = model.import();
  CHECK(imported.tensors.at("y").shape == Shape{2, 6, 5});
  const auto names = operators(imported);
  CHECK(std::count(names.begin(), names.end(), "Expand") == 2);
  norm.mutable_attribute(0)->set_i(4);
  CHECK(contains(refusal_of(model), "4 groups"));
}

// Structure

TEST_CASE("positions in a sequence count from its end where they are negative", "[import]") {
  // Of [a, b] with `new` put in: before the last at -1, before all at -2, behind all at 2. The last one is asked for.
  for (const auto& [at, last] : {std::pair{-1, "b"}, std::pair{-2, "b"}, std::pair{2, "new"}, std::pair{0, "b"}, std::pair{3, ""}}) {
    INFO("inserted at " << at);
    ModelBuilder model;
    model.input("a", {"4", "1"}).input("b", {"4", "2"}).input("new", {"4", "3"}).output("y");
    model.integers("at", {at}).integers("end", {-1});
    model.node("SequenceConstruct", {"a", "b"}, {"parts"});
    model.node("SequenceInsert", {"parts", "new", "at"}, {"more"});
    model.node("SequenceAt", {"more", "end"}, {"z"});
    model.node("Relu", {"z"}, {"y"});
    if (std::string_view(last).empty()) {
      CHECK(contains(refusal_of(model), "position 3 lies outside a sequence of 2"));
    } else {
      const ImportedModel imported = model.import();
      CHECK(imported.tensors.at("y").shape == imported.tensors.at(last).shape);
    }
  }
}

TEST_CASE("a branch with a known condition, a function and a sequence disappear", "[import]") {
  ModelBuilder model;
  model.input("x", {"4", "6"}).output("y").integers("one", {1});
  model.node("SplitToSequence", {"x"}, {"parts"});  // 4 parts of [1, 6]
  model.node("SequenceAt", {"parts", "one"}, {"second"});
  auto& condition = model.tensor("yes", {}, 9);
  condition.add_int32_data(1);
  auto& branch = model.node("If", {"yes"}, {"b"});
  for (const char* name : {"then_branch", "else_branch"}) {
    auto& attribute = *branch.add_attribute();
    attribute.set_name(name);
    auto& body = *attribute.mutable_g();
    auto& inner = *body.add_node();
    inner.set_op_type(std::string(name) == "then_branch" ? "Tanh" : "Relu");
    inner.add_input("second");  // captured from outside
    inner.add_output("inner");
    body.add_output()->set_name("inner");
  }
  auto& function = *model.model().add_functions();
  function.set_name("Twice");
  function.set_domain("custom");
  function.add_input("a");
  function.add_output("r");
  auto& add = *function.add_node();
  add.set_op_type("Add");
  add.add_input("a");
  add.add_input("a");
  add.add_output("r");
  auto& import = *function.add_opset_import();
  import.set_domain("");
  import.set_version(17);
  model.node("Twice", {"b"}, {"y"}).set_domain("custom");
  const ImportedModel imported = model.import();
  CHECK(imported.tensors.at("y").shape == Shape{1, 6});
  const auto names = operators(imported);
  CHECK(std::count(names.begin(), names.end(), "Tanh") == 1);
  CHECK(std::count(names.begin(), names.end(), "Relu") == 0);
  CHECK(std::count(names.begin(), names.end(), "Add") == 1);
}

TEST_CASE("a straight-through estimator of an exporter that forgets what was detached", "[import]") {
  const auto with_producer = [](const std::string& producer) {
    ModelBuilder model;
    model.input("x", {"2", "3"}).floats("weight", {3}, {1, 2, 3}).output("y");
    model.node("Mul", {"x", "weight"}, {"h"});
    model.node("Round", {"h"}, {"r"});
    model.node("Sub", {"r", "h"}, {"d"});
    model.node("Add", {"h", "d"}, {"y"});
    model.model().set_producer_name(producer);
    return model.import().graph;
  };
  const auto count = [](const graph::Graph& graph) {
    return std::count_if(graph.nodes().begin(), graph.nodes().end(),
                         [](const graph::Node& n) { return graph::schema(n).name == "StopGradient"; });
  };
  CHECK(count(with_producer("pytorch")) == 1);
  CHECK(count(with_producer("another")) == 0);  // what a file says is what it means
}

TEST_CASE("outputs keep their names even when they alias something", "[import]") {
  ModelBuilder model;
  model.input("x", {"2"}).output("y").output("z");
  model.node("Relu", {"x"}, {"h"});
  model.node("Identity", {"h"}, {"y"});
  model.node("Identity", {"h"}, {"z"});
  const ImportedModel imported = model.import();
  REQUIRE(imported.graph.outputs().size() == 2);
  CHECK(imported.graph[imported.graph.outputs()[0]].name == "y");
  CHECK(imported.graph[imported.graph.outputs()[1]].name == "z");
}

TEST_CASE("faults name the node or the tensor", "[import]") {
  SECTION("an operator without a row") {
    ModelBuilder model;
    model.input("x", {"2"}).output("y");
    model.node("Frobnicate", {"x"}, {"f"}).set_domain("com.example");
    model.node("Relu", {"f"}, {"y"});
    const std::string message = refusal_of(model);
    CAPTURE(message);
    for (const char* part : {"the_Frobnicate", "com.example", "opset 1", "not supported", "model.onnx"}) CHECK(contains(message, part));
    ImportOptions options;
    options.collect_unknown = true;
    const ImportedModel imported = model.import(options);
    REQUIRE(imported.unknown.size() == 1);
    CHECK(imported.unknown[0].op == "com.example.Frobnicate");
    CHECK(imported.unresolved == std::vector<std::string>{"f", "y"});
  }
  SECTION("a cycle") {
    ModelBuilder model;
    model.input("x", {"2"}).output("b");
    model.node("Add", {"x", "b"}, {"a"});
    model.node("Relu", {"a"}, {"b"});
    const std::string message = refusal_of(model);
    CHECK(contains(message, "cycle"));
    CHECK(contains(message, "the_Add"));
  }
  SECTION("a tensor that nothing produces") {
    ModelBuilder model;
    model.input("x", {"2"}).output("y");
    model.node("Add", {"x", "ghost"}, {"y"});
    CHECK(contains(refusal_of(model), "'ghost'"));
  }
  SECTION("two producers") {
    ModelBuilder model;
    model.input("x", {"2"}).output("y");
    model.node("Relu", {"x"}, {"y"});
    model.node("Tanh", {"x"}, {"y"});
    CHECK(contains(refusal_of(model), "the_Tanh"));
  }
  SECTION("operands that do not fit") {
    ModelBuilder model;
    model.input("x", {"2", "3"}).input("z", {"4"}).output("y");
    model.node("Add", {"x", "z"}, {"y"});
    const std::string message = refusal_of(model);
    CHECK(contains(message, "the_Add"));
    CHECK(contains(message, "[4]"));
  }
}

TEST_CASE("nodes out of order are put in order", "[import]") {
  ModelBuilder model;
  model.input("x", {"2"}).output("y");
  model.node("Tanh", {"h"}, {"y"});
  model.node("Relu", {"x"}, {"h"});
  CHECK(operators(model.import()) == std::vector<std::string>{"Relu", "Tanh"});
}

}  // namespace
}  // namespace rehearsal::formats
