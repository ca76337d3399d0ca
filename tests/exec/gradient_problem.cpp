#include "tests/exec/gradient_problem.hpp"

#include <algorithm>
#include <cmath>

#include "base/random.hpp"
#include "tests/catch.hpp"

namespace rehearsal::exec {

using graph::TensorId;
using Kind = GradientOperand::Kind;

namespace {

constexpr GradientCases (*kFamilies[])() = {elementwise_cases,   matrix_cases,    delta_rule_cases, reduction_cases,   movement_cases,
                                            gather_cases,        selection_cases, softmax_cases,    convolution_cases, pooling_cases,
                                            normalization_cases, resize_cases,    dropout_cases,    loss_cases};

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

}  // namespace

GradientCases all_gradient_cases() {
  GradientCases cases;
  for (const auto family : kFamilies) {
    for (auto& one : family()) cases.push_back(std::move(one));
  }
  return cases;
}

GradientProblem::GradientProblem(const GradientCase& one) {
  graph::GraphBuilder builder;
  std::vector<TensorId> operands, wanted;
  for (const GradientOperand& operand : one.operands) operands.push_back(add_operand(builder, operand));
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (one.operands[i].kind == Kind::Drawn) wanted.push_back(operands[i]);
  }
  const TensorId loss =
      add_loss(builder, one.build ? one.build(builder, operands, one.attributes) : builder.add(one.op, operands, one.attributes));
  std::vector<graph::Untrainable> blocked;
  std::vector<TensorId> outputs = differentiate(builder, loss, wanted, blocked);
  REQUIRE(blocked.empty());
  for (const TensorId t : outputs) REQUIRE(t != TensorId::None);
  for (const TensorId t : wanted) wanted_.push_back(builder[t].name);
  outputs.insert(outputs.begin(), loss);
  builder.set_outputs(std::move(outputs));
  graph_ = std::move(builder).build();
}

TensorId GradientProblem::add_operand(graph::GraphBuilder& builder, const GradientOperand& operand) {
  if (operand.kind == Kind::Absent) return TensorId::None;
  const std::string name = "x" + std::to_string(values_.size());
  const bool given = operand.kind == Kind::Integers || operand.kind == Kind::Truths;
  values_[name] = given ? std::vector<double>(operand.integers.begin(), operand.integers.end()) : draw(operand, values_.size());
  const DType type = operand.kind == Kind::Integers ? DType::I64 : operand.kind == Kind::Truths ? DType::Bool : DType::F64;
  return builder.add_input(name, {type, operand.shape});
}

TensorId GradientProblem::add_loss(graph::GraphBuilder& builder, const std::vector<TensorId>& results) {
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

}  // namespace rehearsal::exec
