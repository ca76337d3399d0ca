#include "tests/exec/gradients.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "base/random.hpp"
#include "exec/interpreter.hpp"
#include "graph/gradient.hpp"
#include "tests/catch.hpp"

namespace rehearsal::exec {
namespace {

using graph::TensorId;
using Kind = GradientOperand::Kind;

constexpr GradientCases (*kFamilies[])() = {elementwise_cases, matrix_cases, reduction_cases, movement_cases, gather_cases, softmax_cases,
                                          convolution_cases, pooling_cases, normalization_cases, resize_cases, dropout_cases};

GradientCases all_cases() {
  GradientCases cases;
  for (const auto family : kFamilies) {
    for (auto& one : family()) cases.push_back(std::move(one));
  }
  return cases;
}

/// Numbers that depend on the stream only.
std::vector<double> draw(const GradientOperand& operand, std::uint64_t stream) {
  std::vector<double> values;
  const std::int64_t count = graph::element_count(operand.shape);
  for (std::uint64_t i = 0; static_cast<std::int64_t>(values.size()) < count; ++i) {
    const double x = operand.low + (operand.high - operand.low) * random_uniform(7, stream, i);
    const bool near_kink = std::any_of(operand.kinks.begin(), operand.kinks.end(), [x](double kink) { return std::abs(x - kink) < 0.05; });
    if (!near_kink) values.push_back(x);
  }
  return values;
}

/// A case as a graph: operands x0, x1, ...; results weighted with w0, w1, ...; their sum is the loss.
class Problem {
 public:
  explicit Problem(const GradientCase& one) {
    graph::GraphBuilder builder;
    std::vector<TensorId> operands, wanted;
    for (const GradientOperand& operand : one.operands) operands.push_back(add_operand(builder, operand));
    for (std::size_t i = 0; i < operands.size(); ++i) {
      if (one.operands[i].kind == Kind::Drawn) wanted.push_back(operands[i]);
    }
    const TensorId loss = add_loss(builder, one.build ? one.build(builder, operands, one.attributes) : builder.add(one.op, operands, one.attributes));
    const auto gradients = differentiate(builder, loss, wanted, blocked_);
    std::vector<TensorId> outputs = {loss};
    outputs.insert(outputs.end(), gradients.begin(), gradients.end());
    keep_names(builder, wanted, outputs);
    builder.set_outputs(outputs);
    graph_ = std::move(builder).build();
  }

  [[nodiscard]] const graph::Graph& graph() const { return graph_; }
  [[nodiscard]] const std::vector<graph::Untrainable>& blocked() const { return blocked_; }
  [[nodiscard]] const std::vector<std::string>& wanted() const { return wanted_; }
  [[nodiscard]] TensorId gradient(std::size_t i) const { return graph_.outputs()[i + 1]; }
  [[nodiscard]] TensorId loss() const { return graph_.outputs()[0]; }
  /// Values of an input by name: empty for integers, whose values set_inputs() knows.
  [[nodiscard]] std::vector<double> values(const std::string& name) const { return values_.at(name); }
  void set_inputs(Interpreter& interpreter) const {
    for (const TensorId input : graph_.inputs()) interpreter.set_reals(input, values_.at(graph_[input].name));
  }

 private:
  TensorId add_operand(graph::GraphBuilder& builder, const GradientOperand& operand) {
    if (operand.kind == Kind::Absent) return TensorId::None;
    const std::string name = "x" + std::to_string(values_.size());
    const bool given = operand.kind == Kind::Integers || operand.kind == Kind::Truths;
    values_[name] = given ? std::vector<double>(operand.integers.begin(), operand.integers.end()) : draw(operand, values_.size());
    const DType type = operand.kind == Kind::Integers ? DType::I64 : operand.kind == Kind::Truths ? DType::Bool : DType::F64;
    return builder.add_input(name, {type, operand.shape});
  }

  TensorId add_loss(graph::GraphBuilder& builder, const std::vector<TensorId>& results) {
    TensorId loss = TensorId::None;
    for (const TensorId result : results) {
      if (result == TensorId::None || !is_float(builder.type(result).dtype)) continue;
      const std::string name = "w" + std::to_string(values_.size());
      const graph::TensorType type = builder.type(result);
      values_[name] = draw(drawn(type.shape), 100 + values_.size());
      const TensorId weighted = builder.add1("Mul", {result, builder.add_input(name, type)});
      const TensorId sum = builder.add1("ReduceSum", {weighted}, {{"keepdims", std::int64_t{0}}});
      loss = loss == TensorId::None ? sum : builder.add1("Add", {loss, sum});
    }
    return loss;
  }

  void keep_names(const graph::GraphBuilder& builder, const std::vector<TensorId>& wanted, const std::vector<TensorId>& outputs) {
    REQUIRE(blocked_.empty());
    for (const TensorId t : outputs) REQUIRE(t != TensorId::None);
    for (const TensorId t : wanted) wanted_.push_back(builder[t].name);
  }

  std::map<std::string, std::vector<double>> values_;  ///< of the inputs
  std::vector<std::string> wanted_;
  std::vector<graph::Untrainable> blocked_;
  graph::Graph graph_;
};

/// d loss / d operand by differences: (f(x + h) - f(x - h)) / 2h has an error of order h^2, rounding one of order 1e-16 / h.
std::vector<double> differences(const Problem& problem, Interpreter& interpreter, const std::string& name) {
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
  const Problem problem(one);
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
  for (const GradientCase& one : all_cases()) {
    DYNAMIC_SECTION(++number << " " << one.op << " " << one.attributes.to_text()) {
      if (one.operands.empty()) FAIL("a case without operands tests nothing");
      check(one);
    }
  }
}

TEST_CASE("every row with a gradient has a case, every other row says why it has none") {
  std::set<std::string, std::less<>> covered;
  for (const GradientCase& one : all_cases()) covered.insert(one.op);
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
