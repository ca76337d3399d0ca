#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "exec/play/interpreter.hpp"
#include "tests/catch.hpp"
#include "tests/exec/gradient_problem.hpp"

namespace rehearsal::exec {
namespace {

using graph::TensorId;

/// d loss / d operand by differences: (f(x + h) - f(x - h)) / 2h has an error of order h^2, rounding one of order 1e-16 / h.
std::vector<double> differences(const GradientProblem& problem, Interpreter& interpreter, const std::string& name) {
  constexpr double kStep = 1e-5;
  const TensorId input = problem.graph().find(name);
  std::vector<double> x = problem.values(name), slopes;
  const auto loss_at = [&](std::size_t i, double value) {
    const double kept = std::exchange(x[i], value);
    interpreter.set_reals(input, x);
    interpreter.run();
    x[i] = kept;
    return interpreter.get_reals(problem.loss())[0];
  };
  for (std::size_t i = 0; i < x.size(); ++i) slopes.push_back((loss_at(i, x[i] + kStep) - loss_at(i, x[i] - kStep)) / (2 * kStep));
  interpreter.set_reals(input, x);
  return slopes;
}

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double difference = std::abs(a[i] - b[i]);
    largest = std::isnan(difference) ? INFINITY : std::max(largest, difference);
  }
  return largest;
}

void check(const GradientCase& one) {
  const GradientProblem problem(one);
  Interpreter interpreter(problem.graph());
  problem.set_inputs(interpreter);
  interpreter.run();
  std::vector<std::vector<double>> gradients;
  for (std::size_t i = 0; i < problem.wanted().size(); ++i) gradients.push_back(interpreter.get_reals(problem.gradient(i)));
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    INFO("operand " << problem.wanted()[i]);
    const auto expected = differences(problem, interpreter, problem.wanted()[i]);
    double scale = 1;
    for (const double slope : expected) scale = std::max(scale, std::abs(slope));
    REQUIRE(gradients[i].size() == expected.size());
    CHECK(largest_difference(gradients[i], expected) <= one.tolerance * scale);
  }
}

}  // namespace

TEST_CASE("gradients agree with finite differences") {
  std::size_t number = 0;  // sections of one name would count as one
  for (const GradientCase& one : all_gradient_cases()) {
    DYNAMIC_SECTION(++number << " " << one.op << " " << one.attributes.to_text()) {
      if (one.operands.empty()) FAIL("a case without operands tests nothing");
      check(one);
    }
  }
}

TEST_CASE("a gradient is the same when it is the only one that is asked for") {
  using Kind = GradientOperand::Kind;
  const auto gradients_of = [](const GradientCase& one) {
    const GradientProblem problem(one);
    Interpreter interpreter(problem.graph());
    problem.set_inputs(interpreter);
    interpreter.run();
    std::vector<std::vector<double>> gradients;
    for (std::size_t i = 0; i < problem.wanted().size(); ++i) gradients.push_back(interpreter.get_reals(problem.gradient(i)));
    return gradients;
  };
  std::size_t alone = 0;
  for (const GradientCase& all : all_gradient_cases()) {
    const auto drawn = std::ranges::count(all.operands, Kind::Drawn, &GradientOperand::kind);
    if (drawn < 2) continue;
    const auto together = gradients_of(all);
    std::size_t number = 0;
    for (std::size_t i = 0; i < all.operands.size(); ++i) {
      if (all.operands[i].kind != Kind::Drawn) continue;
      INFO(all.op << " " << all.attributes.to_text() << ", operand " << i);
      GradientCase one = all;
      for (std::size_t other = 0; other < one.operands.size(); ++other)
        if (other != i && one.operands[other].kind == Kind::Drawn) one.operands[other].kind = Kind::Fixed;
      CHECK(largest_difference(gradients_of(one).at(0), together.at(number++)) <= 1e-12);
      ++alone;
    }
  }
  CHECK(alone > 50);
}

TEST_CASE("every row with a gradient has a case, every other row says why it has none") {
  std::set<std::string, std::less<>> covered;
  for (const GradientCase& one : all_gradient_cases()) covered.insert(one.op);
  for (const graph::OpSchema& row : graph::op_table()) {
    INFO(row.name);
    if (row.gradient) {
      CHECK(covered.contains(row.name));
    } else {
      CHECK(!row.no_gradient.empty());
    }
  }
}

}  // namespace rehearsal::exec
