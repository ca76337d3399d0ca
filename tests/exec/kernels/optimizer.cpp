#include <cmath>

#include "exec/play/interpreter.hpp"
#include "graph/training.hpp"
#include "tests/catch.hpp"
#include "tests/exec/kernels/one_node.hpp"

using namespace rehearsal;
using namespace rehearsal::exec;
using graph::Phase, graph::TensorId;

namespace {

/// Trains p = {1, -2} in f64 on the loss a0 p0 + a1 p1, whose gradient is a = {0.5, 1}; p after each step.
std::vector<std::vector<double>> train(const std::string& optimizer, std::map<std::string, double> values, int steps, double clip_norm = 0,
                                       double clip_value = 0) {
  graph::GraphBuilder builder;
  const TensorId a = builder.add_input("a", {DType::F64, {2}});
  const TensorId p = builder.add_stored("p", {DType::F64, {2}}, graph::TensorRole::Parameter,
                                        graph::contents_of(graph::Value::of_reals({1, -2}, {2}, DType::F64)));
  const TensorId product = builder.add1("Mul", {a, p});
  builder.set_outputs({builder
                           .add("ReduceSum", {product}, {{"axes", std::vector<std::int64_t>{0}}, {"keepdims", std::int64_t{0}}},
                                {"", Phase::Forward, graph::NodeId::None, {"loss"}})
                           .front()});
  graph::TrainingOptions options;
  options.optimizer = {optimizer, std::move(values)};
  options.clip_norm = clip_norm;
  options.clip_value = clip_value;
  const auto training = graph::build_training_graph(std::move(builder).build(), options);
  Interpreter interpreter(training.graph);
  interpreter.set_reals(training.graph.find("a"), std::vector<double>{0.5, 1});
  std::vector<std::vector<double>> history;
  for (int step = 0; step < steps; ++step) {
    interpreter.run(step);
    history.push_back(interpreter.get_reals(training.graph.find("p")));
  }
  return history;
}

void check(const std::vector<double>& got, double first, double second) {
  CHECK(got[0] == Approx(first).epsilon(1e-12));
  CHECK(got[1] == Approx(second).epsilon(1e-12));
}

}  // namespace

TEST_CASE("SGD with momentum and weight decay") {
  // decay 0.1: g = {0.5 + 0.1, 1 - 0.2} = {0.6, 0.8}; buffer = g; p = {1 - 0.06, -2 - 0.08}
  const auto p = train("sgd", {{"lr", 0.1}, {"momentum", 0.5}, {"weight_decay", 0.1}}, 2);
  check(p[0], 0.94, -2.08);
  // g = {0.594, 0.792}; buffer = {0.3 + 0.594, 0.4 + 0.792} = {0.894, 1.192}
  check(p[1], 0.94 - 0.0894, -2.08 - 0.1192);
}

TEST_CASE("SGD with Nesterov momentum looks ahead") {
  // step 1: buffer = g = {0.5, 1}; direction g + 0.5 buffer = {0.75, 1.5}
  const auto p = train("sgd", {{"lr", 0.1}, {"momentum", 0.5}, {"nesterov", 1}}, 2);
  check(p[0], 0.925, -2.15);
  // step 2: buffer = {0.75, 1.5}; direction = {0.875, 1.75}
  check(p[1], 0.925 - 0.0875, -2.15 - 0.175);
}

TEST_CASE("Adam corrects the bias of its moments") {
  // constant gradient g: m / (1 - b1^t) = g and v / (1 - b2^t) = g^2 in every step, so each step is lr g / (|g| + eps)
  const auto p = train("adam", {{"lr", 0.1}, {"eps", 0.5}}, 3);
  for (int t = 0; t < 3; ++t) check(p[t], 1 - (t + 1) * 0.1 * 0.5 / (0.5 + 0.5), -2 - (t + 1) * 0.1 * 1 / (1 + 0.5));
}

TEST_CASE("Adam adds the decay to the gradient, AdamW to the parameter") {
  // adam, one step: g = {0.5 + 0.1, 1 - 0.2} = {0.6, 0.8}: p - 0.1 g / (g + 0.4)
  check(train("adam", {{"lr", 0.1}, {"eps", 0.4}, {"weight_decay", 0.1}}, 1)[0], 1 - 0.1 * 0.6 / 1.0, -2 - 0.1 * 0.8 / 1.2);
  // adamw: p (1 - 0.01) - 0.1 g / (g + 0.5), g = {0.5, 1}
  check(train("adamw", {{"lr", 0.1}, {"eps", 0.5}, {"weight_decay", 0.1}}, 1)[0], 0.99 - 0.05, -1.98 - 0.1 / 1.5);
}

