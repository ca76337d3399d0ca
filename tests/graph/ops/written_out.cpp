// The operator table written out, to be read: of nodes of every row, forward and backward, results, work, labels and ways to split, and
// which operands and attributes the row takes besides. A change of a row shows here as a change of these files, which REHEARSAL_WRITE_OUT=1
// writes anew; whoever makes it reads the difference (docs/testing.md).
#include "tests/written_out.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <sstream>

#include "base/join.hpp"
#include "graph/dims/dims.hpp"
#include "graph/training.hpp"
#include "tests/exec/gradient_problem.hpp"
#include "tests/graph/ops/described.hpp"
#include "tests/graph/ops/rows.hpp"
#include "tests/graph/ops/single_nodes.hpp"

namespace rehearsal::graph {
namespace {

using Names = std::map<TensorId, std::string>;

/// Element types of a node's operands, in which many nodes of a file are alike: what is changed of one of them is enough.
std::string signature_of(const RowUse& use) {
  std::string text(use.row.name);
  for (const auto& type : use.operands) text += type ? " " + std::string(name(type->dtype)) + std::to_string(type->shape.size()) : " -";
  for (const auto& [key, value] : use.attributes.items()) text += " " + key;
  return text;
}

/// The nodes of one file, in the order in which they come.
class Page {
 public:
  void add(const Graph& graph, const exec::GradientProblem* problem) {
    const LogicalDims dims(graph);
    const Names names = names_of(graph, problem);
    for (std::size_t n = 0; n < graph.nodes().size(); ++n) {
      const auto id = static_cast<NodeId>(n);
      if (problem == nullptr || !measures(graph, graph[id])) add(dims, id, names);
    }
  }
  void end_case() { text_ << "\n"; }
  /// Which rows the gradient of each operand is made of where nobody asks for the others.
  void add_alone(const exec::GradientCase& all) {
    using Kind = exec::GradientOperand::Kind;
    if (std::ranges::count(all.operands, Kind::Drawn, &exec::GradientOperand::kind) < 2) return;
    for (std::size_t i = 0; i < all.operands.size(); ++i) {
      if (all.operands[i].kind != Kind::Drawn) continue;
      exec::GradientCase one = all;
      for (std::size_t j = 0; j < one.operands.size(); ++j)
        if (j != i && one.operands[j].kind == Kind::Drawn) one.operands[j].kind = Kind::Fixed;
      const exec::GradientProblem problem(one);
      const Graph& graph = problem.graph();
      text_ << "  for x" << i << " alone:";
      for (const Node& node : graph.nodes())
        if (node.phase == Phase::Backward && !measures(graph, node)) text_ << " " << schema(node).name;
      text_ << "\n";
    }
  }
  /// What is made of a node that leaves one of its attributes out, and of its gradient: once an operator and attribute.
  void add_without_attributes(const exec::GradientCase& all) {
    for (const auto& [key, value] : all.attributes.items()) {
      exec::GradientCase one = all;
      one.attributes.erase(key);
      if (all.build != nullptr || !left_out_.insert(all.op + key).second || !is_taken(one)) continue;
      const exec::GradientProblem problem(one);
      const Graph& graph = problem.graph();
      text_ << "  without " << key << ":";
      for (const Node& node : graph.nodes()) {
        if (measures(graph, node)) continue;
        text_ << (&node == graph.nodes().data() ? " " : ", then ") << schema(node).name << "(" << node.attributes.to_text() << ") ";
        text_ << facts_of(schema(node), NodeTypes(graph, node).view());
      }
      text_ << "\n";
    }
  }
  static bool is_taken(const exec::GradientCase& one) {
    RowUse use{schema(op(one.op)), {}, one.attributes};
    for (const auto& operand : one.operands) {
      using Kind = exec::GradientOperand::Kind;
      const DType type = operand.kind == Kind::Integers ? DType::I64 : operand.kind == Kind::Truths ? DType::Bool : DType::F64;
      use.operands.push_back(operand.kind == Kind::Absent ? std::nullopt : std::optional(TensorType{type, operand.shape}));
    }
    return outcome_of(use).refusal.empty();
  }
  void add_updates(const Graph& graph) {
    const LogicalDims dims(graph);
    Names names;
    for (std::size_t t = 0; t < graph.tensors().size(); ++t) names[static_cast<TensorId>(t)] = name_of(graph.tensors()[t]);
    for (std::size_t n = 0; n < graph.nodes().size(); ++n)
      if (graph.nodes()[n].phase == Phase::Update) add(dims, static_cast<NodeId>(n), names);
    end_case();
  }
  /// Of no operands: a builder would fold it.
  void add(const SingleNode& single) {
    const RowUse use{schema(op(single.op)), single.operands, single.attributes};
    const Outcome found = outcome_of(use);
    const std::vector<std::optional<TensorType>> results(found.results.begin(), found.results.end());
    text_ << single.op << "(; " << single.attributes.to_text() << ") = " << text_of(found.results) << "\n  ";
    text_ << facts_of(use.row, {use.operands, results, use.attributes}) << "\n" << changes_of(use, said_[single.op]);
  }
  [[nodiscard]] std::string text() const { return text_.str(); }

