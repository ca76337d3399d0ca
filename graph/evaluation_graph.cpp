#include "graph/evaluation_graph.hpp"

#include "graph/graph_copy.hpp"
#include "graph/loss_choice.hpp"
#include "graph/op_schema.hpp"

namespace rehearsal::graph {
namespace {

/// Copies the forward nodes of a model, each as it works after training.
class AfterTraining : GraphCopy {
 public:
  explicit AfterTraining(const Graph& model) : GraphCopy(model), readers_(model.consumers()) {}

  Graph build() && {
    copy_inputs();
    copy_stored();
    for (const Node& node : original_.nodes())
      if (node.phase == Phase::Forward) add(node);
    return finish();
  }

 private:
  void add(const Node& node) {
    if (has(schema(node).traits, Trait::TrainingOnly)) {
      put(node.outputs[0], copied(node.inputs[0]));
      return;
    }
    if (schema(node).name == "BatchNormApply") {
      if (const Node* running = running_of(node.inputs[1])) return add_inference(node, *running);
    }
    put_results(node, builder_.add(schema(node).name, copied(node.inputs), node.attributes, options_of(node)));
  }

  /// The node that updates running statistics from these sums; nullptr when none are kept.
  [[nodiscard]] const Node* running_of(TensorId sums) const {
    for (const NodeId n : readers_[index(sums)])
      if (schema(original_[n]).name == "BatchNormRunning") return &original_[n];
    return nullptr;
  }

  void add_inference(const Node& node, const Node& running) {
    const std::vector<TensorId> inputs = {copied(node.inputs[0]), copied(node.inputs[2]), copied(node.inputs[3]), copied(running.inputs[1]),
                                          copied(running.inputs[2])};
    put_results(node, builder_.add("BatchNormInference", inputs, {{"epsilon", node.attributes.number("epsilon", 1e-5)}}, options_of(node)));
  }

  std::vector<std::vector<NodeId>> readers_;
};

}  // namespace

std::int64_t batch_of(const Graph& model) {
  for (const TensorId t : model.inputs())
    if (!model[t].type.shape.empty()) return model[t].type.shape[0];
  return 0;
}

EvaluationGraph build_evaluation_graph(const Graph& model, const TrainingOptions& options) {
  const Graph forward = AfterTraining(model).build();
  GraphBuilder builder(forward);
  const ChosenLoss chosen = add_loss(builder, forward, options);
  if (chosen.loss != TensorId::None) builder.keep(chosen.loss);
  EvaluationGraph result;
  Renumbering renumber;
  const std::vector<TensorId> outputs = forward.outputs();
  result.step.batch = batch_of(model);
  result.step.graph = std::move(builder).build(&renumber);
  result.step.loss = renumber(chosen.loss);
  result.step.target = renumber(chosen.target);
  for (const TensorId t : outputs) result.outputs.push_back(renumber(t));
  for (const TensorId t : model.outputs()) result.names.push_back(model[t].name);
  return result;
}

}  // namespace rehearsal::graph
