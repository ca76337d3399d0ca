// What no row of the operator table takes: every node of every gradient case, forward and backward, with operands that are wrong.

#include <set>

#include "base/error.hpp"
#include "graph/training.hpp"
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

using Rows = std::set<std::string_view>;
Rows operator+(Rows some, const Rows& more) {
  some.insert(more.begin(), more.end());
  return some;
}

/// Calls with every node of a graph, its row and its operands.
template <class Each>
void for_nodes(const graph::Graph& graph, Each&& each) {
  for (const graph::Node& node : graph.nodes()) {
    const graph::NodeTypes types(graph, node);
    each(graph::schema(node), node, Operands(types.view().inputs.begin(), types.view().inputs.end()));
  }
}

/// The same with those of every gradient case.
template <class Each>
void for_every_node(Each&& each) {
  for (const GradientCase& one : all_gradient_cases()) for_nodes(GradientProblem(one).graph(), each);
}

/// The training of three matrices and a bias under an optimizer, with everything that may be asked for beside its update. Some optimizers
/// have an update of their own for the matrix in the middle.
graph::TrainingGraph trained_by(const graph::OptimizerRow& optimizer) {
  graph::GraphBuilder builder;
  const auto x = builder.add_input("x", {DType::F32, {4, 3}});
  const auto weight = [&](const char* name, graph::Shape shape) {
    return builder.add_stored(name, {DType::F32, std::move(shape)}, graph::TensorRole::Parameter, {});
  };
  auto y = builder.add1("MatMul", {builder.add1("MatMul", {x, weight("first", {3, 4})}), weight("middle", {4, 5})});
  y = builder.add1("MatMul", {y, weight("last", {5, 2})});
  builder.set_outputs({builder.add1("Add", {y, weight("bias", {2})})});
  graph::TrainingOptions options;
  options.optimizer.name = optimizer.name;
  options.clip_norm = 1;
  options.clip_value = 1;
  options.noise_scale = true;
  return graph::build_training_graph(std::move(builder).build(), options);
}