 private:
  /// Inputs whose names begin with "w" are what results are weighted with to become a loss: what reads them, and that nodes' gradients.
  static bool measures(const Graph& graph, const Node& node) {
    if (node.phase != Phase::Forward) return node.forward != NodeId::None && measures(graph, graph[node.forward]);
    return std::any_of(node.inputs.begin(), node.inputs.end(), [&](TensorId t) {
      if (t == TensorId::None) return false;
      const NodeId producer = graph[t].producer;
      return producer == NodeId::None ? graph[t].name.front() == 'w' : measures(graph, graph[producer]);
    });
  }

  static std::string constant(const Tensor& tensor) {
    constexpr std::int64_t kMost = 6;
    if (element_count(tensor.type.shape) > kMost) return "constant";
    std::ostringstream text;
    for (const double x : read_reals(tensor.contents, tensor.type.shape, 0, 0)) text << (text.str().empty() ? "" : " ") << x;
    return text.str();
  }

  static std::string name_of(const Tensor& tensor) {
    return tensor.name + (tensor.role == TensorRole::Constant ? "=" + constant(tensor) : "");
  }

  static Names names_of(const Graph& graph, const exec::GradientProblem* problem) {
    Names names;
    for (std::size_t i = 0; i < graph.tensors().size(); ++i) {
      const Tensor& t = graph.tensors()[i];
      const auto id = static_cast<TensorId>(i);
      const bool made = t.producer != NodeId::None;
      const bool scaffold = made && problem != nullptr && measures(graph, graph[t.producer]);
      names[id] = t.role == TensorRole::Constant ? constant(t) : !made ? t.name : scaffold ? "dy" : "t" + std::to_string(i);
    }
    for (std::size_t i = 0; problem != nullptr && i < problem->wanted().size(); ++i)
      names[problem->gradient(i)] = "d" + problem->wanted()[i];
    return names;
  }

  static std::string list_of(const Graph& graph, const std::vector<TensorId>& tensors, const Names& names) {
    return joined(tensors, ", ", [&](TensorId t) {
      return t == TensorId::None ? std::string("-") : names.at(t) + " " + text_of(std::vector{graph[t].type});
    });
  }

  static std::string places_of(const std::vector<OperandDim>& places) {
    return joined(places, " ", [](const OperandDim& p) {
      return std::to_string(p.operand) + "." + std::to_string(p.dim) + (p.factor > 0 ? "." + std::to_string(p.factor) : "");
    });
  }

  /// Factors of a dimension that has labels make up its size.
  static void check_sizes(const std::vector<TensorLabels>& labels, std::span<const std::optional<TensorType>> types) {
    for (std::size_t i = 0; i < labels.size(); ++i) {
      for (std::size_t d = 0; d < labels[i].size(); ++d) {
        Shape factors;
        for (const LabelFactor& factor : labels[i][d]) factors.push_back(factor.size);
        CHECK((factors.empty() || element_count(factors) == types[i]->shape[d]));
      }
    }
  }

  void add(const LogicalDims& dims, NodeId id, const Names& names) {
    constexpr std::array kKinds{"", "sum ", "max ", "min ", "log-sum-exp ", "window ", "opaque "};
    const Graph& graph = dims.graph();
    const Node& node = graph[id];
    const NodeTypes types(graph, node);
    const OpSchema& row = schema(node);
    text_ << row.name << "(" << list_of(graph, node.inputs, names);
    if (!node.attributes.items().empty()) text_ << "; " << node.attributes.to_text();
    text_ << ") = " << list_of(graph, node.outputs, names) << "\n  " << facts_of(row, types.view()) << "\n";
    const auto ways = joined(dims.iteration(id), ", ", [&](const IterDim& way) {
      return kKinds.at(static_cast<std::size_t>(way.kind)) + std::to_string(dims.atoms().size(way.atom)) +
             (way.ranged ? " in ranges (" : " (") + places_of(way.inputs) + " -> " + places_of(way.outputs) + ")";
    });
    if (!ways.empty()) text_ << "  splits " << ways << "\n";
    for (const Misfit& misfit : dims.misfits())
      if (misfit.node == id) text_ << "  misfit: " << misfit.reason << "\n";
    const auto view = types.view();
    if (row.labels != nullptr) {
      INFO(row.name);
      check_sizes(row.labels(view).inputs, view.inputs);
      check_sizes(row.labels(view).outputs, view.outputs);
    }
    const RowUse use{row, {view.inputs.begin(), view.inputs.end()}, node.attributes};
    if (!seen_.insert(signature_of(use)).second) return;
    text_ << changes_of(use, said_[std::string(row.name)]);
    for (const ChangedUse& change : with_empty_operands(use)) {
      INFO(row.name << ", empty: " << change.subject);
      const Outcome found = outcome_of(change.use);
      CHECK((std::isfinite(found.work.flops.value()) && found.work.flops.value() >= 0 && std::isfinite(found.work.bytes.value())));
    }
  }

