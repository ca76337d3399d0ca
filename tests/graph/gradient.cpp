#include "graph/gradient.hpp"

#include "base/error.hpp"
#include "tests/catch.hpp"

using namespace rehearsal;
using namespace rehearsal::graph;

namespace {

const TensorType kPair{DType::F32, {2}};

TensorId sum_of(GraphBuilder& builder, TensorId x) {
  std::vector<std::int64_t> axes;
  for (std::size_t d = 0; d < builder.type(x).shape.size(); ++d) axes.push_back(static_cast<std::int64_t>(d));
  return builder.add1("ReduceSum", {x}, {{"axes", axes}, {"keepdims", std::int64_t{0}}});
}

std::vector<TensorId> gradients(GraphBuilder& builder, TensorId loss, std::vector<TensorId> wanted,
                                std::vector<Untrainable>* blocked = nullptr) {
  std::vector<Untrainable> reasons;
  const auto result = differentiate(builder, loss, wanted, reasons);
  if (blocked) *blocked = reasons;
  return result;
}

}  // namespace

TEST_CASE("gradients of several consumers are added in the order of the forward nodes") {
  GraphBuilder builder;
  const TensorId x = builder.add_stored("x", kPair, TensorRole::Parameter, {});
  const TensorId a = builder.add1("Sigmoid", {x}), b = builder.add1("Tanh", {x}), c = builder.add1("Exp", {x});
  const TensorId loss = sum_of(builder, builder.add1("Mul", {builder.add1("Mul", {a, b}), c}));
  const TensorId total = gradients(builder, loss, {x})[0];
  // ((from a) + (from b)) + (from c)
  const Node outer = builder[builder[total].producer];
  CHECK(schema(outer).name == "Add");
  const Node inner = builder[builder[outer.inputs[0]].producer];
  CHECK(schema(inner).name == "Add");
  const auto forward_of = [&](TensorId t) { return builder[builder[t].producer].forward; };
  CHECK(forward_of(inner.inputs[0]) == builder[a].producer);
  CHECK(forward_of(inner.inputs[1]) == builder[b].producer);
  CHECK(forward_of(outer.inputs[1]) == builder[c].producer);
}

TEST_CASE("backward nodes carry their phase and their forward node") {
  GraphBuilder builder;
  const TensorId x = builder.add_stored("x", kPair, TensorRole::Parameter, {});
  const TensorId loss = sum_of(builder, builder.add1("Sigmoid", {x}));
  const std::size_t forward_nodes = builder.node_count();
  gradients(builder, loss, {x});
  REQUIRE(builder.node_count() > forward_nodes);
  for (std::size_t n = forward_nodes; n < builder.node_count(); ++n) {
    CHECK(builder[static_cast<NodeId>(n)].phase == Phase::Backward);
    CHECK(index(builder[static_cast<NodeId>(n)].forward) < forward_nodes);
  }
}

TEST_CASE("a gradient of a broadcast operand has the operand's shape") {
  GraphBuilder builder;
  const TensorId x = builder.add_input("x", {DType::F32, {4, 3, 5}});
  const TensorId row = builder.add_stored("row", {DType::F32, {5}}, TensorRole::Parameter, {}),
                 column = builder.add_stored("column", {DType::F32, {3, 1}}, TensorRole::Parameter, {}),
                 scalar = builder.add_stored("scalar", {DType::F32, {}}, TensorRole::Parameter, {});
  const TensorId y = builder.add1("Add", {builder.add1("Mul", {builder.add1("Mul", {x, row}), column}), scalar});
  const auto result = gradients(builder, sum_of(builder, y), {row, column, scalar});
  CHECK(builder.type(result[0]).shape == Shape{5});
  CHECK(builder.type(result[1]).shape == Shape{3, 1});
  CHECK(builder.type(result[2]).shape.empty());
}

