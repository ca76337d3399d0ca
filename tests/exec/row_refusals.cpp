// What no row of the operator table takes: every node of every gradient case, forward and backward, with operands that are wrong.

#include <map>
#include <set>

#include "base/error.hpp"
#include "tests/catch.hpp"
#include "tests/exec/gradient_problem.hpp"

namespace rehearsal::exec {
namespace {

using Operands = std::vector<std::optional<graph::TensorType>>;

/// Does the row refuse these operands, by a message that says what is wrong?
bool refuses(const graph::OpSchema& row, const graph::Node& node, const Operands& operands) {
  try {
    (void)row.infer({operands, {}, node.attributes});
    return false;
  } catch (const BadInput& error) {
    return *error.what() != '\0';
  }
}

/// Calls with every node of every case, its row and its operands.
template <class Each>
void for_every_node(Each&& each) {
  for (const GradientCase& one : all_gradient_cases()) {
    const GradientProblem problem(one);
    for (const graph::Node& node : problem.graph().nodes()) {
      const graph::NodeTypes types(problem.graph(), node);
      each(graph::schema(node), node, Operands(types.view().inputs.begin(), types.view().inputs.end()));
    }
  }
}

using Operand = std::pair<std::string_view, std::size_t>;

std::string text_of(const std::set<Operand>& operands) {
  std::string text;
  for (const auto& [row, operand] : operands) text += std::string(row) + " " + std::to_string(operand) + "\n";
  return text;
}

/// Operands of rows that models have (not of gradients, which are our own nodes) that the row takes when `change` has made them wrong.
template <class Change>
std::set<Operand> taken_after(Change&& change) {
  std::set<Operand> taken;
  for_every_node([&](const graph::OpSchema& row, const graph::Node& node, const Operands& operands) {
    if (operands.size() < 2 || !row.gradient) return;
    for (std::size_t i = 0; i < operands.size(); ++i) {
      auto wrong = operands;
      if (operands[i] && change(row, *wrong[i]) && !refuses(row, node, wrong)) taken.insert({row.name, i});
    }
  });
  return taken;
}

}  // namespace

TEST_CASE("no row takes more operands than it has, or none where it has some") {
  for_every_node([](const graph::OpSchema& row, const graph::Node& node, Operands operands) {
    INFO(row.name << " of " << operands.size() << " operands " << node.attributes.to_text());
    if (operands.empty()) return;
    CHECK(refuses(row, node, {}));
    CHECK(refuses(row, node, Operands(operands.size())));
    const auto first = operands.front();
    // One that is optional, as a bias, cannot be like the first.
    for (int n = 0; n < 4; ++n) {
      operands.push_back(first);
      if (row.name != "Concat") CHECK(refuses(row, node, operands));
    }
  });
}

TEST_CASE("operands of another type than the others are refused") {
  const auto with = [](DType other) {
    return taken_after(
        [other](const graph::OpSchema&, graph::TensorType& type) { return type.dtype == DType::F64 && (type.dtype = other, true); });
  };
  // What is picked from may be of any type, whatever the indices are. Losses are summed in f64 whatever floats scores and weights are.
  const std::set<Operand> picked{{"Gather", 0}, {"GatherElements", 0}, {"GatherND", 0}};
  std::set<Operand> floats{{"CrossEntropySum", 0}, {"CrossEntropySum", 2}, {"CrossEntropyWeight", 1}};
  floats.insert(picked.begin(), picked.end());
  CHECK(text_of(with(DType::I64)) == text_of(picked));
  CHECK(text_of(with(DType::F32)) == text_of(floats));
}

TEST_CASE("operands of another rank than the others are refused, where nothing is broadcast") {
  const auto taken = taken_after([](const graph::OpSchema& row, graph::TensorType& type) {
    type.shape.insert(type.shape.end(), {11, 13});
    return !has(row.traits, graph::Trait::Elementwise);
  });
  // Images have any number of axes, and so have class labels, data and indices.
  CHECK(text_of(taken) == text_of({{"BatchNormApply", 0},
                                   {"BatchNormInference", 0},
                                   {"CrossEntropyWeight", 0},
                                   {"Gather", 0},
                                   {"Gather", 1},
                                   {"GatherND", 0},
                                   {"GroupNormApply", 0}}));
}

}  // namespace rehearsal::exec