  std::ostringstream text_;
  std::set<std::string> left_out_;                     ///< attributes, by operator
  std::set<std::string> seen_;                         ///< signatures of what is changed already
  std::map<std::string, std::set<std::string>> said_;  ///< by row: its messages
};

Graph graph_of(const SingleNode& single) {
  GraphBuilder builder;
  std::vector<TensorId> operands;
  for (const auto& type : single.operands)
    operands.push_back(type ? builder.add_input("x" + std::to_string(operands.size()), *type) : TensorId::None);
  builder.set_outputs(builder.add(single.op, operands, single.attributes));
  return std::move(builder).build();
}

/// A matrix between others, and a vector, with an optimizer of which every number is set.
Graph trained_by(const OptimizerRow& optimizer) {
  GraphBuilder builder;
  const auto weight = [&](const char* name, Shape shape) {
    return builder.add_stored(name, {DType::F32, std::move(shape)}, TensorRole::Parameter, {});
  };
  TensorId y = builder.add1("Gemm", {builder.add_input("x", {DType::F32, {8, 3}}), weight("first", {3, 4}), weight("bias", {4})});
  for (const auto& [name, width] : {std::pair("middle", 5), std::pair("last", 2)})
    y = builder.add1("MatMul", {builder.add1("Relu", {y}), weight(name, {builder.type(y).shape.back(), width})});
  builder.set_outputs({y});
  TrainingOptions options;
  options.loss = "mse";
  options.optimizer.name = optimizer.name;
  // Once is enough of what is the same for all.
  const bool first = &optimizer == &optimizer_table().front();
  options.clip_norm = first ? 1 : 0;
  options.clip_value = first ? 2 : 0;
  options.noise_scale = first;
  for (const auto& parameter : optimizer.parameters)
    if (parameter.otherwise == 0) options.optimizer.values[std::string(parameter.name)] = parameter.name == "nesterov" ? 1 : 0.125;
  return build_training_graph(std::move(builder).build(), options).graph;
}

using Family = exec::GradientCases (*)();
std::string page_of(const std::vector<Family>& families, SingleNodes (*singles)()) {
  Page page;
  for (const Family family : families) {
    for (const exec::GradientCase& one : family()) {
      const exec::GradientProblem problem(one);
      page.add(problem.graph(), &problem);
      page.add_alone(one);
      page.add_without_attributes(one);
      page.end_case();
    }
  }
  for (const SingleNode& single : singles != nullptr ? singles() : SingleNodes()) {
    single.operands.empty() ? page.add(single) : page.add(graph_of(single), nullptr);
    page.end_case();
  }
  return page.text();
}

std::string path_of(const std::string& file) { return std::string(REHEARSAL_WRITTEN_OUT) + "/" + file + ".txt"; }

}  // namespace

TEST_CASE("Operators say what is written out of them") {
  std::string lines;
  for (const OpSchema& row : op_table()) lines += line_of(row) + "\n";
  test::check_written_out(path_of("rows"), lines);
}

TEST_CASE("Nodes of every row are what is written out of them") {
  struct Written {
    const char* file;
    std::vector<Family> families;
    SingleNodes (*singles)() = nullptr;
  };
  const auto [file, families, singles] = GENERATE(values<Written>({
      {"elementwise", {exec::elementwise_cases, exec::dropout_cases}, elementwise_nodes},
      {"matrices", {exec::matrix_cases, exec::delta_rule_cases}, matrix_nodes},
      {"attention", {exec::softmax_cases}, attention_nodes},
      {"reductions", {exec::reduction_cases, exec::selection_cases}, reduction_nodes},
      {"movement", {exec::movement_cases}, movement_nodes},
      {"gather", {exec::gather_cases}, gather_nodes},
      {"convolutions", {exec::convolution_cases}},
      {"pools", {exec::pooling_cases, exec::resize_cases}, image_nodes},
      {"normalizations", {exec::normalization_cases}, normalization_nodes},
      {"losses", {exec::loss_cases}, loss_nodes},
      {"updates", {}, update_nodes},
  }));
  test::check_written_out(path_of(file), page_of(families, singles));
}

TEST_CASE("Updates of every optimizer are those that are written out") {
  Page page;
  for (const OptimizerRow& optimizer : optimizer_table()) page.add_updates(trained_by(optimizer));
  test::check_written_out(path_of("optimizers"), page.text());
}

}  // namespace rehearsal::graph
