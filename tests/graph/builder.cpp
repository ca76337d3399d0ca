#include "graph/builder.hpp"

#include "base/error.hpp"
#include "tests/catch.hpp"

using namespace rehearsal;
using namespace rehearsal::graph;

namespace {

const TensorType kPair{DType::F32, {2}};

std::vector<std::string> node_names(const Graph& graph) {
  std::vector<std::string> names;
  for (const Node& node : graph.nodes()) names.push_back(node.name);
  return names;
}

GraphBuilder::NodeOptions named(std::string name, Phase phase = Phase::Forward) { return {std::move(name), phase, NodeId::None, {}}; }

}  // namespace

TEST_CASE("nodes of known small operands are folded and leave no node") {
  GraphBuilder builder;
  const TensorId a = builder.add_constant("a", Value::of_integers({1, 2}, {2})),
                 b = builder.add_constant("b", Value::of_integers({10, 20}, {2}));
  const TensorId sum = builder.add1("Add", {a, b});
  REQUIRE(builder.value(sum) != nullptr);
  CHECK(builder.value(sum)->integers == std::vector<std::int64_t>{11, 22});
  CHECK(builder[sum].role == TensorRole::Constant);
  CHECK(builder.node_count() == 0);
  // folded values are stored as contents too, so that they reach the run
  CHECK(read_integers(builder[sum].contents, {2}) == std::vector<std::int64_t>{11, 22});
}

TEST_CASE("a node of an input is not folded") {
  GraphBuilder builder;
  const TensorId x = builder.add_input("x", kPair), a = builder.add_constant("a", Value::of_reals({1, 2}, {2}));
  const TensorId sum = builder.add1("Add", {x, a});
  CHECK(builder.value(sum) == nullptr);
  CHECK(builder.node_count() == 1);
  CHECK(builder[sum].producer == static_cast<NodeId>(0));
}

TEST_CASE("a continued graph folds with its small constants") {
  GraphBuilder first;
  const TensorId a = first.add_constant("a", Value::of_integers({3}, {1}));
  first.set_outputs({a});
  const Graph graph = std::move(first).build();
  GraphBuilder second(graph);
  const TensorId sum = second.add1("Add", {second.find("a"), second.find("a")});
  REQUIRE(second.value(sum) != nullptr);
  CHECK(second.value(sum)->integers == std::vector<std::int64_t>{6});
}

TEST_CASE("build drops what nothing needs and renumbers the rest") {
  GraphBuilder builder;
  const TensorId unused_input = builder.add_input("unused", kPair), x = builder.add_input("x", kPair);
  const TensorId dead_weight = builder.add_stored("dead_weight", kPair, TensorRole::Parameter, {}),
                 w = builder.add_stored("w", kPair, TensorRole::Parameter, {});
  builder.add("Mul", {x, dead_weight}, {}, named("dead"));
  const TensorId y = builder.add("Mul", {x, w}, {}, named("live")).front();
  builder.set_outputs({y});
  Renumbering renumbering;
  const Graph graph = std::move(builder).build(&renumbering);
  CHECK(node_names(graph) == std::vector<std::string>{"live"});
  CHECK(graph.find("dead_weight") == TensorId::None);
  CHECK(graph.inputs() == std::vector<TensorId>{renumbering(unused_input), renumbering(x)});  // inputs stay: the data has them
  CHECK(graph[renumbering(y)].name == graph[graph.outputs()[0]].name);
  CHECK(graph[graph[NodeId{0}].inputs[1]].name == "w");
  CHECK(renumbering(dead_weight) == TensorId::None);
}

TEST_CASE("build keeps updates and puts the phases in order") {
  GraphBuilder builder;
  const TensorId x = builder.add_input("x", kPair), state = builder.add_stored("state", kPair, TensorRole::State, {});
  const TensorId next = builder.add("Add", {x, state}, {}, named("update", Phase::Update)).front();
  builder.set_stored_in(next, state);
  const TensorId y = builder.add("Mul", {x, x}, {}, named("forward")).front();
  builder.set_outputs({y});
  const Graph graph = std::move(builder).build();
  CHECK(node_names(graph) == std::vector<std::string>{"forward", "update"});
  const TensorId updated = graph[static_cast<NodeId>(1)].outputs[0];
  CHECK(graph[updated].role == TensorRole::Updated);
  CHECK(graph[graph[updated].stored_in].name == "state");
  CHECK(graph[updated].producer == static_cast<NodeId>(1));
}

TEST_CASE("names are made unique for nodes, and refused twice for tensors") {
  GraphBuilder builder;
  const TensorId x = builder.add_input("x", kPair);
  const TensorId a = builder.add("Mul", {x, x}, {}, named("layer")).front(), b = builder.add("Mul", {x, a}, {}, named("layer")).front();
  CHECK(builder[builder[a].producer].name == "layer");
  CHECK(builder[builder[b].producer].name != "layer");
  CHECK(builder[a].name != builder[b].name);
  CHECK_THROWS_WITH(builder.add_input("x", kPair), contains("'x'"));
  CHECK(builder.fresh_name("x") != "x");
  CHECK(builder.fresh_name("new") == "new");
}

TEST_CASE("an operand that does not fit is reported with its node") {
  GraphBuilder builder;
  const TensorId x = builder.add_input("x", kPair), y = builder.add_input("y", {DType::F32, {3}});
  CHECK_THROWS_WITH(builder.add("Add", {x, y}, {}, named("encoder/add")),
                    contains("encoder/add") && contains("Add") && contains("[2]") && contains("[3]"));
  CHECK_THROWS_AS(builder.add_input("huge", {DType::F32, {std::int64_t{1} << 40, std::int64_t{1} << 40}}), BadInput);
}

TEST_CASE("the hash follows the computation, not the values") {
  const auto graph_of = [](double value, const char* op, std::int64_t size) {
    GraphBuilder builder;
    const TensorId x = builder.add_input("x", {DType::F32, {size}}),
                   w = builder.add_stored("w", {DType::F32, {size}}, TensorRole::Parameter, {DType::F32, Fill{value}});
    builder.set_outputs({builder.add1(op, {x, w})});
    return std::move(builder).build().hash();
  };
  CHECK(graph_of(1, "Add", 2) == graph_of(2, "Add", 2));
  CHECK(graph_of(1, "Add", 2) != graph_of(1, "Mul", 2));
  CHECK(graph_of(1, "Add", 2) != graph_of(1, "Add", 3));
}

TEST_CASE("rows of the operator table are found by name") {
  REQUIRE(find_op("Add").has_value());
  CHECK(schema(*find_op("Add")).name == "Add");
  CHECK_FALSE(find_op("NoSuchOperator").has_value());
  CHECK_THROWS_AS(op("NoSuchOperator"), InternalError);
  for (const OpSchema& row : op_table()) {
    INFO(row.name);
    CHECK(row.infer != nullptr);
    CHECK_FALSE(row.description.empty());
    CHECK((row.gradient != nullptr || !row.no_gradient.empty()));
  }
}
