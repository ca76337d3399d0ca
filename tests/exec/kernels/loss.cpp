#include <cmath>

#include "base/error.hpp"
#include "exec/play/interpreter.hpp"
#include "graph/training.hpp"
#include "tests/catch.hpp"

using namespace rehearsal;
using namespace rehearsal::exec;
using graph::TensorId, graph::Shape;
using Values = std::vector<double>;

namespace {

struct LossAndGradient {
  double loss;
  Values gradient;
};

/// The loss of `prediction`, and its derivative by the prediction: read off as lr 1 SGD's step of a parameter of that shape.
LossAndGradient evaluate(const std::string& loss, const Shape& shape, const Values& prediction, const Values& target) {
  graph::GraphBuilder builder;
  const auto contents = graph::contents_of(graph::Value::of_reals(prediction, shape, DType::F64));
  const TensorId p = builder.add_stored("p", {DType::F64, shape}, graph::TensorRole::Parameter, contents);
  builder.set_outputs({p});
  graph::TrainingOptions options;
  options.loss = loss;
  const auto training = graph::build_training_graph(std::move(builder).build(), options);
  Interpreter interpreter(training.graph);
  interpreter.set_reals(training.target, target);
  interpreter.run();
  return {interpreter.get_reals(training.loss)[0], interpreter.get_reals(training.parameters[0].gradient)};
}

void check(const LossAndGradient& got, double loss, const Values& gradient) {
  CHECK(got.loss == Approx(loss).epsilon(1e-12));
  REQUIRE(got.gradient.size() == gradient.size());
  for (std::size_t i = 0; i < gradient.size(); ++i) CHECK(got.gradient[i] == Approx(gradient[i]).margin(1e-14).epsilon(1e-12));
}

const double kLog3 = std::log(3.0);

}  // namespace

TEST_CASE("cross-entropy is the mean over the labels that are not ignored") {
  // softmax of {0, ln 3} = {1/4, 3/4}: labels 1 and 0 cost ln 4/3 and ln 4; the third is ignored
  check(evaluate("cross-entropy", {3, 2}, {0, kLog3, 0, kLog3, 5, -5}, {1, 0, -100}), (std::log(4.0 / 3) + std::log(4.0)) / 2,
        {0.125, -0.125, -0.375, 0.375, 0, 0});
}

TEST_CASE("cross-entropy takes classes on axis 1 of images and last of sequences") {
  // [1, 2, 1, 2]: pixel 0 has scores {0, ln 3}, pixel 1 {ln 3, 0}; labels 1, 1
  check(evaluate("cross-entropy", {1, 2, 1, 2}, {0, kLog3, kLog3, 0}, {1, 1}), (std::log(4.0 / 3) + std::log(4.0)) / 2,
        {0.125, 0.375, -0.125, -0.375});
  // [1, 2, 2]: token 0 has scores {0, ln 3}, token 1 {ln 3, 0}
  check(evaluate("cross-entropy", {1, 2, 2}, {0, kLog3, kLog3, 0}, {1, 1}), (std::log(4.0 / 3) + std::log(4.0)) / 2,
        {0.125, -0.125, 0.375, -0.375});
}

TEST_CASE("cross-entropy survives large scores") {
  // differences only count: {1000, 1000 + ln 3} is {0, ln 3}
  check(evaluate("cross-entropy", {1, 2}, {1000, 1000 + kLog3}, {0}), 1000 + std::log(4.0) - 1000, {-0.75, 0.75});
}

TEST_CASE("a label that is no class is refused") {
  CHECK_THROWS_WITH(evaluate("cross-entropy", {1, 2}, {0, 0}, {2}), contains("label 2") && contains("2 classes"));
  CHECK_THROWS_AS(evaluate("cross-entropy", {1, 2}, {0, 0}, {-1}), BadInput);
}

TEST_CASE("negative log likelihood takes log-probabilities as they are") {
  check(evaluate("nll", {2, 2}, {-1, -2, -3, -4}, {0, 1}), (1 + 4) / 2.0, {-0.5, 0, 0, -0.5});
}

TEST_CASE("losses of differences") {
  // differences 0.5, -3
  check(evaluate("mse", {1, 2}, {1.5, -1}, {1, 2}), (0.25 + 9) / 2, {0.5, -3});
  check(evaluate("l1", {1, 2}, {1.5, -1}, {1, 2}), 3.5 / 2, {0.5, -0.5});
  // Huber: 0.5 * 0.25 = 0.125; 1 * (3 - 0.5) = 2.5
  check(evaluate("huber", {1, 2}, {1.5, -1}, {1, 2}), 2.625 / 2, {0.25, -0.5});
}

TEST_CASE("binary cross-entropy of logits") {
  // sigmoid(ln 3) = 3/4, sigmoid(0) = 1/2; targets 1, 0.5: -ln 3/4 and ln 2
  check(evaluate("bce", {1, 2}, {kLog3, 0}, {1, 0.5}), (-std::log(0.75) + std::log(2.0)) / 2, {-0.125, 0});
  CHECK(evaluate("bce", {1, 1}, {-800}, {1}).loss == Approx(800));  // exp(800) overflows, the loss does not
}

TEST_CASE("Kullback-Leibler divergence of log-probabilities") {
  // targets 0.5 and 0: 0.5 (ln 0.5 + 1) + 0
  check(evaluate("kl", {1, 2}, {-1, -2}, {0.5, 0}), 0.5 * (std::log(0.5) + 1) / 2, {-0.25, 0});
}

TEST_CASE("dice is the mean over samples and channels") {
  // p = {3/4, 1/2}, t = {1, 0}: 1 - (1.5 + e) / (1.25 + 1 + e); d/dp_i = -(2 t_i den - num) / den^2, times p (1 - p)
  const double e = 1e-5, num = 1.5 + e, den = 2.25 + e;
  check(evaluate("dice", {1, 1, 2}, {kLog3, 0}, {1, 0}), 1 - num / den, {-(2 * den - num) / (den * den) * 3 / 16, num / (den * den) / 4});
}
