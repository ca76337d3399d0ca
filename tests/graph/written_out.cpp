// Training graphs written out, to be read: what a small model becomes with every loss, in 16 bits, with frozen weights, clipped gradients
// and so on: its nodes, what it stores, and what it is warned of (docs/testing.md).
#include "tests/written_out.hpp"

#include <algorithm>
#include <array>
#include <sstream>

#include "base/join.hpp"
#include "graph/loss_scaling.hpp"
#include "graph/narrow_type.hpp"
#include "graph/op_schema.hpp"
#include "tests/graph/dims/models.hpp"

namespace rehearsal::graph {
namespace {

/// A table, an embedding, dropout, a normalization of batches, two matrices, and a mask that is stored.
Graph small_model() {
  test::Net n;
  const TensorId ids = n.input("ids", {4, 3}, DType::I64), image = n.input("image", {4, 2, 5});
  const TensorId words = n.op("Gather", {n.parameter("table", {7, 6}), ids}, {{"padding", std::int64_t{0}}});
  const TensorId masked = n.op("Mul", {words, n.constant("mask", {3, 6})});
  const TensorId kept = n.op("Dropout", {n.reshape(masked, {4, 18})}, {{"ratio", 0.25}, {"stream", std::int64_t{3}}});
  const TensorId seen = n.reshape(n.op("Relu", {n.batch_norm(image, "norm")}), {4, 10});
  const TensorId hidden = n.op("Tanh", {n.linear(n.op("Concat", {kept, seen}, {{"axis", std::int64_t{1}}}), "fc1", 8)});
  return n.model(n.linear(hidden, "fc2", 5));
}

/// Images out.
Graph convolving_model() {
  test::Net n;
  return n.model(n.conv(n.input("x", {4, 2, 6, 6}), "conv", 3));
}

/// Matrices alone, without sums over a batch.
Graph plain_model() {
  test::Net n;
  return n.model(n.linear(n.op("Relu", {n.linear(n.input("x", {4, 6}), "fc1", 8)}), "fc2", 5));
}

std::string name_of(const Graph& graph, TensorId t) {
  if (t == TensorId::None) return "-";
  const Tensor& tensor = graph[t];
  if (tensor.role != TensorRole::Constant || !tensor.contents.known() || element_count(tensor.type.shape) > 1) return tensor.name;
  std::ostringstream text;
  text << tensor.name << "=" << read_reals(tensor.contents, tensor.type.shape, 0, 0).front();
  return text.str();
}

std::string line_of_node(const Graph& graph, const Node& node) {
  std::ostringstream text;
  const auto names = [&](const std::vector<TensorId>& tensors) {
    return joined(tensors, ", ", [&](TensorId t) { return name_of(graph, t); });
  };
  text << "  " << node.name << " = " << schema(node).name << "(" << names(node.inputs);
  if (!node.attributes.items().empty()) text << "; " << node.attributes.to_text();
  text << ")";
  if (node.forward != NodeId::None) text << " of " << graph[node.forward].name;
  text << " -> " << joined(node.outputs, ", ", [&](TensorId t) {
    if (t == TensorId::None) return std::string("-");
    const Tensor& tensor = graph[t];
    return tensor.name + " " + std::string(name(tensor.type.dtype)) + to_text(tensor.type.shape) +
           (tensor.stored_in == TensorId::None ? "" : " over " + graph[tensor.stored_in].name);
  });
  return text.str() + "\n";
}

std::string text_of_training(const TrainingGraph& t) {
  constexpr std::array kRoles{"input", "parameter", "state", "slot", "frozen", "constant"};
  constexpr std::array kPhases{"forward", "backward", "update"};
  std::ostringstream text;
  text << "batch " << t.batch << ", loss " << name_of(t.graph, t.loss) << ", target " << name_of(t.graph, t.target) << ", step "
       << name_of(t.graph, t.step) << "\n";
  for (const std::string& warning : t.warnings) text << "warning: " << warning << "\n";
  for (const Untrainable& u : t.untrainable) text << "untrainable: " << t.graph[u.node].name << ", " << u.reason << "\n";
  for (const Tensor& tensor : t.graph.tensors())
    if (tensor.producer == NodeId::None)
      text << "  " << kRoles.at(static_cast<std::size_t>(tensor.role)) << " " << tensor.name << " " << name(tensor.type.dtype)
           << to_text(tensor.type.shape) << "\n";
  for (const TrainedParameter& p : t.parameters)
    text << "  " << t.graph[p.value].name << " by " << t.graph[p.update].name << " from " << t.graph[p.gradient].name << ", with "
         << joined(p.slots, ", ", [&](TensorId slot) { return t.graph[slot].name; }) << "\n";
  for (const Phase phase : {Phase::Forward, Phase::Backward, Phase::Update}) {
    text << kPhases.at(static_cast<std::size_t>(phase)) << "\n";
    for (const Node& node : t.graph.nodes())
      if (node.phase == phase) text << line_of_node(t.graph, node);
  }
  return text.str();
}

TrainingOptions with_optimizer(const std::string& optimizer, const std::string& loss = "cross-entropy") {
  TrainingOptions options;
  options.loss = loss;
  options.optimizer.name = optimizer;
  return options;
}

void check_training(const std::string& file, const TrainingGraph& training) {
  rehearsal::test::check_written_out(std::string(REHEARSAL_WRITTEN_OUT) + "/" + file + ".txt", text_of_training(training));
}

}  // namespace

TEST_CASE("Training graphs are those that are written out") {
  TrainingOptions measured = with_optimizer("sgd");
  measured.clip_norm = 1;
  measured.clip_value = 0.5;
  measured.noise_scale = true;
  check_training("measured", build_training_graph(small_model(), measured));
  TrainingOptions frozen = with_optimizer("adam");
  frozen.freeze = {"fc1*", "nothing*", "Tanh*"};  // the last is what is computed
  frozen.train = {"mask", "norm*"};
  frozen.dropout = false;
  check_training("frozen", build_training_graph(small_model(), frozen));
  check_training("averaged", build_training_graph(small_model(), with_optimizer("schedule-free-adamw")));
  check_training("narrow", build_training_graph(with_narrow_type(small_model(), DType::BF16).graph, with_optimizer("adamw")));
  check_training("scaled", build_training_graph(with_narrow_type(plain_model(), DType::F16).graph, with_optimizer("lamb"), {1024, true}));
  check_training("factors", build_training_graph(plain_model(), with_optimizer("kfac")));
}

TEST_CASE("Losses are those that are written out") {
  std::string text;
  for (const LossRow& row : loss_table()) {
    const Graph model = row.name == "dice" ? convolving_model() : plain_model();
    const Graph graph = build_training_graph(model, with_optimizer("sgd", std::string(row.name))).graph;
    const auto is_of_loss = [&](NodeId id) { return index(id) >= model.nodes().size() && graph[id].phase == Phase::Forward; };
    text += std::string(row.name) + " of " + to_text(graph[graph.find("target")].type.shape) + "\n";
    for (std::size_t n = 0; n < graph.nodes().size(); ++n) {
      const Node& node = graph.nodes()[n];
      if (is_of_loss(static_cast<NodeId>(n)) || (node.forward != NodeId::None && is_of_loss(node.forward)))
        text += line_of_node(graph, node);
    }
  }
  rehearsal::test::check_written_out(std::string(REHEARSAL_WRITTEN_OUT) + "/losses.txt", text);
}

}  // namespace rehearsal::graph