TEST_CASE("Adam's moments forget at their own rates") {
  // with decay the gradient changes: step 2 of p = 1, a = 0.5, lr 0.1, b1 0.5, b2 0.75, eps 0, decay 1.
  // step 1: g 1.5; m 0.75, v 0.25 * 2.25 = 0.5625; m/0.5 = 1.5, v/0.25 = 2.25: p = 1 - 0.1 = 0.9
  // step 2: g 1.4; m 0.375 + 0.7 = 1.075, v 0.421875 + 0.49 = 0.911875; m/0.75 = 1.4333.., v/0.4375 = 2.084285714..
  const auto p = train("adam", {{"lr", 0.1}, {"beta1", 0.5}, {"beta2", 0.75}, {"eps", 0}, {"weight_decay", 1}}, 2);
  CHECK(p[1][0] == Approx(0.9 - 0.1 * (1.075 / 0.75) / std::sqrt(0.911875 / 0.4375)).epsilon(1e-12));
}

TEST_CASE("NAdam mixes the gradient with its average by a rising momentum") {
  // b1 0.5, momentum_decay 1: mu_t = 0.5 (1 - 0.5 * 0.96^t) = {0.26, 0.2696, 0.278816}; products 0.26, 0.070096
  // a constant gradient: sqrt(v / (1 - b2^t)) = |g|; m = 0.5 g, then 0.75 g
  const auto p = train("nadam", {{"lr", 0.1}, {"beta1", 0.5}, {"eps", 0}, {"momentum_decay", 1}}, 2);
  const double first = 0.1 * (0.74 / 0.74 + 0.2696 / (1 - 0.26 * 0.2696) * 0.5);
  check(p[0], 1 - first, -2 - first);
  const double second = 0.1 * ((1 - 0.2696) / (1 - 0.070096) + 0.278816 / (1 - 0.070096 * 0.278816) * 0.75);
  check(p[1], 1 - first - second, -2 - first - second);
}

TEST_CASE("RMSprop divides by the root and then adds epsilon") {
  // square = 0.01 g^2, root 0.1 g: step 0.1 g / (0.1 g + 0.05): {0.05 / 0.1, 0.1 / 0.15}
  const auto p = train("rmsprop", {{"lr", 0.1}, {"eps", 0.05}, {"momentum", 0.5}}, 2);
  check(p[0], 1 - 0.5, -2 - 0.1 / 0.15);
  // step 2: square = 0.0199 g^2; buffer = half the last plus g / (sqrt(0.0199) g + 0.05)
  const double root = std::sqrt(0.0199);
  check(p[1], 0.5 - 0.1 * (0.5 * 5 + 0.5 / (0.5 * root + 0.05)), -2 - 0.1 / 0.15 - 0.1 * (0.5 / 0.15 + 1 / (root + 0.05)));
}

TEST_CASE("Adagrad sums squares") {
  // step t: g / (g sqrt(t))
  const auto p = train("adagrad", {{"lr", 0.1}, {"eps", 0}}, 2);
  check(p[0], 0.9, -2.1);
  check(p[1], 0.9 - 0.1 / std::sqrt(2.0), -2.1 - 0.1 / std::sqrt(2.0));
}

TEST_CASE("LARS scales the rate by the ratio of norms") {
  // |p| = sqrt 5, |g| = sqrt 1.25 = |p| / 2; local = 0.2 |p| / (|p|/2 + 0.5 |p|) = 0.2
  // v = 1 * 0.2 * (g + 0.5 p) = 0.2 {0.5 + 0.5, 1 - 1} = {0.2, 0}
  const auto p = train("lars", {{"lr", 1}, {"trust", 0.2}, {"momentum", 0.9}, {"weight_decay", 0.5}}, 2);
  check(p[0], 0.8, -2);
  // v2 = 0.9 {0.2, 0} + local2 (g + 0.5 p): local2 = 0.2 |p| / (|g| + 0.5 |p|), p = {0.8, -2}
  const double norm = std::sqrt(0.64 + 4), local = 0.2 * norm / (std::sqrt(1.25) + 0.5 * norm);
  check(p[1], 0.8 - 0.18 - local * 0.9, -2 - local * 0);
}

TEST_CASE("LAMB scales Adam's direction to the parameter's norm") {
  // step 1, eps 0: u = sign(g) + 0.5 p = {1 + 0.5, 1 - 1} = {1.5, 0}; |p| / |u| = sqrt 5 / 1.5
  check(train("lamb", {{"lr", 0.1}, {"eps", 0}, {"weight_decay", 0.5}}, 1)[0], 1 - 0.1 * std::sqrt(5.0), -2);
}

TEST_CASE("NovoGrad divides by the smoothed norm of the tensor") {
  // |g|^2 = 1.25 in every step, so v stays 1.25: m1 = g / sqrt 1.25 + 0.5 p, m2 = 0.5 m1 + g / sqrt 1.25 + 0.5 p1
  const double norm = std::sqrt(1.25), a = 0.5 / norm + 0.5, b = 1 / norm - 1;
  const auto p = train("novograd", {{"lr", 0.1}, {"beta1", 0.5}, {"beta2", 0.9}, {"eps", 0}, {"weight_decay", 0.5}}, 2);
  check(p[0], 1 - 0.1 * a, -2 - 0.1 * b);
  const double first = 1 - 0.1 * a, second = -2 - 0.1 * b;
  check(p[1], first - 0.1 * (0.5 * a + 0.5 / norm + 0.5 * first), second - 0.1 * (0.5 * b + 1 / norm + 0.5 * second));
}