/// Calls with the nodes of which only updates are made, by every optimizer.
template <class Each>
void for_update_nodes(Each&& each) {
  for (const graph::OptimizerRow& optimizer : graph::optimizer_table()) {
    for_nodes(trained_by(optimizer).graph, [&](const graph::OpSchema& row, const graph::Node& node, const Operands& operands) {
      if (node.phase == graph::Phase::Update && !row.gradient) each(row, node, operands);
    });
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

TEST_CASE("an update has all of its operands") {
  Rows fewer, more;
  for_update_nodes([&](const graph::OpSchema& row, const graph::Node& node, Operands operands) {
    INFO(row.name << " of " << operands.size() << " operands");
    CHECK(refuses(row, node, {}));
    auto cut = operands;
    cut.pop_back();
    if (!refuses(row, node, cut)) fewer.insert(row.name);
    operands.push_back(operands.front());
    if (!refuses(row, node, operands)) more.insert(row.name);
  });
  // These keep as much state as their settings ask for, and Adafactor's variance is whole or in rows and columns.
  const Rows any{"AdadeltaUpdate", "AdafactorDirection", "AdagradUpdate", "AdamUpdate",    "AdamaxUpdate", "AsgdUpdate", "LambDirection",
                 "LionUpdate",     "NadamUpdate",        "RadamUpdate",   "RmspropUpdate", "RpropUpdate",  "SgdUpdate",  "SoapDirection"};
  CHECK(fewer == any);
  // A trust ratio is of one state as well as of two.
  CHECK(more == Rows(any) + Rows{"LambUpdate", "LarsUpdate"});
}

TEST_CASE("an update refuses numbers of another type, and state of another shape") {
  std::set<Operand> types, shapes;
  for_update_nodes([&](const graph::OpSchema& row, const graph::Node& node, const Operands& operands) {
    for (std::size_t i = 0; i < operands.size(); ++i) {
      if (!operands[i]) continue;
      auto wrong = operands;
      wrong[i]->dtype = operands[i]->dtype == DType::I64 ? DType::F32 : DType::I64;
      if (!refuses(row, node, wrong)) types.insert({row.name, i});
      wrong = operands;
      wrong[i]->shape.push_back(7);
      if (!refuses(row, node, wrong)) shapes.insert({row.name, i});
    }
  });
  CHECK(text_of(types) == "");
  CHECK(text_of(shapes) == text_of({{"DivergenceClip", 0}, {"DivideByNorm", 0}, {"SquaredNorm", 0}}));  // norms and products of any shape
}

TEST_CASE("what computes with fractions refuses whole numbers") {
  Rows taken;
  for_every_node([&](const graph::OpSchema& row, const graph::Node& node, const Operands& operands) {
    auto wrong = operands;
    for (auto& type : wrong) {
      if (type && is_float(type->dtype)) type->dtype = DType::I64;
    }
    if (row.gradient && wrong != operands && !refuses(row, node, wrong)) taken.insert(row.name);
  });
  // What moves values, compares them, or computes with whole numbers exactly.
  CHECK(taken == Rows{"Abs",        "Add",
                      "Cast",       "Clip",
                      "Concat",     "CumSum",
                      "Div",        "Expand",
                      "Gather",     "GatherElements",
                      "GatherND",   "Gemm",
                      "Identity",   "MatMul",
                      "Max",        "Min",
                      "Mod",        "Mul",
                      "Neg",        "Pow",
                      "ReduceMax",  "ReduceMin",
                      "ReduceProd", "ReduceSum",
                      "Relu",       "Reshape",
                      "Roll",       "ScatterElements",
                      "ScatterND",  "Sign",
                      "Slice",      "Split",
                      "Sub",        "Tile",
                      "TopK",       "Transpose",
                      "Trilu",      "Where"});
}

TEST_CASE("what a node says is kept where nothing can be guessed in its place") {
  std::set<std::string> needed;
  const auto look = [&](const graph::OpSchema& row, const graph::Node& node, const Operands& operands) {
    for (const auto& [name, value] : node.attributes.items()) {
      graph::Attributes fewer = node.attributes;
      fewer.erase(name);
      try {
        (void)row.infer({operands, {}, fewer});
      } catch (const BadInput& error) {
        if (std::string(error.what()).find("'" + name + "'") != std::string::npos) needed.insert(std::string(row.name) + " " + name);
      }
    }
  };
  for_every_node(look);
  for_update_nodes(look);
  CHECK(needed == std::set<std::string>{"AveragePool kernel_shape",
                                        "AveragePoolGrad kernel_shape",
                                        "AveragePoolGrad shape",
                                        "BatchNormApply count",
                                        "BatchNormGradInput count",
                                        "BatchNormGradSums count",
                                        "Conv group",
                                        "ConvGradInput shape",
                                        "DampedInverse damping",
                                        "Dropout stream",
                                        "DropoutGrad stream",
                                        "GroupNormApply count",
                                        "GroupNormApply num_groups",
                                        "GroupNormGradInput count",
                                        "GroupNormGradInput num_groups",
                                        "GroupNormGradParameters count",
                                        "GroupNormGradParameters num_groups",
                                        "GroupNormGradSums count",
                                        "GroupNormGradSums num_groups",
                                        "GroupNormSums num_groups",
                                        "MaxPool kernel_shape",
                                        "MaxPoolGrad kernel_shape",
                                        "Pad pads",
                                        "PadGrad pads",
                                        "PadGrad shape",
                                        "Resize sizes",
                                        "ResizeGrad shape",
                                        "ResizeGrad sizes"});
}

TEST_CASE("gradients of another type or rank than what they are gradients of are refused") {
  std::set<std::string_view> types, shapes;
  for_every_node([&](const graph::OpSchema& row, const graph::Node& node, const Operands& operands) {
    if (row.gradient || operands.size() < 2) return;
    for (std::size_t i = 0; i < operands.size(); ++i) {
      if (!operands[i]) continue;
      auto wrong = operands;
      wrong[i]->dtype = operands[i]->dtype == DType::I64 ? DType::F32 : DType::I64;
      if (!refuses(row, node, wrong)) types.insert(row.name);
      wrong = operands;
      wrong[i]->shape.insert(wrong[i]->shape.end(), {11, 13});
      if (!refuses(row, node, wrong)) shapes.insert(row.name);
    }
  });
  // Norms compute in f64 from whatever gradient there is.
  CHECK(types == Rows{"BatchNormGradInput", "BatchNormGradSums", "BatchNormInferenceGradParameters", "DetGrad", "GroupNormGradInput",
                      "GroupNormGradParameters", "GroupNormGradSums", "LayerNormalizationGradInput", "LayerNormalizationGradParameters",
                      "RMSNormalizationGradInput", "RMSNormalizationGradParameters"});
  CHECK(shapes == Rows{"BatchNormInferenceGradInput", "Equal"});
}

}  // namespace rehearsal::exec
