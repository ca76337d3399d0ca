#pragma once
// A gradient case as a graph with its values.

#include <map>
#include <string>
#include <vector>

#include "graph/gradient.hpp"
#include "tests/exec/gradients.hpp"

namespace rehearsal::exec {

/// The cases of all families.
[[nodiscard]] GradientCases all_gradient_cases();

/// Operands x0, x1, ...; floating-point results weighted with fixed numbers; their sum is the loss; gradients of all drawn operands.
class GradientProblem {
 public:
  explicit GradientProblem(const GradientCase& one);

  [[nodiscard]] const graph::Graph& graph() const { return graph_; }
  /// Names of the operands that are differentiated.
  [[nodiscard]] const std::vector<std::string>& wanted() const { return wanted_; }
  [[nodiscard]] graph::TensorId loss() const { return graph_.outputs()[0]; }
  [[nodiscard]] graph::TensorId gradient(std::size_t i) const { return graph_.outputs()[i + 1]; }  ///< of wanted()[i]
  [[nodiscard]] std::vector<double> values(const std::string& input) const { return values_.at(input); }
  /// Of an exec::Interpreter; a template so that tests of graph/ can have the cases, too.
  template <class Player>
  void set_inputs(Player& player) const {
    for (const graph::TensorId input : graph_.inputs()) player.set_reals(input, values_.at(graph_[input].name));
  }

 private:
  graph::TensorId add_operand(graph::GraphBuilder& builder, const GradientOperand& operand);
  graph::TensorId add_loss(graph::GraphBuilder& builder, const std::vector<graph::TensorId>& results);

  std::map<std::string, std::vector<double>> values_;  ///< of the inputs
  std::vector<std::string> wanted_;
  graph::Graph graph_;
};

}  // namespace rehearsal::exec