TEST_CASE("gradients are clipped to a norm of all parameters together") {
  // |g| = sqrt 1.25; to 0.5: g times 0.5 / (sqrt 1.25 + 1e-6)
  const double factor = 0.5 / (std::sqrt(1.25) + 1e-6);
  check(train("sgd", {{"lr", 0.1}}, 1, 0.5)[0], 1 - 0.05 * factor, -2 - 0.1 * factor);
  // a norm below the limit stays
  check(train("sgd", {{"lr", 0.1}}, 1, 2)[0], 0.95, -2.1);
}

TEST_CASE("elements of gradients are clipped to a magnitude, before the norm") {
  // g = {0.5, 1} becomes {0.5, 0.75}
  check(train("sgd", {{"lr", 0.1}}, 1, 0, 0.75)[0], 0.95, -2.075);
  // then |g| = sqrt(0.25 + 0.5625) to 0.5
  const double factor = 0.5 / (std::sqrt(0.8125) + 1e-6);
  check(train("sgd", {{"lr", 0.1}}, 1, 0.5, 0.75)[0], 1 - 0.05 * factor, -2 - 0.075 * factor);
}

TEST_CASE("an update reads gradients in bf16 and rounds the parameter that it leaves in f32") {
  // lr 2^-9: 1 - 2^-9 lies halfway between 1 - 2^-8 and 1, which is even; 1 - 2^-9 * 2 is 1 - 2^-8, a number of bf16
  const Array p{{2}, {1, 1}, DType::F32}, g{{2}, {1, 2}, DType::BF16}, step{{}, {1}, DType::I64};
  const graph::Attributes sgd{{"lr", 0x1p-9}, {"rounded_to", std::string("bf16")}};
  const auto plain = run({"SgdUpdate", sgd, {p, g, step}});
  REQUIRE(plain.size() == 2);
  CHECK(plain[0].values == std::vector<double>{1 - 0x1p-9, 1 - 0x1p-8});
  CHECK(plain[1].values == std::vector<double>{1, 1 - 0x1p-8});
  // momentum 0.5 from 2: buffers 2 and 3; p = 1 - 2 * 2^-9 and 1 - 3 * 2^-9, halfway between 1 - 2^-7 and 1 - 2^-8, of which 1 - 2^-7 is
  // even
  auto momentum = sgd;
  momentum.set("momentum", 0.5);
  const auto moved = run({"SgdUpdate", momentum, {p, g, step, Array{{2}, {2, 2}, DType::F32}}});
  REQUIRE(moved.size() == 3);
  CHECK(moved[0].values == std::vector<double>{1 - 0x1p-8, 1 - 3 * 0x1p-9});
  CHECK(moved[1].values == std::vector<double>{2, 3});
  CHECK(moved[2].values == std::vector<double>{1 - 0x1p-8, 1 - 0x1p-7});
}

TEST_CASE("in 16 bits an optimizer of one operator updates without casts, and steps as with them") {
  // Every optimizer that is one node: that of the table below, from p = {1, -2} with gradients of a product in bf16.
  for (const auto& row : graph::optimizer_table()) {
    if (row.build != nullptr) continue;
    INFO(row.name);
    graph::GraphBuilder builder;
    const TensorId a = builder.add_input("a", {DType::BF16, {2}});
    const TensorId p = builder.add_stored("p", {DType::BF16, {2}}, graph::TensorRole::Parameter,
                                          graph::contents_of(graph::Value::of_reals({1, -2}, {2}, DType::F32)));
    const TensorId product = builder.add1("Mul", {a, p});
    builder.set_outputs({builder
                             .add("ReduceSum", {product}, {{"axes", std::vector<std::int64_t>{0}}, {"keepdims", std::int64_t{0}}},
                                  {"", Phase::Forward, graph::NodeId::None, {"loss"}})
                             .front()});
    graph::TrainingOptions options;
    options.optimizer = {std::string(row.name), {}};
    const auto training = graph::build_training_graph(std::move(builder).build(), options);
    for (const auto& node : training.graph.nodes())
      if (node.phase == Phase::Update) CHECK(graph::schema(node).name != "Cast");
    Interpreter interpreter(training.graph);
    interpreter.set_reals(training.graph.find("a"), std::vector<double>{0.5, 1});
    for (int step = 0; step < 3; ++step) {
      interpreter.run(step);
      const auto master = interpreter.get_reals(training.graph.find("p.master")), rounded = interpreter.get_reals(training.graph.find("p"));
      for (std::size_t i = 0; i < 2; ++i) {
        CHECK(std::abs(rounded[i] - master[i]) <= 0x1p-8 * std::abs(master[i]));  // half a unit of 8 digits
        CHECK(std::abs(master[i]) != (i == 0 ? 1 : 2));
      }
    }
  }
}
