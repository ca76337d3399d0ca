// What each pass of import does to a file or graph, on models small enough to follow by hand.

#include "formats/onnx/passes/import_passes.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "formats/onnx/passes/check_file.hpp"
#include "graph/builder.hpp"
#include "graph/check_graph.hpp"
#include "tests/catch.hpp"
#include "tests/formats/model_builder.hpp"

namespace rehearsal::formats::testing {
namespace {

std::vector<ImportPassResult> passes_over(ModelBuilder model, std::int64_t batch) {
  std::vector<ImportPassResult> passes;
  ImportOptions options;
  options.batch = batch;
  options.after_pass = [&](const ImportPassResult& pass) { passes.push_back(pass); };
  (void)model.import(options);
  return passes;
}

const ImportPassResult& pass_named(const std::vector<ImportPassResult>& passes, std::string_view name) {
  const auto found = std::ranges::find(passes, name, &ImportPassResult::pass);
  INFO("there is no pass '" << name << "'");
  REQUIRE(found != passes.end());
  return *found;
}

/// "folded the_Shape": the changes of a pass without their details, in order.
std::vector<std::string> changes_of(const ImportPassResult& pass) {
  std::vector<std::string> changes;
  for (const auto& change : pass.changes) changes.push_back(std::string(change.what) + " " + change.name);
  return changes;
}

using Changes = std::vector<std::string>;

/// y = relu(x·w) where the file writes x·w as a product of a reshaped copy of x; besides, a node that nobody reads.
ModelBuilder with_detours() {
  ModelBuilder m;
  m.input("x", {"rows", "4"}).floats("w", {4, 4}, std::vector<float>(16, 0.1F));
  m.node("Shape", {"x"}, {"sizes"});
  m.node("Identity", {"x"}, {"same"});
  m.node("MatMul", {"same", "w"}, {"product"});
  m.node("Sigmoid", {"product"}, {"unread"});
  m.node("Reshape", {"product", "sizes"}, {"shaped"});
  m.node("Relu", {"shaped"}, {"y"});
  return m.output("y");
}

/// Root of the mean square: x / sqrt(mean(x²) + ε), four nodes besides the square and the gain.
ModelBuilder with_rms_normalization() {
  ModelBuilder m;
  m.input("x", {"2", "8"}).floats("gain", {8}, std::vector<float>(8, 1.5F)).floats("two", {}, {2}).floats("small", {}, {1e-5F});
  m.node("Pow", {"x", "two"}, {"square"});
  set(m.node("ReduceMean", {"square"}, {"mean"}), "axes", std::vector<std::int64_t>{-1});
  m.node("Add", {"mean", "small"}, {"shifted"});
  m.node("Sqrt", {"shifted"}, {"root"});
  m.node("Div", {"x", "root"}, {"normalized"});
  m.node("Mul", {"normalized", "gain"}, {"y"});
  return m.output("y");
}

}  // namespace

TEST_CASE("every pass that applies reports once, in the order of the table") {
  const auto passes = passes_over(with_detours(), 3);
  auto row = import_passes().begin();
  for (const auto& pass : passes) {
    row = std::find_if(row, import_passes().end(), [&](const ImportPass& r) { return r.name == pass.pass; });
    INFO(pass.pass);
    REQUIRE(row != import_passes().end());
    CHECK(pass.leaves == row->leaves);
    CHECK(pass.takes == row->takes);
    ++row;
  }
  // The first dimension is open: nothing has to follow another batch.
  CHECK(std::ranges::count(passes, std::string_view("follow the batch"), &ImportPassResult::pass) == 0);
  CHECK(passes.size() == import_passes().size() - 1);
}

TEST_CASE("passes count what the file has, and then what the graph has") {
  const auto passes = passes_over(with_detours(), 3);
  const auto& read = pass_named(passes, "read the file");
  CHECK(read.of_file);
  CHECK(read.nodes == 6);    // Shape, Identity, MatMul, Sigmoid, Reshape, Relu
  CHECK(read.tensors == 8);  // x, w, and a result each
  CHECK(changes_of(pass_named(passes, "bind sizes")) == Changes{"bound rows"});
  CHECK(pass_named(passes, "bind sizes").changes[0].detail == "to 3");

  const auto& inputs = pass_named(passes, "add inputs");
  CHECK(!inputs.of_file);
  CHECK(inputs.nodes == 0);
  CHECK(inputs.tensors == 1);  // x: w is stored, and comes when a node reads it

  // Shape of a known shape is a constant, Identity is x itself: MatMul, Sigmoid, Reshape and Relu are left.
  const auto& nodes = pass_named(passes, "import nodes");
  CHECK(nodes.nodes == 4);
  CHECK(changes_of(nodes) == Changes{"folded the_Shape", "passed over the_Identity"});
  CHECK(nodes.changes[1].detail == "Identity, its result is 'x'");

  const auto& built = pass_named(passes, "drop what no output needs");
  CHECK(built.nodes == 3);
  CHECK(changes_of(built) == Changes{"dropped the_Sigmoid"});
  CHECK(built.tensors == 5);  // x, w, product, shaped, y: the sizes went into an attribute of Reshape
}

TEST_CASE("the pass that recognizes operators says which nodes it took together") {
  const auto passes = passes_over(with_rms_normalization(), 2);
  const auto& before = pass_named(passes, "drop what no output needs");
  const auto& after = pass_named(passes, "recognize operators");
  CHECK(before.nodes == 6);
  CHECK(after.nodes == 1);
  CHECK(changes_of(after) == Changes{"recognized the_Mul"});
  CHECK(after.changes[0].detail == "RMSNormalization, one node now");
}

TEST_CASE("the pass that follows the batch names the operands that it writes anew") {
  ModelBuilder m;
  m.input("x", {"2", "3", "4"}).integers("flat", {2, 12});
  m.node("Reshape", {"x", "flat"}, {"y"});
  m.output("y");
  const auto passes = passes_over(m, 6);
  const auto& follow = pass_named(passes, "follow the batch");
  CHECK(follow.of_file);
  REQUIRE(follow.changes.size() == 1);
  CHECK(follow.changes[0].what == "rewritten");
  CHECK(follow.changes[0].name == "node 'the_Reshape' (Reshape)");
  CHECK(follow.changes[0].detail == "operand 1: element 0, a size, follows the batch");
}

TEST_CASE("a call of a function is inlined, and says so") {
  ModelBuilder m;
  m.input("x", {"2", "4"});
  auto& function = *m.model().add_functions();
  function.set_name("Twice");
  function.set_domain("ours");
  function.add_input("a");
  function.add_output("b");
  auto& add = *function.add_node();
  add.set_op_type("Add");
  add.add_input("a");
  add.add_input("a");
  add.add_output("b");
  auto& opset = *m.model().add_opset_import();
  opset.set_domain("ours");
  opset.set_version(1);
  m.node("Twice", {"x"}, {"y"}).set_domain("ours");
  m.output("y");
  const auto nodes = pass_named(passes_over(m, 2), "import nodes");
  CHECK(changes_of(nodes) == Changes{"inlined the_Twice"});
  CHECK(nodes.changes[0].detail == "a call of Twice, 1 nodes");
  CHECK(nodes.nodes == 1);
}

TEST_CASE("what is checked behind every pass finds a graph that a pass has broken") {
  const auto broken = [](auto&& breaks) {
    graph::GraphBuilder b;
    const auto x = b.add_input("x", {DType::F32, {2, 3}});
    const auto y = b.add1("Transpose", {x}, {{"perm", std::vector<std::int64_t>{1, 0}}});
    const auto z = b.add1("Relu", {y});
    b.set_outputs({z});
    breaks(b, y);
    try {
      graph::check_graph(b.so_far(), "some pass");
      return std::string();
    } catch (const InternalError& error) {
      return std::string(error.what());
    }
  };
  CHECK(broken([](auto&, auto) {}).empty());
  const auto of_another_type = broken([](auto& b, auto y) { b.set_dtype(y, DType::F64); });
  CHECK(contains(of_another_type, "after 'some pass'"));
  CHECK(contains(of_another_type, "(Transpose)"));
  const auto of_another_shape = broken([](auto& b, auto y) { b.set_attribute(b[y].producer, "perm", std::vector<std::int64_t>{0, 1}); });
  CHECK(contains(of_another_shape, "of shape [2,3], which has [3,2]"));
  CHECK(contains(broken([](auto& b, auto y) { b.set_role(y, graph::TensorRole::Input); }), "has the role of an input, and is none"));
}

TEST_CASE("what is checked behind every pass finds a file that a pass has broken") {
  ModelBuilder m = with_detours();
  const FileFaults before = faults_of(m.graph());
  CHECK(before.read_unknown.empty());
  const auto fault = [&] {
    try {
      check_file(m.graph(), before, "some pass");
      return std::string();
    } catch (const InternalError& error) {
      return std::string(error.what());
    }
  };
  CHECK(fault().empty());
  m.graph().mutable_node(2)->set_input(1, "gone");
  CHECK(fault() == "after 'some pass': tensor 'gone' is read, and nothing produces it any more");
  m.graph().mutable_node(2)->set_input(1, "w");
  m.node("Relu", {"x"}, {"product"});
  CHECK(fault() == "after 'some pass': tensor 'product' is produced twice");
}

}  // namespace rehearsal::formats::testing
