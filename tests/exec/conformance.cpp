// The checks by which conformance is judged find what is wrong, and accept what must be accepted.
#include "exec/conformance.hpp"

#include "graph/builder.hpp"
#include "tests/catch.hpp"

namespace rehearsal::exec {
namespace {

using graph::TensorId;
using graph::Value;

/// y = op(x) of one operand of rank 1.
graph::Graph one_node(const char* op, std::int64_t size, const graph::Attributes& attributes = {}) {
  graph::GraphBuilder builder;
  const TensorId x = builder.add_input("x", {DType::F32, {size}});
  const TensorId y = builder.add(op, {x}, attributes, {"y", graph::Phase::Forward, graph::NodeId::None, {"y"}}).front();
  builder.set_outputs({y});
  return std::move(builder).build();
}

std::vector<Fed> fed(const char* name, std::vector<double> values) {
  const auto size = static_cast<std::int64_t>(values.size());
  return {{name, Value::of_reals(std::move(values), {size})}};
}

}  // namespace

TEST_CASE("a result is compared by type, shape and value") {
  const graph::Graph graph = one_node("Neg", 2);
  const auto x = fed("x", {1, -2});
  CHECK_FALSE(forward_difference(graph, x, fed("y", {-1, 2}), {}));
  CHECK_FALSE(forward_difference(graph, x, fed("y", {-1.0005, 2}), {1e-3, 0}));
  CHECK(forward_difference(graph, x, fed("y", {-1.002, 2}), {1e-3, 0}).value().find("element 0") != std::string::npos);
  CHECK(forward_difference(graph, x, fed("y", {-1, 2, 0}), {}).value().find("f32[2]") != std::string::npos);
  CHECK(forward_difference(graph, x, fed("z", {-1, 2}), {}).value().find("not computed") != std::string::npos);
  CHECK(forward_difference(graph, x, fed("y", {-1, std::nan("")}), {}));
}

TEST_CASE("gradients at smooth points, kinks and jumps") {
  CHECK(check_gradient(one_node("Tanh", 3), fed("x", {-1, 0.5, 2})).verdict == GradientVerdict::Agrees);
  // at its kink Relu has slope 0, between 0 and 1
  CHECK(check_gradient(one_node("Relu", 2), fed("x", {0, 1})).verdict == GradientVerdict::Agrees);
  // Sign jumps at 0, which is left out, and is constant at 3
  const auto sign = check_gradient(one_node("Sign", 2), fed("x", {0, 3}));
  CHECK(sign.verdict == GradientVerdict::Agrees);
  CHECK(sign.entries == 1);
  CHECK(check_gradient(one_node("Sign", 1), fed("x", {0})).verdict == GradientVerdict::NotDifferentiable);
  CHECK(check_gradient(one_node("IsNaN", 1), fed("x", {0})).verdict == GradientVerdict::NotDifferentiable);
}

TEST_CASE("a gradient that is no derivative is found") {
  // Dropout draws: nothing can be said
  CHECK(check_gradient(one_node("Dropout", 1, {{"ratio", 0.0}, {"stream", std::int64_t{1}}}), fed("x", {1})).verdict ==
        GradientVerdict::NotDifferentiable);
  // of two equal maxima both get half, between the one-sided differences 0 and 1
  CHECK(check_gradient(one_node("ReduceMax", 2, {{"keepdims", std::int64_t{1}}}), fed("x", {1, 1})).verdict == GradientVerdict::Agrees);
  // two updates of one place: each gets the gradient, as in PyTorch, though only the last one counts
  graph::GraphBuilder builder;
  const TensorId updates = builder.add_input("x", {DType::F32, {2}});
  const TensorId data = builder.add_constant("data", Value::of_reals({1, 2, 3}, {3}));
  const TensorId places = builder.add_constant("places", Value::vector({1, 1}));
  builder.set_outputs({builder.add1("ScatterElements", {data, places, updates})});
  const GradientCheck check = check_gradient(std::move(builder).build(), fed("x", {5, 6}));
  CHECK(check.verdict == GradientVerdict::Differs);
  CHECK(check.reason.find("x[0]") != std::string::npos);
}

}  // namespace rehearsal::exec
