// What a row computes while a graph is built is what its kernel computes when the graph is run.

#include <cmath>
#include <set>

#include "exec/play/interpreter.hpp"
#include "tests/catch.hpp"
#include "tests/exec/gradient_problem.hpp"

namespace rehearsal::exec {
namespace {

using graph::TensorId;
using graph::Value;

graph::Contents stored(const graph::Graph& graph, TensorId t, const Interpreter& values) {
  const auto bytes = values.get(t);
  return {graph[t].type.dtype, graph::InlineBytes{std::make_shared<const std::vector<std::byte>>(bytes.begin(), bytes.end())}};
}

Value value_of(const graph::Graph& graph, TensorId t, const Interpreter& values) {
  Value value{graph[t].type, {}, {}};
  if (value.integral()) {
    value.integers = read_integers(stored(graph, t, values), value.type.shape);
  } else {
    value.reals = values.get_reals(t);
  }
  return value;
}

void check_node(const graph::Graph& graph, const graph::Node& node, const Interpreter& values) {
  INFO(graph::schema(node).name << " " << node.attributes.to_text());
  std::vector<Value> operands;
  std::vector<const Value*> pointers;
  for (const TensorId t : node.inputs) operands.push_back(value_of(graph, t, values));
  for (const Value& operand : operands) pointers.push_back(&operand);
  const auto results = graph::schema(node).evaluate(graph::NodeTypes(graph, node).view(), pointers);
  REQUIRE(results.size() == node.outputs.size());
  for (std::size_t i = 0; i < results.size(); ++i) {
    const auto expected = values.get_reals(node.outputs[i]);
    REQUIRE(results[i].type == graph[node.outputs[i]].type);
    REQUIRE((results[i].integral() ? results[i].integers.size() : results[i].reals.size()) == expected.size());
    for (std::size_t e = 0; e < expected.size(); ++e)
      CHECK(results[i].real(static_cast<std::int64_t>(e)) == Approx(expected[e]).epsilon(1e-12).margin(1e-14));
  }
}

using Seen = std::set<std::string, std::less<>>;

void check_graph(const graph::Graph& graph, const Interpreter& values, Seen& seen) {
  for (const graph::Node& node : graph.nodes()) {
    if (!graph::schema(node).evaluate) continue;
    seen.insert(std::string(graph::schema(node).name));
    check_node(graph, node, values);
  }
}

/// Rows without a gradient on integers, truth values and rounded numbers.
struct OtherCase {
  const char* op;
  std::vector<std::vector<double>> operands;  ///< of rank 1 or, with one element, scalars
  DType type = DType::I64;
  graph::Attributes attributes = {};
};

const std::vector<OtherCase>& other_cases() {
  static const std::vector<OtherCase> kCases = {
      {"Div", {{7, -7, 8, 0}, {2}}},
      {"Mod", {{7, -7, 8, 0}, {-3}}},
      {"Pow", {{2, -3}, {3}}},
      {"Add", {{1, 2}, {3, 4}}},
      {"Neg", {{1, -2}}},
      {"Abs", {{1, -2}}},
      {"Max", {{1, 5}, {3}}},
      {"Min", {{1, 5}, {3}}},
      {"Clip", {{-9, 1, 9}}, DType::I64, {{"min", -2.0}, {"max", 3.0}}},
      {"Equal", {{1, 5}, {5}}},
      {"Less", {{1, 5}, {5}}},
      {"Greater", {{1, 6}, {5}}},
      {"LessOrEqual", {{1, 5, 6}, {5}}},
      {"GreaterOrEqual", {{1, 5, 6}, {5}}},
      {"Equal", {{1, 0}, {1}}, DType::Bool},
      {"Not", {{1, 0}}, DType::Bool},
      {"And", {{1, 0}, {1, 1}}, DType::Bool},
      {"Or", {{1, 0}, {0, 0}}, DType::Bool},
      {"Xor", {{1, 0}, {1, 1}}, DType::Bool},
      {"Floor", {{1.5, -1.5}}, DType::F64},
      {"Ceil", {{1.5, -1.5}}, DType::F64},
      {"Round", {{1.5, -2.5}}, DType::F64},
      {"StopGradient", {{1.5, -2.5}}, DType::F64},
      {"Sign", {{1.5, -2.5, 0}}, DType::F64},
      {"IsNaN", {{1.5, NAN}}, DType::F64},
      {"IsInf", {{1.5, INFINITY}}, DType::F64},
      {"Mod", {{5.5, -5.5}, {2}}, DType::F32},
      {"Mul", {{0.1, 0.7}, {0.3}}, DType::F32},
      {"Add", {{200, 7}, {100, 1}}, DType::U8},
      {"BitShift", {{200, 7, 1}, {3, 1, 8}}, DType::U8, {{"left", std::int64_t{1}}}},
      {"BitShift", {{200, 7, 1}, {3, 1, 8}}, DType::U8},
      {"BitwiseAnd", {{12, -1}, {10, 7}}},
      {"BitwiseOr", {{12, -8}, {10, 7}}},
      {"BitwiseXor", {{12, -1}, {10, 7}}},
      {"ReduceSum", {{1, 2, 3}}},
      {"ReduceProd", {{2, 3, 4}}},
      {"ReduceMax", {{-2, -3, -4}}},
      {"ReduceMin", {{2, 3, 4}}},
      {"CumSum", {{2, 3, 4}}},
      {"Cast", {{1.9, -1.9, 300}}, DType::F64, {{"to", std::string("i32")}}},
      {"Cast", {{0, 0.5}}, DType::F64, {{"to", std::string("bool")}}},
      {"Concat", {{1, 2}, {3, 4}}},
      {"Gather", {{5, 6, 7}, {2, -3}}},
  };
  return kCases;
}

void check_other(const OtherCase& one, Seen& seen) {
  graph::GraphBuilder builder;
  std::vector<TensorId> operands;
  for (const auto& values : one.operands) {
    const graph::Shape shape = values.size() == 1 ? graph::Shape{} : graph::Shape{static_cast<std::int64_t>(values.size())};
    operands.push_back(builder.add_input("x" + std::to_string(operands.size()), {one.type, shape}));
  }
  builder.set_outputs(builder.add(one.op, operands, one.attributes));
  const graph::Graph graph = std::move(builder).build();
  Interpreter interpreter(graph);
  for (std::size_t i = 0; i < operands.size(); ++i) interpreter.set_reals(graph.inputs()[i], one.operands[i]);
  interpreter.run();
  check_graph(graph, interpreter, seen);
}

}  // namespace

TEST_CASE("folding gives what the kernels give") {
  // these fold from attributes alone
  Seen seen = {"ConstantOfShape", "Range"};
  for (const GradientCase& one : all_gradient_cases()) {
    const GradientProblem problem(one);
    Interpreter interpreter(problem.graph());
    problem.set_inputs(interpreter);
    interpreter.run();
    check_graph(problem.graph(), interpreter, seen);
  }
  for (const OtherCase& one : other_cases()) check_other(one, seen);
  for (const graph::OpSchema& row : graph::op_table()) {
    INFO(row.name << " can be folded, but no case does");
    if (row.evaluate) CHECK(seen.contains(row.name));
  }
}

TEST_CASE("slices of constants are picked and replaced by index") {
  graph::GraphBuilder builder;
  const TensorId x = builder.add_constant("x", Value::of_integers({0, 1, 2, 3, 4, 5}, {3, 2}));
  const TensorId at = builder.add_constant("at", Value::of_integers({2, -3}, {2, 1}));
  // rows 2 and 0 of 0 1 / 2 3 / 4 5
  CHECK(builder.value(builder.add1("GatherND", {x, at}))->integers == std::vector<std::int64_t>{4, 5, 0, 1});
  const TensorId rows = builder.add_constant("rows", Value::of_integers({7, 8, 9, 10}, {2, 2}));
  CHECK(builder.value(builder.add1("ScatterND", {x, at, rows}))->integers == std::vector<std::int64_t>{9, 10, 2, 3, 7, 8});
  CHECK(builder.value(builder.add1("Range", {}, {{"start", 5.0}, {"limit", -1.0}, {"delta", -2.0}}))->integers ==
        std::vector<std::int64_t>{5, 3, 1});
}

}  // namespace rehearsal::exec