TEST_CASE("no gradient where no path leads to the loss") {
  GraphBuilder builder;
  const TensorId x = builder.add_stored("x", kPair, TensorRole::Parameter, {}),
                 aside = builder.add_stored("aside", kPair, TensorRole::Parameter, {});
  builder.add1("Exp", {aside});
  std::vector<Untrainable> blocked;
  const auto result = gradients(builder, sum_of(builder, builder.add1("Exp", {x})), {x, aside}, &blocked);
  CHECK(result[0] != TensorId::None);
  CHECK(result[1] == TensorId::None);
  CHECK(blocked.empty());
}

TEST_CASE("nodes in the way of a gradient are named with their reason") {
  GraphBuilder builder;
  const TensorId x = builder.add_stored("x", {DType::F32, {2, 3}}, TensorRole::Parameter, {}),
                 labels = builder.add_input("labels", {DType::I64, {2}});
  // the second derivative of the loss is not built: a gradient through CrossEntropyGrad ends there
  const TensorId one = builder.add_constant("one", Value::scalar(1, DType::F64));
  const TensorId loss = sum_of(builder, builder.add1("CrossEntropyGrad", {x, labels, one}));
  std::vector<Untrainable> blocked;
  CHECK(gradients(builder, loss, {x}, &blocked)[0] == TensorId::None);
  REQUIRE(blocked.size() == 1);
  CHECK(schema(builder[blocked[0].node]).name == "CrossEntropyGrad");
  CHECK_THAT(blocked[0].reason, contains("second derivatives"));
}

TEST_CASE("what no wanted tensor leads to is in nobody's way") {
  GraphBuilder builder;
  const TensorId x = builder.add_stored("x", kPair, TensorRole::Parameter, {}), data = builder.add_input("data", kPair);
  const TensorId stopped = builder.add1("StopGradient", {data});
  std::vector<Untrainable> blocked;
  CHECK(gradients(builder, sum_of(builder, builder.add1("Mul", {x, stopped})), {x}, &blocked)[0] != TensorId::None);
  CHECK(blocked.empty());
  for (std::size_t n = 0; n < builder.node_count(); ++n) CHECK(builder[static_cast<NodeId>(n)].forward != builder[stopped].producer);
}

TEST_CASE("a gradient is added up where its product made it, before it is moved") {
  GraphBuilder builder;
  const TensorId x = builder.add_input("x", {DType::F32, {3, 4}}), product = builder.add1("Sigmoid", {x});
  const TensorId moved = builder.add1("Reshape", {builder.add1("Transpose", {product})}, {{"shape", std::vector<std::int64_t>{2, 6}}});
  CHECK(before_moves(builder, moved) == product);
  CHECK(before_moves(builder, product) == product);
  CHECK(before_moves(builder, builder.add1("Reshape", {x}, {{"shape", std::vector<std::int64_t>{12}}})) == x);
}

TEST_CASE("only a number is differentiated") {
  GraphBuilder builder;
  const TensorId x = builder.add_stored("x", kPair, TensorRole::Parameter, {}), n = builder.add_input("n", {DType::I64, {}});
  CHECK_THROWS_AS(gradients(builder, builder.add1("Sigmoid", {x}), {x}), InternalError);  // of two elements
  CHECK_THROWS_AS(gradients(builder, n, {x}), InternalError);
}

TEST_CASE("integer paths neither carry nor block a gradient") {
  GraphBuilder builder;
  const TensorId x = builder.add_stored("x", {DType::F32, {2, 3}}, TensorRole::Parameter, {});
  const TensorId labels = builder.add1("Cast", {sum_of(builder, x)}, {{"to", std::string("i64")}});
  const TensorId again = builder.add1("Cast", {labels}, {{"to", std::string("f32")}});
  std::vector<Untrainable> blocked;
  CHECK(gradients(builder, builder.add1("Mul", {again, again}), {x}, &blocked)[0] == TensorId::None);
  CHECK(blocked.empty());
}
